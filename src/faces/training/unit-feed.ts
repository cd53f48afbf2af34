// unit-feed — the units of an epoch that this worker does, one after the other (docs/decisions/0014), and their
// samples. With a session the scheduler assigns units (worker/unit-feed.ts); without one there is one part, and its
// batches come in order. A resumed epoch begins at a batch. UnitReader reads the samples of a unit into a network's
// input; it can read the ids of the next unit meanwhile.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { badArgument } from "../../base/errors.ts";
import { Batches, type BatchesOptions } from "../../nn/batches.ts";
import { checkCount } from "../../nn/layer.ts";
import type { LentUnit } from "../../worker/unit-feed.ts";
import { type Dataset, readIdBatch, readSamples } from "./dataset.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { nextTurnOf, unlessAborted } from "./event-loop.ts";
import type { Network } from "./network.ts";

/** With a session, the units that the scheduler assigns. */
export type FeedOptions = {
  readonly name: string;
  readonly epoch: number;
  readonly batchCount: number;
  readonly partCount: number;
  /** "rounds": all workers that are there share every batch; "free": a worker that is ready gets the next unit. */
  readonly assignment: "rounds" | "free";
  /** In rounds: the most parts that this worker can compute at a time. */
  readonly partsMax: number;
};

export interface UnitFeed {
  /** "idle": nothing for this worker now, but the epoch is not over. */
  next(wait?: WaitOptions): Promise<LentUnit | "idle" | "over">;
  /** Whether `next` returns at once. If not it calls the scheduler; report what is done before that. */
  readonly isStocked: boolean;
  /** Its updates are acknowledged. */
  done(unit: number): void;
  /** Whether the epoch is known to be over. */
  readonly isOver: boolean;
  /** In rounds: where this worker's clock has to stand when it has nothing to do; else undefined. */
  readonly nextClock: number | undefined;
  /** Units that a dead worker had begun. */
  readonly repeatedCount: number;
  /** This worker is about to leave: `next` gives it what others count on, and then says "over". */
  retire(): void;
  /** Whether it said so before the epoch was over. */
  readonly hasRetired: boolean;
  close(): void | Promise<void>;
}

export async function openFeed(session: Session | undefined, { name, ...options }: FeedOptions, wait: WaitOptions): Promise<UnitFeed> {
  return session === undefined ? new WholeFeed(options.batchCount) : await session.openUnits(name, { ...options, ...wait });
}

/** Throws BAD_ARGUMENT if this worker has finished an epoch of this name: nothing would be trained. */
export function checkNotEnded(
  session: Session | undefined,
  name: string,
  { firstEpoch, epochCount }: { readonly firstEpoch: number; readonly epochCount: number },
): void {
  const epoch = session?.nextEpochOver(name, firstEpoch) ?? Infinity;
  if (epoch >= epochCount) return;
  const text = `epoch ${epoch + 1} of "${name}" was trained in this session: a second training has another name, or a firstEpoch behind it`;
  throw badArgument(text);
}

/** All batches, whole, in order. It waits for nobody, so it lets the event loop turn. */
class WholeFeed implements UnitFeed {
  readonly repeatedCount = 0;
  readonly isOver = false;
  readonly nextClock = undefined;
  hasRetired = false;
  readonly #batchCount: number;
  #batch = 0;

  constructor(batchCount: number) {
    this.#batchCount = batchCount;
  }

  get isStocked(): boolean {
    return this.#batch < this.#batchCount;
  }

  async next({ signal }: WaitOptions = {}): Promise<LentUnit | "over"> {
    await nextTurnOf(`before step ${this.#batch + 1} of the epoch`, signal);
    if (this.#batch >= this.#batchCount || this.hasRetired) return "over";
    const batch = this.#batch++;
    return { unit: batch, batch, part: 0 };
  }

  done(): void {
    // There is no other worker to report it to.
  }

  retire(): void {
    this.hasRetired = true;
  }

  close(): void {
    // There is nothing to release.
  }
}

/** The units from batch `firstBatch` on; the rounds before that take no clocks. */
export function resumedFeed(feed: UnitFeed, firstBatch: number): UnitFeed {
  return firstBatch === 0 ? feed : new ResumedFeed(feed, firstBatch);
}

class ResumedFeed implements UnitFeed {
  readonly #feed: UnitFeed;
  readonly #firstBatch: number;

  constructor(feed: UnitFeed, firstBatch: number) {
    this.#feed = feed;
    this.#firstBatch = firstBatch;
  }

  get repeatedCount(): number {
    return this.#feed.repeatedCount;
  }

  get isStocked(): boolean {
    return this.#feed.isStocked;
  }

  get isOver(): boolean {
    return this.#feed.isOver;
  }

  get hasRetired(): boolean {
    return this.#feed.hasRetired;
  }

  retire(): void {
    this.#feed.retire();
  }

  get nextClock(): number | undefined {
    const { nextClock } = this.#feed;
    return nextClock === undefined ? undefined : nextClock - this.#firstBatch;
  }

