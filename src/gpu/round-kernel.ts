// round-kernel — one kind of round, compiled for a card: launched for a single large key, or for many small ones at
// once with a table of their addresses. Not what belongs into a round (cuda-backend.ts).
//
// Invariants:
//   RoundKernel.R1. What `append` wrote belongs to the next `writeTable`; nothing is kept beyond it.
//   RoundKernel.R2. The table of a launch lies in memory that nobody writes until the launch is done: the caller takes
//       it from a TablePool and gives it back then.
//   RoundKernel.R3. What a RoundRest names is 16-byte aligned: results and slots of keys are.

import { assert } from "../base/assert.ts";
import { ROW_ELEMENTS } from "../kernel/row-element.ts";
import type { CudaCard } from "./cuda-card.ts";
import { CudaKernel, PARAMETER_BYTES_MAX } from "./cuda-kernel.ts";
import type { CudaStream } from "./cuda-stream.ts";
import type { PinnedSpan } from "./pinned-memory.ts";
import { FLAG, ROUND_OPTIONS, ROUND_SHAPE, type RoundKind, roundSource, roundWords, SETTING_COUNT } from "./round-source.ts";
import type { TensorRefs } from "./tensor-refs.ts";

/** The spans of one round, by their addresses; 0 is none. Callers keep one and fill it anew for each round. */
export type RoundSpans = {
  sources: number[];
  /** Those that are not wanted are 0. */
  targets: number[];
  previous: number;
  result: number;
  slot0: number;
  slot1: number;
  /** Elements of each span. */
  length: number;
  /** Of the update, in the order of SETTING; undefined if the rule has none. */
  settings: Float64Array | undefined;
  /** FLAG.bare and FLAG.decays. */
  flags: number;
};

/** What a round reads and writes, by refs (tensor-refs.ts). */
export type RoundRefs = { readonly sources: readonly number[]; readonly targets: readonly number[] };

/** What a round has beside its sources and targets, if that is the same in every round: where the kernel keeps it. */
export type RoundRest = { readonly at: number; readonly tileCount: number };

/** A table on the card with all that a launch of its rounds needs. */
export type LaunchTable = { readonly span: TableSpan; readonly roundCount: number; readonly tileCount: number };

/** Pinned memory and memory of the card, of the same size, for the table of a launch. */
export type TableSpan = { readonly pinned: PinnedSpan; readonly address: number };

const ROUNDS_AT_FIRST = 64;
const TWO_32 = 2 ** 32;
/** Where the flags are in a RoundRest. */
const REST_FLAGS = 10;

export class RoundKernel {
  readonly kind: RoundKind;
  readonly #card: CudaCard;
  readonly #one: CudaKernel;
  readonly #many: CudaKernel;
  /** 32-bit words of a round. */
  readonly #roundWords: number;
  readonly #single: RoundRecord;
  readonly #singlePointers = new BigUint64Array(8);
  #table: RoundRecord;
  #firstTiles = new Int32Array(ROUNDS_AT_FIRST);
  /** Of all keys, one after the other (RoundRest). */
  #rests = new Int32Array(ROUNDS_AT_FIRST * 64);
  #restWords = 0;
  #roundCount = 0;
  #tileCount = 0;
  readonly #manyValues = new DataView(new ArrayBuffer(64));
  readonly #manyPointers = new BigUint64Array(8);

