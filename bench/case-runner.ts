// case-runner — runs one case on a worker: fills the servers, keeps a window of requests in flight, and verifies what came of it.
// Requests are issued from callbacks, without a promise per request; every request in flight has its own values.

import { performance } from "node:perf_hooks";
import type { BenchCase } from "./cases.ts";
import { fillWithGradient, fillWithStart, verify, verifyDescended } from "./expected-values.ts";
import type { KeySpace } from "./key-space.ts";
import { type Figure, Meter, oneByOne, type Span } from "./meter.ts";

/** What a case needs of a KVWorker, or of a parameter. */
export type KeyValueClient = {
  push(keys: BigUint64Array, vals: Float32Array, options: RequestOptions): number;
  pull(keys: BigUint64Array, vals: Float32Array, options: RequestOptions): number;
  wait(timestamp: number): Promise<void>;
};
type RequestOptions = { readonly callback?: (error?: Error) => void };

/** What a worker did in one round. `pushCounts` has one number per request set of the key space. */
export type Round = { readonly figure: Figure; readonly pushCounts: readonly number[] };

type Slot = {
  readonly values: Float32Array;
  readonly options: RequestOptions;
  setIndex: number;
  issuedAt: number;
};

/** Of a large window every so manieth slot is timed; of a small one all are. */
const TIMED_EVERY = 8;
const LARGE_WINDOW = 4 * TIMED_EVERY;

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
  #nextSet: number;
  #inFlight = 0;
  #ended: { resolve: () => void; reject: (error: Error) => void } = { resolve() {}, reject() {} };

  /** Workers begin at different request sets, so that they do not ask for the same random rows in lockstep. */
  constructor(benchCase: BenchCase, space: KeySpace, client: KeyValueClient, workerRank: number) {
    this.#case = benchCase;
    this.#space = space;
    this.#client = client;
    this.#pushCounts = space.requestSets.map(() => 0);
    this.#nextSet = (workerRank * 7) % space.requestSets.length;
    this.#slots = Array.from({ length: benchCase.window }, (_, index) => this.#createSlot(index));
  }

  /** Gives every key its start value, in requests of the case's size; to be done once, by one worker. */
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

  /** Runs one span. Pulled values are verified here; pushes leave their counts for `verifyPushes`. */
  async run(span: Span): Promise<Round> {
    const isPull = this.#case.direction === "pull";
    this.#pushCounts.fill(0);
    if (isPull) for (const { values } of this.#slots) values.fill(Number.NaN); // so that what an earlier round pulled cannot pass
    const ended = new Promise<void>((resolve, reject) => {
      this.#ended = { resolve, reject };
    });
    this.#meter.start(span);
    this.#inFlight = this.#slots.length;
    for (const slot of this.#slots) this.#issue(slot, performance.now());
    await ended;
    if (isPull) for (const slot of this.#slots) this.#verifyPulled(slot);
    return { figure: this.#meter.figure(), pushCounts: [...this.#pushCounts] };
  }

  /** Checks every key against the pushes of all workers (none told: none made), then takes them back for the next round. */
  async verifyPushes(pushCounts: readonly number[]): Promise<void> {
    const { width } = this.#case;
    const countPerKey = new Float64Array(this.#space.keyCount);
    for (const [setIndex, { indices }] of this.#space.requestSets.entries()) {
      for (const index of indices) countPerKey[index]! += pushCounts[setIndex] ?? 0;
    }
    const chunkKeyCount = Math.min(VERIFY_KEYS_MAX, Math.floor(VERIFY_FLOATS_MAX / width));
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

  #createSlot(index: number): Slot {
    const { direction, keyCount, width, window } = this.#case;
    const values = new Float32Array(keyCount * width);
    if (direction === "push") fillWithGradient({ indices: new Uint32Array(keyCount), width, values }, () => 1);
    const isTimed = window < LARGE_WINDOW || index % TIMED_EVERY === 0;
    const callback = isTimed
      ? (error?: Error): void => this.#completed(slot, error)
      : (error?: Error): void => this.#completedUntimed(slot, error);
    const slot: Slot = { values, options: { callback }, setIndex: 0, issuedAt: 0 };
    return slot;
  }

  #issue(slot: Slot, now: number): void {
    const sets = this.#space.requestSets;
    const setIndex = this.#nextSet;
    const { keys } = sets[setIndex]!;
    this.#nextSet = setIndex + 1 === sets.length ? 0 : setIndex + 1;
    slot.setIndex = setIndex;
    slot.issuedAt = now;
    if (this.#case.direction === "pull") {
      this.#client.pull(keys, slot.values, slot.options);
    } else {
      this.#pushCounts[setIndex]!++;
      this.#client.push(keys, slot.values, slot.options);
    }
  }

  #completed(slot: Slot, error: Error | undefined): void {
    if (error !== undefined) {
      this.#ended.reject(error);
      return;
    }
    const now = performance.now();
    if (this.#meter.complete(slot.issuedAt, now)) this.#issue(slot, now);
    else if (--this.#inFlight === 0) this.#ended.resolve();
  }

  #completedUntimed(slot: Slot, error: Error | undefined): void {
    if (error !== undefined) this.#ended.reject(error);
    else if (this.#meter.completeUntimed()) this.#issue(slot, 0);
    else if (--this.#inFlight === 0) this.#ended.resolve();
  }

  #verifyPulled({ setIndex, values }: Slot): void {
    const rows = { indices: this.#space.requestSets[setIndex]!.indices, width: this.#case.width, values };
    if (this.#case.engine === "kv") verify(rows, () => 0);
    else verifyDescended(rows);
  }
}