  async next(wait?: WaitOptions): Promise<LentUnit | "idle" | "over"> {
    for (;;) {
      const unit = await this.#feed.next(wait);
      if (typeof unit === "string") return unit;
      if (unit.batch >= this.#firstBatch) return unit.clock === undefined ? unit : { ...unit, clock: unit.clock - this.#firstBatch };
      this.#feed.done(unit.unit);
    }
  }

  done(unit: number): void {
    this.#feed.done(unit);
  }

  close(): void | Promise<void> {
    return this.#feed.close();
  }
}

/** Throws BAD_ARGUMENT. */
export function checkFirstStep(firstStep: number, batchCount: number): void {
  if (Number.isSafeInteger(firstStep) && firstStep >= 0 && firstStep < batchCount) return;
  throw badArgument(`an epoch has steps 0 to ${batchCount - 1}: it cannot begin with ${firstStep}`);
}

export type UnitSamples = {
  readonly sampleCount: number;
  /** Of the global batch that the unit is a part of. */
  readonly globalSize: number;
  /** Valid until the next unit is read. */
  readonly labels: Float32Array;
};

/** Finer cuts would not be more even among as many workers as share a batch. */
const PARTS_MAX = 240;

/** How a batch is cut. */
export type BatchCut = {
  readonly partCount: number;
  /** The most parts that a worker computes at a time. */
  readonly partsMax: number;
  /** Samples of a unit, at most. */
  readonly unitSizeMax: number;
};

/**
 * In rounds a batch is cut finely, so that any number of workers can share it; else into a part for each worker of the
 * start. Throws BAD_ARGUMENT if the network is too small for the batch of so many workers.
 */
export function cutBatch(
  { batchSize, workerCount, inRounds }: { readonly batchSize: number; readonly workerCount: number; readonly inRounds: boolean },
  { sampleCountMax }: Pick<Network, "sampleCountMax">,
): BatchCut {
  const unitSize = Math.ceil(checkCount("batchSize", batchSize) / workerCount);
  if (unitSize > sampleCountMax) {
    const text = `a batch of ${batchSize} cut among ${workerCount} workers has parts of ${unitSize} samples`;
    throw badArgument(`${text}; the network was built for ${sampleCountMax}`);
  }
  if (batchSize < workerCount) throw badArgument(`a batch of ${batchSize} leaves some of ${workerCount} workers without a sample`);
  if (!inRounds) return { partCount: workerCount, partsMax: 1, unitSizeMax: unitSize };
  const partCount = workerCount * Math.max(1, Math.floor(Math.min(batchSize, PARTS_MAX) / workerCount));
  const partsMax = Math.min(partCount, Math.floor((sampleCountMax * partCount) / batchSize));
  return { partCount, partsMax, unitSizeMax: Math.ceil((partsMax * batchSize) / partCount) };
}

export class UnitReader {
  /** Global batches of an epoch. */
  readonly batchCount: number;
  readonly #dataset: Dataset;
  readonly #network: Network;
  readonly #batches: Batches;
  readonly #partCount: number;
  readonly #labels: Float32Array;

  /** Throws BAD_ARGUMENT. */
  constructor(dataset: Dataset, network: Network, options: Pick<BatchesOptions, "batchSize" | "seed"> & Omit<BatchCut, "partsMax">) {
    const { partCount, unitSizeMax, batchSize, seed } = options;
    this.#dataset = dataset;
    this.#network = network;
    this.#batches = new Batches({ sampleCount: dataset.sampleCount, batchSize, seed });
    this.#partCount = partCount;
    this.batchCount = this.#batches.batchCount;
    this.#labels = new Float32Array(unitSizeMax);
  }

  /** How many samples of the epoch a unit has: none, if a last batch has too few. */
  sizeOf(epoch: number, unit: LentUnit): number {
    return this.#indexesOf(epoch, unit).length;
  }

  /** Writes the values into the network's input. Throws what the data set throws, and ABORTED. */
  async read(epoch: number, unit: LentUnit, signal?: AbortSignal): Promise<UnitSamples> {
    const indexes = this.#indexesOf(epoch, unit);
    const labels = this.#labels.subarray(0, indexes.length);
    await unlessAborted(readSamples(this.#dataset, this.#network, indexes, labels), "while samples were read", signal);
    return { sampleCount: indexes.length, globalSize: this.#batches.globalSize(unit.batch), labels };
  }

  /** The ids of a unit, in an array of their own. */
  async readIds(epoch: number, unit: LentUnit, signal?: AbortSignal): Promise<IdBatch> {
    const ids = readIdBatch(this.#dataset, this.#network, this.#indexesOf(epoch, unit));
    return await unlessAborted(ids, "while ids were read", signal);
  }

  #indexesOf(epoch: number, { batch, part, parts = 1 }: LentUnit): Uint32Array {
    const whole = this.#batches.at(epoch, batch);
    const cut = (parted: number): number => Math.floor((parted * whole.length) / this.#partCount);
    return whole.subarray(cut(part), cut(part + parts));
  }
}
