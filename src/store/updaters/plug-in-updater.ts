// plug-in-updater — runs an updater that is plain TypeScript (ps-updater.ts) on the rows of one parameter: lists where
// they lie, hands them over, and sees to it that an update counts whole or not at all.
//
//   table row   width elements | columns, one after the other
//   block       columns in a span of their own: column k of all rows, then column k + 1 of all rows
//
// Invariants:
//   PlugInUpdater.G1. An update that throws, or whose outcome is not finite, leaves rows and columns as they were; what
//       happens to the push then the spec's policy says, or HANDLER_FAILED, which names the updater and its module.
//   PlugInUpdater.G2. A round that fails is not applied, nor is any later one: `roundFailed` learns of it, once.
//   PlugInUpdater.G3. What a plug-in gets is finite where its elements are floats, and scaled already.

import { type ErrorCode, isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import { WORD_BYTES } from "../../kernel/elements.ts";
import { elementsAt, fillElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { RowsInHand } from "../row-types/ps-row-type.ts";
import { LearningRate } from "./learning-rate.ts";
import type { ResolvedOptimizer } from "./optimizer-spec.ts";
import type { BlockAddresses, ParameterUpdater } from "./parameter-updater.ts";
import type { PsUpdater, UpdaterSettings, UpdaterStep } from "./ps-updater.ts";
import type { SlotLayout } from "./slot-layout.ts";
import { UpdateJournal } from "./update-journal.ts";
import type { NonFiniteCounts, UpdatedBlock, UpdateStep } from "./updater.ts";

/** A column of each row: where it begins behind the row's values, in elements. */
export type PlacedColumn = { readonly name: string; readonly elements: number; readonly start: number; readonly offset: number };

export type PlugInUpdaterOptions = {
  readonly arena: Arena;
  readonly chosen: {
    readonly updater: PsUpdater;
    readonly columns: readonly PlacedColumn[];
    readonly settings: UpdaterSettings;
    /** As errors name it. */
    readonly what: string;
    /** Whether it is ours, and never throws. */
    readonly isOurs: boolean;
  };
  readonly spec: ResolvedOptimizer;
  readonly element: RowElement;
  /** Elements of a row. */
  readonly width: number;
  /** Called when a round fails (PlugInUpdater.G2). */
  readonly roundFailed?: ((failure: WeighbridgeError) => void) | undefined;
};

const LIST_FIRST = 1024;
const NO_LAYOUT: SlotLayout = { slots: [], slotFloats: 0, wordsPerRow: 0 };

/** The outcome of an update is not finite. */
class NotFiniteOutcome extends Error {}

/**
 * What row types of ours say of updates that do not fit their rows; everything else that is thrown is HANDLER_FAILED.
 */
const CODES_KEPT: readonly ErrorCode[] = ["OUT_OF_RANGE", "BAD_REQUEST"];

/** A plug-in threw. */
class FailedUpdate extends WeighbridgeError {}

/** The lists that a plug-in gets, made anew only when they are too short. */
type Lists = { readonly starts: Uint32Array; readonly gradients: Uint32Array; readonly columns: Readonly<Record<string, Uint32Array>> };

export class PlugInUpdater implements ParameterUpdater {
  readonly spec: ResolvedOptimizer;
  readonly width: number;
  readonly layout: SlotLayout = NO_LAYOUT;
  readonly rate: LearningRate;
  readonly counts: NonFiniteCounts = { refusedPushes: 0, skippedPushes: 0, zeroedElements: 0 };
  readonly countsRows = false;
  readonly countsPushes = false;
  readonly notesPulls = false;
  readonly comparedRank = undefined;
  readonly rowSteps = 0;
  readonly isTried = true;
  readonly #options: PlugInUpdaterOptions;
  readonly #columns: readonly PlacedColumn[];
  /** Whether nothing can go wrong: then nothing is kept. */
  readonly #isSafe: boolean;
  readonly #journal: UpdateJournal;
  readonly #elements: RowArray;
  readonly #elementBytes: number;
  readonly #extraElements: number;
  #lists: Lists;
  #step: UpdaterStep;
  #scale = 1;
  /** PlugInUpdater.G2 */
  #hasFailed = false;

  constructor(options: PlugInUpdaterOptions) {
    const { arena, spec, element, width, chosen } = options;
    const { columns, settings } = chosen;
    const { bytes } = ROW_ELEMENTS[element];
    this.#options = options;
    this.#columns = columns;
    this.#isSafe = chosen.isOurs && !ROW_ELEMENTS[element].isFloat;
    this.spec = spec;
    this.width = (width * bytes) / WORD_BYTES;
    this.rate = new LearningRate(spec);
    this.#journal = new UpdateJournal(arena.words);
    this.#elements = elementsAt(element, arena.memory.buffer, 0, arena.bytes.length / bytes);
    this.#elementBytes = bytes;
    this.#extraElements = columns.reduce((sum, { elements }) => sum + elements, 0);
    this.#lists = listsOf(columns, LIST_FIRST);
    this.#step = { settings, learningRate: 0, clock: 0, worker: undefined };
  }

  countRows(): void {}
  noteMagnitude(): void {}
  close(): void {}

  begin({ scheduleStep, gradientScale, workerRank }: UpdateStep): void {
    this.#scale = gradientScale;
    const { settings } = this.#step;
    this.#step = { settings, learningRate: this.rate.at(scheduleStep), clock: scheduleStep, worker: workerRank };
  }

  /** PlugInUpdater.G1 */
  attempt(apply: () => void, undone: () => void = () => {}): boolean {
    this.#journal.clear();
    try {
      apply();
      return true;
    } catch (thrown) {
      this.#journal.undo();
      undone();
      if (!(thrown instanceof NotFiniteOutcome)) throw thrown;
      if (this.spec.nonFinite !== "refuse") {
        this.counts.skippedPushes++;
        return false;
      }
      this.counts.refusedPushes++;
      throw new WeighbridgeError(
        "NOT_FINITE",
        `${this.#options.chosen.what} made of what was pushed what is not finite: nothing of it counts`,
      );
    } finally {
      this.#journal.clear();
    }
  }

  admitSum(gradients: number, wordCount: number): number | undefined {
    return this.inRound(() => this.admit(gradients, wordCount));
  }

  /** PlugInUpdater.G3 */
  admit(gradients: number, wordCount: number): number | undefined {
    const { element, spec } = this.#options;
    if (!ROW_ELEMENTS[element].isFloat) return 0;
    const first = gradients / this.#elementBytes;
    const end = first + (wordCount * WORD_BYTES) / this.#elementBytes;
    const elements = this.#elements as Float64Array;
    const at = firstNotFinite(elements, first, end);
    if (at < 0) return 0;
    if (spec.nonFinite === "zero") {
      this.counts.zeroedElements += zeroNotFinite(elements, at, end);
      return 0;
    }
    if (spec.nonFinite === "skip") {
      this.counts.skippedPushes++;
      return undefined;
    }
    this.counts.refusedPushes++;
    const what = `element ${at - first} of ${end - first} pushed is ${elements[at]}`;
    throw new WeighbridgeError("NOT_FINITE", `${what}: expected finite numbers`);
  }

  /** PlugInUpdater.G2 */
  inRound<T>(act: () => T): T | undefined {
    if (this.#hasFailed) return undefined;
    try {
      return act();
    } catch (thrown) {
      if (thrown instanceof FailedUpdate || isWeighbridgeError(thrown, "HANDLER_FAILED")) {
        this.#hasFailed = true;
        this.#options.roundFailed?.(thrown);
      } else if (!isWeighbridgeError(thrown, "NOT_FINITE")) throw thrown;
      return undefined;
    }
  }

  rowExtraBytes(): number {
    return this.#extraElements * this.#elementBytes;
  }

  startRows(rows: number, rowCount: number): void {
    const { arena, width } = this.#options;
    for (const { elements: columnWidth, start, offset } of this.#columns) {
      if (start === 0) continue;
      for (let i = 0; i < rowCount; i++) {
        const from = (arena.words[(rows >>> 2) + i] as number) / this.#elementBytes + width + offset;
        fillElements(this.#elements, start, from, from + columnWidth);
      }
    }
  }

  updateRows(rows: number, rowCount: number, gradients: number): void {
    const { width, arena } = this.#options;
    const { starts, columns: lists } = this.#listsFor(rowCount);
    const { words } = arena;
    const rowWords = this.width + (this.#extraElements * this.#elementBytes) / WORD_BYTES;
    const shift = this.#elementBytes === WORD_BYTES ? 2 : 3;
    for (let i = 0, list = rows >>> 2; i < rowCount; i++) {
      const address = words[list + i] as number;
      starts[i] = address >>> shift;
      if (!this.#isSafe) this.#journal.keep(address >>> 2, rowWords);
    }
    for (const { name, offset } of this.#columns) {
      const list = lists[name] as Uint32Array;
      for (let i = 0; i < rowCount; i++) list[i] = (starts[i] as number) + width + offset;
    }
    this.#update(rowCount, gradients);
  }

  updatePulledRows(rows: number, _pulled: number, rowCount: number, gradients: number): void {
    this.updateRows(rows, rowCount, gradients);
  }

  updateBlock(block: UpdatedBlock, gradients: number): void {
    this.updateBlockRun(block, { from: 0, to: block.rowCount }, gradients);
  }

  updateBlockRun(block: UpdatedBlock, { from, to }: { readonly from: number; readonly to: number }, gradients: number): void {
    const { arena, width } = this.#options;
    const rowBytes = width * this.#elementBytes;
    const [first, end] = [from * rowBytes, to * rowBytes];
    if (block.target !== block.source) arena.bytes.copyWithin(block.target + first, block.source + first, block.source + end);
    const { starts } = this.#listsFor(to - from);
    for (let i = 0; i < to - from; i++) starts[i] = from + i;
    this.#updateListed({ values: block.target, slots: block.slots, rowCount: block.rowCount }, to - from, gradients + first);
  }

  updateBlockRows(block: BlockAddresses, rows: number, listed: number, gradients: number): void {
    const { starts } = this.#listsFor(listed);
    for (let i = 0; i < listed; i++) starts[i] = this.#options.arena.words[(rows >>> 2) + i] as number;
    this.#updateListed(block, listed, gradients);
  }

  slotStride(): number {
    return 0;
  }

  blockSlotBytes(rowCount: number): number {
    return rowCount * this.#extraElements * this.#elementBytes;
  }

  startBlock(_values: number, slots: number, rowCount: number): void {
    for (const { elements: columnWidth, start, offset } of this.#columns) {
      const from = slots / this.#elementBytes + offset * rowCount;
      fillElements(this.#elements, start, from, from + columnWidth * rowCount);
    }
  }

  /** Updates the rows of a block that `starts` lists by index; turns these into offsets. */
  #updateListed({ values, slots, rowCount }: BlockAddresses, count: number, gradients: number): void {
    const { width } = this.#options;
    const { starts, columns: lists } = this.#lists;
    const wordsPerElement = this.#elementBytes / WORD_BYTES;
    const [firstValue, firstSlot] = [values / this.#elementBytes, slots / this.#elementBytes];
    for (const { name, offset, elements } of this.#columns) {
      const list = lists[name] as Uint32Array;
      for (let i = 0; i < count; i++) {
        const at = firstSlot + offset * rowCount + (starts[i] as number) * elements;
        list[i] = at;
        this.#journal.keep(at * wordsPerElement, elements * wordsPerElement);
      }
    }
    for (let i = 0; i < count; i++) {
      const at = firstValue + (starts[i] as number) * width;
      starts[i] = at;
      this.#journal.keep(at * wordsPerElement, this.width);
    }
    this.#update(count, gradients);
  }

  /** Of rows that are listed, and kept in the journal. */
  #update(count: number, gradients: number): void {
    const { chosen, element, width } = this.#options;
    const { starts, gradients: from, columns } = this.#lists;
    const elements = this.#elements;
    const first = gradients / this.#elementBytes;
    for (let i = 0; i < count; i++) from[i] = first + i * width;
    // PlugInUpdater.G3
    if (this.#scale !== 1) scaleElements(elements as Float64Array, first, first + count * width, this.#scale);
    const rows: RowsInHand = { count, width, elements, starts, columns };
    try {
      const outcome: unknown = chosen.updater.update(rows, { count, width, elements, starts: from }, this.#step);
      if (outcome instanceof Promise) throw unfinished(outcome);
    } catch (thrown) {
      const code = isWeighbridgeError(thrown) && CODES_KEPT.includes(thrown.code) ? thrown.code : "HANDLER_FAILED";
      throw new FailedUpdate(code, `${chosen.what} threw, and nothing of the push was applied: ${reasonOf(thrown)}`, { cause: thrown });
    }
    if (ROW_ELEMENTS[element].isFloat) this.#checkOutcome(rows);
  }

  #checkOutcome({ count, width, starts, columns }: RowsInHand): void {
    const elements = this.#elements as Float64Array;
    if (!areFinite(elements, starts, count, width)) throw new NotFiniteOutcome();
    for (const { name, elements: columnWidth } of this.#columns)
      if (!areFinite(elements, columns[name] as Uint32Array, count, columnWidth)) throw new NotFiniteOutcome();
  }

  #listsFor(count: number): Lists {
    if (count > this.#lists.starts.length) this.#lists = listsOf(this.#columns, Math.max(count, 2 * this.#lists.starts.length));
    return this.#lists;
  }
}

/** What an update does after it has returned would change memory that is not its own any more. */
function unfinished(outcome: Promise<unknown>): Error {
  outcome.catch(() => {}); // nobody waits for it
  return new Error("it returned a promise, and an update is done when it returns");
}

function listsOf(columns: readonly PlacedColumn[], length: number): Lists {
  const named = columns.map(({ name }) => [name, new Uint32Array(length)] as const);
  return { starts: new Uint32Array(length), gradients: new Uint32Array(length), columns: Object.fromEntries(named) };
}

/** Free functions over one kind of array each: V8 compiles them for those that a server has. */
function firstNotFinite(elements: Float64Array, from: number, to: number): number {
  for (let at = from; at < to; at++) if (!Number.isFinite(elements[at])) return at;
  return -1;
}

function zeroNotFinite(elements: Float64Array, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at++) {
    if (Number.isFinite(elements[at])) continue;
    elements[at] = 0;
    count++;
  }
  return count;
}

function scaleElements(elements: Float64Array, from: number, to: number, scale: number): void {
  for (let at = from; at < to; at++) elements[at] = (elements[at] as number) * scale;
}

/** A finite number less itself is 0, and every other NaN, which stays. */
function areFinite(elements: Float64Array, starts: Uint32Array, count: number, width: number): boolean {
  let sum = 0;
  for (let i = 0; i < count; i++) {
    const start = starts[i] as number;
    for (let at = start; at < start + width; at++) {
      const value = elements[at] as number;
      sum += value - value;
    }
  }
  return sum === 0;
}