  /** Throws KERNEL_REJECTED or DEVICE_FAILED if the card cannot have it. */
  constructor(stream: CudaStream, kind: RoundKind) {
    this.kind = kind;
    this.#card = stream.card;
    const source = roundSource(kind);
    this.#one = new CudaKernel(stream, source, "reduceOne", ROUND_OPTIONS);
    this.#many = new CudaKernel(stream, source, "reduceMany", ROUND_OPTIONS);
    this.#roundWords = 2 * roundWords(kind);
    assert(this.#roundWords * 4 <= PARAMETER_BYTES_MAX, `a round of ${kind.sourceCount} devices is too large for a launch`);
    this.#single = new RoundRecord(this.#roundWords, 1);
    this.#table = new RoundRecord(this.#roundWords, ROUNDS_AT_FIRST);
    const { native } = this.#card.driver;
    this.#singlePointers[0] = native.address(this.#single.words);
    const values = native.address(this.#manyValues);
    for (let i = 0; i < 3; i++) this.#manyPointers[i] = values + BigInt(8 * i);
  }

  /** Rounds that `append` has gathered. */
  get roundCount(): number {
    return this.#roundCount;
  }

  /** Launches one round; it pays for large ones. */
  launchOne(spans: RoundSpans, stream: CudaStream): void {
    this.#single.write(this.kind, 0, spans);
    this.#one.launchWith(this.#singlePointers, { grid: this.#tilesOf(spans), block: ROUND_SHAPE.blockThreads, stream });
  }

  /** RoundKernel.R1 */
  append(spans: RoundSpans): void {
    if (this.#roundCount === this.#firstTiles.length) this.#grow();
    this.#table.write(this.kind, this.#roundCount * this.#roundWords, spans);
    this.#firstTiles[this.#roundCount++] = this.#tileCount;
    this.#tileCount += this.#tilesOf(spans);
  }

  /** Keeps all of `spans` but its sources and targets, for `appendWith`. */
  keepRest(spans: RoundSpans): RoundRest {
    this.#single.write(this.kind, 0, spans);
    const words = this.#single.words.subarray(2 * (this.kind.sourceCount + this.kind.targetCount));
    words[REST_FLAGS] = spans.flags;
    const at = this.#restWords;
    if (at + words.length > this.#rests.length) this.#rests = grown(this.#rests, 2 * this.#rests.length);
    this.#rests.set(words, at);
    this.#restWords += words.length;
    return { at, tileCount: this.#tilesOf(spans) };
  }

  /**
   * As `append`, of as many sources as the kernel has, and targets by their refs, which were checked
   * (RoundKernel.R3).
   */
  appendWith({ at: from, tileCount }: RoundRest, { sources, targets }: RoundRefs, refs: TensorRefs): void {
    if (this.#roundCount === this.#firstTiles.length) this.#grow();
    const { words } = this.#table;
    const rests = this.#rests;
    const restWords = this.#roundWords - 2 * (this.kind.sourceCount + this.kind.targetCount);
    const { sourceCount, targetCount } = this.kind;
    let at = this.#roundCount * this.#roundWords;
    let low = 0;
    for (let i = 0; i < sourceCount; i++, at += 2) low |= refs.write(sources[i]!, words, at);
    for (let i = 0; i < targetCount; i++, at += 2) low |= refs.write(i < targets.length ? targets[i]! : 0, words, at);
    for (let i = 0; i < restWords; i++) words[at + i] = rests[from + i]!;
    if ((low & 15) === 0) words[at + REST_FLAGS] = rests[from + REST_FLAGS]! | FLAG.aligned;
    this.#firstTiles[this.#roundCount++] = this.#tileCount;
    this.#tileCount += tileCount;
  }

  /** Drops what was appended: nothing of it is launched. */
  clear(): void {
    this.#roundCount = 0;
    this.#tileCount = 0;
  }

  /** Bytes of the table that the next `writeTable` needs. */
  get tableBytes(): number {
    return 4 * this.#roundCount * (this.#roundWords + 1);
  }

  /**
   * Copies what was appended to the card. The span is the caller's again when the last launch of it is done
   * (RoundKernel.R2).
   */
  writeTable(span: TableSpan, stream: CudaStream): LaunchTable {
    const { tableBytes } = this;
    const table = { span, roundCount: this.#roundCount, tileCount: this.#tileCount };
    const roundBytes = this.#roundBytes(table);
    const words = new Int32Array(span.pinned.buffer);
    words.set(this.#table.words.subarray(0, roundBytes / 4));
    words.set(this.#firstTiles.subarray(0, this.#roundCount), roundBytes / 4);
    this.clear();
    const { cuMemcpyHtoDAsync } = this.#card.driver.functions;
    this.#card.enter();
    this.#card.check(cuMemcpyHtoDAsync(span.address, span.pinned.address, tableBytes, stream.handle), "a copy of addresses to the card");
    return table;
  }

  /** Launches the rounds of a table that this kernel has written, on the same stream; as often as they come. */
  launchTable(table: LaunchTable, stream: CudaStream): void {
    const { address } = table.span;
    this.#manyValues.setBigUint64(0, BigInt(address), true);
    this.#manyValues.setBigUint64(8, BigInt(address + this.#roundBytes(table)), true);
    this.#manyValues.setUint32(16, table.roundCount, true);
    this.#many.launchWith(this.#manyPointers, { grid: table.tileCount, block: ROUND_SHAPE.blockThreads, stream });
  }

  #roundBytes({ roundCount }: LaunchTable): number {
    return 4 * roundCount * this.#roundWords;
  }

  #tilesOf({ length }: RoundSpans): number {
    return Math.ceil((length * ROW_ELEMENTS[this.kind.element].bytes) / ROUND_SHAPE.tileBytes);
  }

  #grow(): void {
    const roundCount = 2 * this.#firstTiles.length;
    const table = new RoundRecord(this.#roundWords, roundCount);
    table.words.set(this.#table.words);
    this.#table = table;
    this.#firstTiles = grown(this.#firstTiles, roundCount);
  }
}

function grown(words: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const longer = new Int32Array(length);
  longer.set(words);
  return longer;
}

/** Rounds as the kernel reads them (round-source.ts). */
class RoundRecord {
  /** Signed: every word is a small integer of the engine, which needs no memory. */
  readonly words: Int32Array;
  readonly #floats: Float32Array;
  readonly #doubles: Float64Array;

  constructor(roundWords: number, roundCount: number) {
    const buffer = new ArrayBuffer(4 * roundWords * roundCount);
    this.words = new Int32Array(buffer);
    this.#floats = new Float32Array(buffer);
    this.#doubles = new Float64Array(buffer);
  }

  write({ element, sourceCount, targetCount }: RoundKind, from: number, spans: RoundSpans): void {
    let at = from;
    let low = 0;
    for (let i = 0; i < sourceCount; i++, at += 2) low |= this.#writeAddress(at, spans.sources[i]!);
    for (let i = 0; i < targetCount; i++, at += 2) low |= this.#writeAddress(at, spans.targets[i]!);
    low |= this.#writeAddress(at, spans.previous);
    low |= this.#writeAddress(at + 2, spans.result);
    low |= this.#writeAddress(at + 4, spans.slot0);
    low |= this.#writeAddress(at + 6, spans.slot1);
    this.#writeAddress(at + 8, spans.length);
    this.words[at + 10] = spans.flags | ((low & 15) === 0 ? FLAG.aligned : 0);
    this.words[at + 11] = 0;
    const { settings } = spans;
    if (settings === undefined) return;
    if (element === "f32") for (let i = 0; i < SETTING_COUNT; i++) this.#floats[at + 12 + i] = settings[i]!;
    else for (let i = 0; i < SETTING_COUNT; i++) this.#doubles[(at + 12) / 2 + i] = settings[i]!;
  }

  /** Returns its low word. */
  #writeAddress(at: number, address: number): number {
    this.words[at] = address;
    this.words[at + 1] = address / TWO_32;
    return address | 0;
  }
}
