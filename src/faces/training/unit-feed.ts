// unit-feed — the units of an epoch that this worker does, one after the other (docs/decisions/0014), and their
// samples. With a session the scheduler assigns units (worker/unit-feed.ts); without one there is one part, and its
// batches come in order. A resumed epoch begins at a batch. UnitReader reads the samples of a unit into a network's
// input; it can read the ids of the next unit meanwhile.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { Batches, type BatchesOptions } from "../../nn/batches.ts";
import type { Dataset } from "./dataset.ts";
import type { IdBatch } from "./embedding-lookup.ts";
import { nextTurnOf } from "./event-loop.ts";
import type { Network } from "./network.ts";

/** Part `part` of global batch `batch`. */
export type Unit = { readonly unit: number; readonly batch: number; readonly part: number };

/** With a session, the units that the scheduler assigns. */
export type FeedOptions = {
  readonly name: string;
  readonly epoch: number;
  readonly batchCount: number;
  readonly partCount: number;
  /** "even": each worker has its own part of every batch; "free": a worker that is ready gets the next unit. */
  readonly assignment: "even" | "free";
};

export interface UnitFeed {
  /** "idle": nothing for this worker now, but the epoch is not over. */
  next(wait?: WaitOptions): Promise<Unit | "idle" | "over">;
  /** Whether `next` returns at once. If not it calls the scheduler; report what is done before that. */
  readonly isStocked: boolean;
  /** Its updates are acknowledged. */
  done(unit: number): void;
  /** Units that a dead worker had begun. */
  readonly repeatedCount: number;
  close(): void | Promise<void>;
}

/** Longer than the others need to report their last unit, so that no worker is idle at the end of an ordinary epoch. */
const IDLE_MS = 150;

export async function openFeed(session: Session | undefined, { name, ...options }: FeedOptions, wait: WaitOptions): Promise<UnitFeed> {
  return session === undefined ? new WholeFeed(options.batchCount) : await session.units(name, { ...options, idleMs: IDLE_MS }, wait);
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
  throw new WeighbridgeError("BAD_ARGUMENT", text);
}

/** All batches, whole, in order. It waits for nobody, so it lets the event loop turn. */
class WholeFeed implements UnitFeed {
  readonly repeatedCount = 0;
  readonly #batchCount: number;
  #batch = 0;

  constructor(batchCount: number) {
    this.#batchCount = batchCount;
  }

  get isStocked(): boolean {
    return this.#batch < this.#batchCount;
  }

  async next({ signal }: WaitOptions = {}): Promise<Unit | "over"> {
    await nextTurnOf(`before step ${this.#batch + 1} of the epoch`, signal);
    if (this.#batch >= this.#batchCount) return "over";
    const batch = this.#batch++;
    return { unit: batch, batch, part: 0 };
  }

  done(): void {
    // There is no other worker to report it to.
  }

  close(): void {
    // There is nothing to release.
  }
}

/** The units from batch `firstBatch` on. */
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

  async next(wait?: WaitOptions): Promise<Unit | "idle" | "over"> {
    for (;;) {
      const unit = await this.#feed.next(wait);
      if (typeof unit === "string" || unit.batch >= this.#firstBatch) return unit;
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
  throw new WeighbridgeError("BAD_ARGUMENT", `an epoch has steps 0 to ${batchCount - 1}: it cannot begin with ${firstStep}`);
}

export type UnitSamples = {
  readonly sampleCount: number;
  /** Of the global batch that the unit is a part of. */
  readonly globalSize: number;
  /** Valid until the next unit is read. */
  readonly labels: Float32Array;
};

export class UnitReader {
  /** Global batches of an epoch. */
  readonly batchCount: number;
  readonly #dataset: Dataset;
  readonly #network: Network;
  /** By part. */
  readonly #parts: readonly Batches[];
  readonly #labels: Float32Array;

  /** Throws BAD_ARGUMENT, also for parts that are larger than the network's batches. */
  constructor(
    dataset: Dataset,
    network: Network,
    options: Omit<BatchesOptions, "sampleCount" | "shard" | "shardCount"> & { partCount: number },
  ) {
    const { partCount, batchSize, seed } = options;
    const { sampleCount } = dataset;
    this.#dataset = dataset;
    this.#network = network;
    this.#parts = Array.from(
      { length: partCount },
      (_, shard) => new Batches({ sampleCount, batchSize, seed, shard, shardCount: partCount }),
    );
    this.batchCount = this.#parts[0]!.batchCount;
    const unitSize = Math.ceil(batchSize / partCount);
    if (unitSize > network.sampleCountMax) {
      const text = `a batch of ${batchSize} cut among ${partCount} workers has parts of ${unitSize} samples`;
      throw new WeighbridgeError("BAD_ARGUMENT", `${text}; the network was built for ${network.sampleCountMax}`);
    }
    this.#labels = new Float32Array(unitSize);
  }

  /** How many samples of the epoch a unit has: none, if a last batch has too few. */
  sizeOf(epoch: number, { batch, part }: Unit): number {
    return this.#parts[part]!.at(epoch, batch).length;
  }

  /** Writes the values into the network's input. */
  read(epoch: number, { batch, part }: Unit): UnitSamples {
    const batches = this.#parts[part]!;
    const indexes = batches.at(epoch, batch);
    const labels = this.#labels.subarray(0, indexes.length);
    const { input } = this.#network;
    if (input !== undefined) {
      input.sampleCount = indexes.length;
      this.#dataset.readValues?.(indexes, input);
    }
    this.#dataset.readLabels(indexes, labels);
    return { sampleCount: indexes.length, globalSize: batches.globalSize(batch), labels };
  }

  /** The ids of a unit, in an array of their own. */
  readIds(epoch: number, { batch, part }: Unit): IdBatch {
    const indexes = this.#parts[part]!.at(epoch, batch);
    const { idsPerSample } = this.#network;
    const ids = new Float64Array(indexes.length * idsPerSample);
    this.#dataset.readIds?.(indexes, ids);
    return { ids, sampleCount: indexes.length, idsPerSample };
  }
}
