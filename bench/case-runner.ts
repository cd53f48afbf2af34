// case-runner — runs one case on a worker: fills the servers, keeps a window of requests in flight, and verifies what
// came of it. Requests are issued from callbacks, without a promise per request; every request in flight has its own
// values.
//
// Invariants:
//   CaseRunner.R1. A round of pushes is verified whole: after it every key holds its start value plus what was pushed
//       to it.
//   CaseRunner.R2. Of pulls, those are verified whose values are still there: the last of each slot, at the end of a
//       round, or of a burst.
//   CaseRunner.R3. A pull of a mix reads exactly the pushes that its worker issued before it: requests of one worker
//       are served in order.

import { performance } from "node:perf_hooks";
import type { BenchCase } from "./cases.ts";
import { fillWithGradient, fillWithStart, verify, verifyDescended } from "./expected-values.ts";
import type { KeySet, KeySpace } from "./key-space.ts";
import { BurstMeter, type Figure, Meter, oneByOne, type Span } from "./meter.ts";

/** What a case needs of a KVWorker, or of a parameter. */
export type KeyValueClient = {
  push(keys: BigUint64Array, vals: Float32Array, options: RequestOptions): number;
  pull(keys: BigUint64Array, vals: Float32Array, options: RequestOptions): number;
  wait(timestamp: number): Promise<void>;
};
type RequestOptions = { readonly callback?: (error?: Error) => void };

/**
 * What a worker did in one round. `pushCounts` has one number per request set of the key space; none where the worker
 * has verified its own.
 */
export type Round = { readonly figure: Figure; readonly pushCounts: readonly number[] };

type Slot = {
  /** What is pushed and what is pulled into; empty where there is no such request. */
  readonly gradient: Float32Array;
  readonly pulled: Float32Array;
  readonly options: RequestOptions;
  set: KeySet;
  issuedAt: number;
  /** In a mix: whether the request under way is the pull, and how many pushes were issued before it. */
  isPull: boolean;
  pushesBefore: number;
};

/** Of a large window every so manieth slot is timed; of a small one all are. */
const TIMED_EVERY = 8;
const LARGE_WINDOW = 4 * TIMED_EVERY;

/** A burst of fresh pulls is this many windows long. */
const BURST_WINDOWS = 4;

/** Verifying goes through the universe in chunks of at most this many keys and floats. */
const VERIFY_KEYS_MAX = 100_000;
const VERIFY_FLOATS_MAX = 4 << 20;

export class CaseRunner {
  readonly #case: BenchCase;
  readonly #space: KeySpace;
  readonly #client: KeyValueClient;
  readonly #meter = new Meter();
  readonly #slots: readonly Slot[];
  readonly #pushCounts: number[];
  /** Pushes to each key that this worker verifies itself. */
  readonly #ownCounts: Float64Array;
  #nextSet: number;
  #pushesIssued = 0;
  #inFlight = 0;
  #ended: { resolve: () => void; reject: (error: Error) => void } = { resolve() {}, reject() {} };

  /** Workers begin at different request sets, so that they do not ask for the same random rows in lockstep. */
  constructor(benchCase: BenchCase, space: KeySpace, client: KeyValueClient, workerRank: number) {
    this.#case = benchCase;
    this.#space = space;
    this.#client = client;
    this.#pushCounts = space.requestSets.map(() => 0);
    this.#ownCounts = new Float64Array(space.keyCount);
    this.#nextSet = (workerRank * 7) % space.requestSets.length;
    this.#slots = Array.from({ length: benchCase.window }, (_, index) => this.#createSlot(index));
  }

  /** Gives every key its start value, in requests of the case's size; to be done once per set of keys. */
  async fill(): Promise<Figure> {
    const { width } = this.#case;
    const latenciesMs: number[] = [];
    for (const { indices, keys } of this.#space.chunks(this.#case.keyCount)) {
      const values = new Float32Array(keys.length * width);
      fillWithStart({ indices, width, values });
      const issuedAt = performance.now();
      await this.#client.wait(this.#client.push(keys, values, {}));
      latenciesMs.push(performance.now() - issuedAt);
    }
    return oneByOne(latenciesMs);
  }

  /**
   * Runs one span. Pulled values are verified here; pushes leave their counts for `verifyPushes`, unless the keys are
   * this worker's own.
   */
  async run(span: Span): Promise<Round> {
    const { direction, isFresh } = this.#case;
    this.#pushCounts.fill(0);
    this.#ownCounts.fill(0);
    this.#pushesIssued = 0;
    for (const { pulled } of this.#slots) pulled.fill(Number.NaN); // so that what an earlier round pulled cannot pass
    const figure = isFresh ? await this.#runBursts(span) : await this.#runSteadily(span);
    if (direction === "push" && !isFresh) return { figure, pushCounts: [...this.#pushCounts] };
    if (direction === "mix") this.#ownCounts.fill(this.#pushesIssued);
    if (direction === "mix" || isFresh) await this.#verifyCounts(this.#ownCounts);
    return { figure, pushCounts: [] };
  }

  /**
   * Checks every key against the pushes of all workers (none told: none made), then takes them back for the next round.
   */
  async verifyPushes(pushCounts: readonly number[]): Promise<void> {
    const countPerKey = new Float64Array(this.#space.keyCount);
    for (const [setIndex, { indices }] of this.#space.requestSets.entries()) {
      for (const index of indices) countPerKey[index]! += pushCounts[setIndex] ?? 0;
    }
    await this.#verifyCounts(countPerKey);
  }

  async #verifyCounts(countPerKey: Float64Array): Promise<void> {
    const { width } = this.#case;
    const chunkKeyCount = Math.max(1, Math.min(VERIFY_KEYS_MAX, Math.floor(VERIFY_FLOATS_MAX / width)));
    for (const { indices, keys } of this.#space.chunks(chunkKeyCount)) {
      const values = new Float32Array(keys.length * width);
      await this.#client.wait(this.#client.pull(keys, values, {}));
      if (this.#case.engine !== "kv") {
        verifyDescended({ indices, width, values });
        continue;
      }
      verify({ indices, width, values }, (index) => countPerKey[index]!);
      fillWithGradient({ indices, width, values }, (index) => -countPerKey[index]!);
      await this.#client.wait(this.#client.push(keys, values, {}));
    }
  }

  async #runSteadily(span: Span): Promise<Figure> {
    const ended = this.#untilEnded();
    this.#meter.start(span);
    this.#inFlight = this.#slots.length;
    for (const slot of this.#slots) {
      slot.isPull = this.#case.direction === "pull";
      this.#issue(slot, performance.now());
    }
    await ended;
    if (this.#case.direction !== "push") for (const slot of this.#slots) this.#verifyPulled(slot);
    return this.#meter.figure();
  }

  /**
   * Until the span is over: new lists, and for pulls a push to each of them, which nobody times; then a burst of
   * requests with these lists.
   */
  async #runBursts({ warmupMs, measureMs }: Span): Promise<Figure> {
    let meter = new BurstMeter();
    const startedAt = performance.now();
    for (let isWarm = false; performance.now() - startedAt < warmupMs + measureMs; ) {
      if (!isWarm && performance.now() - startedAt >= warmupMs) [isWarm, meter] = [true, new BurstMeter()];
      const sets = Array.from({ length: BURST_WINDOWS * this.#case.window }, () => this.#space.freshSet());
      if (this.#case.direction === "pull") await this.#pushTo(sets);
      else this.#countOwn(sets);
      await this.#burst(sets, meter);
      if (this.#case.direction === "pull") for (const slot of this.#slots) this.#verifyPulled(slot);
    }
    return meter.figure();
  }

  async #pushTo(sets: readonly KeySet[]): Promise<void> {
    for (let from = 0; from < sets.length; from += this.#case.window) {
      const some = sets.slice(from, from + this.#case.window);
      const timestamps = some.map(({ keys }, i) => this.#client.push(keys, this.#slots[i]!.gradient, {}));
      this.#countOwn(some);
      await Promise.all(timestamps.map((timestamp) => this.#client.wait(timestamp)));
    }
  }

  #countOwn(sets: readonly KeySet[]): void {
    for (const { indices } of sets) for (const index of indices) this.#ownCounts[index]!++;
  }

  async #burst(sets: readonly KeySet[], meter: BurstMeter): Promise<void> {
    const ended = this.#untilEnded();
    let issued = 0;
    let completed = 0;
    const issueTo = (slot: Slot): void => {
      slot.set = sets[issued++]!;
      slot.issuedAt = performance.now();
      const callback = (error?: Error): void => complete(slot, error);
      if (this.#case.direction === "pull") this.#client.pull(slot.set.keys, slot.pulled, { callback });
      else this.#client.push(slot.set.keys, slot.gradient, { callback });
    };
    const complete = (slot: Slot, error?: Error): void => {
      if (error !== undefined) {
        this.#ended.reject(error);
        return;
      }
      const now = performance.now();
      meter.complete(slot.issuedAt, now);
      if (issued < sets.length) issueTo(slot);
      if (++completed < sets.length) return;
      meter.end(now);
      this.#ended.resolve();
    };
    meter.begin(performance.now());
    for (const slot of this.#slots) issueTo(slot);
    await ended;
  }

  #untilEnded(): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      this.#ended = { resolve, reject };
    });
  }

  #createSlot(index: number): Slot {
    const { direction, keyCount, width, window, isFresh } = this.#case;
    const gradient = new Float32Array(direction === "pull" && !isFresh ? 0 : keyCount * width);
    if (gradient.length > 0) fillWithGradient({ indices: new Uint32Array(keyCount), width, values: gradient }, () => 1);
    const isTimed = window < LARGE_WINDOW || index % TIMED_EVERY === 0;
    const callback = isTimed
      ? (error?: Error): void => this.#completed(slot, error)
      : (error?: Error): void => this.#completedUntimed(slot, error);
    const slot: Slot = {
      gradient,
      pulled: new Float32Array(direction === "push" ? 0 : keyCount * width),
      options: { callback },
      set: this.#space.requestSets[0]!,
      issuedAt: 0,
      isPull: direction === "pull",
      pushesBefore: 0,
    };
    return slot;
  }

  #issue(slot: Slot, now: number): void {
    const sets = this.#space.requestSets;
    const setIndex = this.#nextSet;
    slot.issuedAt = now;
    if (!slot.isPull || this.#case.direction === "pull") {
      slot.set = sets[setIndex]!;
      this.#nextSet = setIndex + 1 === sets.length ? 0 : setIndex + 1;
    }
    if (slot.isPull) {
      slot.pushesBefore = this.#pushesIssued;
      this.#client.pull(slot.set.keys, slot.pulled, slot.options);
    } else {
      this.#pushesIssued++;
      this.#pushCounts[setIndex]!++;
      this.#client.push(slot.set.keys, slot.gradient, slot.options);
    }
  }

  #completed(slot: Slot, error: Error | undefined): void {
    if (error !== undefined) {
      this.#ended.reject(error);
      return;
    }
    const now = performance.now();
    this.#go(slot, this.#meter.complete(slot.issuedAt, now), now);
  }

  #completedUntimed(slot: Slot, error: Error | undefined): void {
    if (error !== undefined) this.#ended.reject(error);
    else this.#go(slot, this.#meter.completeUntimed(), 0);
  }

  /** In a mix a push is always followed by its pull, so that every slot ends with one. */
  #go(slot: Slot, isWanted: boolean, now: number): void {
    const isMix = this.#case.direction === "mix";
    const isTurn = isMix && !slot.isPull;
    if (isMix) slot.isPull = !slot.isPull;
    if (isWanted || isTurn) this.#issue(slot, now);
    else if (--this.#inFlight === 0) this.#ended.resolve();
  }

  #verifyPulled({ set, pulled, pushesBefore }: Slot): void {
    const { engine, width, direction, isFresh } = this.#case;
    const rows = { indices: set.indices, width, values: pulled };
    if (engine !== "kv") verifyDescended(rows);
    else if (isFresh) verify(rows, (index) => this.#ownCounts[index]!);
    else verify(rows, () => (direction === "mix" ? pushesBefore : 0));
  }
}
