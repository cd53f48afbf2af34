// state-journal — holds the state of a running scheduler; the only thing that changes it. With a store it writes every
// record there, and says when what was decided may be told. Without one it knows no waiting.
//
//   write ──► applied at once ──► in the next batch ──► appended to the store ──► durable: may be told
//
// Invariants:
//   StateJournal.J1. A batch is durable before the next one is appended: what is in the store is what was written up to
//       some moment, in order.
//   StateJournal.J2. `whenDurable` resolves when every record that was written before the call is durable. If the store
//       is lost it never resolves: a scheduler that was replaced tells nothing.
//   StateJournal.J3. What the store holds is bounded by the state: when there are many more records than the state
//       needs, those of the state replace them.

import { Deferred } from "../base/deferred.ts";
import type { WeighbridgeError } from "../base/errors.ts";
import {
  applyRecord,
  emptyState,
  RECORD_VERSION,
  type RecordBody,
  recordsOf,
  type SchedulerState,
  type StateRecord,
} from "./scheduler-state.ts";
import type { StateStore } from "./state-store.ts";

/** So many records more than twice the state's are kept before they are replaced (StateJournal.J3). */
const SPARE_RECORDS = 1024;
const NEVER = new Promise<never>(() => {});

export class StateJournal {
  /** Sees every record, in order, after it was applied. */
  onRecord: (record: StateRecord) => void = () => {};
  readonly #store: StateStore | undefined;
  #state = emptyState();
  /** Applied, and in no batch yet. */
  #unwritten: StateRecord[] = [];
  /** Resolves when `#unwritten` is durable. */
  #next: Deferred<void> | undefined;
  /** Resolves when the batch that is being appended is durable. */
  #current: Deferred<void> | undefined;
  /** The next batch replaces everything that was written. */
  #replaces: { readonly keepsOld: boolean } | undefined;
  #storedCount = 0;
  #isFlushing = false;
  #isLost = false;

  constructor(store?: StateStore) {
    this.#store = store;
  }

  get state(): SchedulerState {
    return this.#state;
  }

  /** Where the records are, for messages; "" without a store. */
  get location(): string {
    return this.#store?.location ?? "";
  }

  get standbys(): readonly string[] {
    return this.#store?.standbys ?? [];
  }

  /** Calls `lost` if this scheduler must not decide any more. */
  onLost(lost: (error: WeighbridgeError) => void): void {
    if (this.#store === undefined) return;
    this.#store.onLost = (error) => {
      this.#isLost = true;
      lost(error);
    };
  }

  /**
   * Waits for the store, and takes over the state that it holds. Returns whether it holds one. Throws as `open` does.
   */
  async open(signal?: AbortSignal): Promise<boolean> {
    const records = (await this.#store?.open(signal)) ?? [];
    for (const record of records) this.#apply(record);
    this.#replaces = { keepsOld: false };
    return records.length > 0;
  }

  write(...records: readonly RecordBody[]): void {
    for (const body of records) {
      const record: StateRecord = { version: RECORD_VERSION, ...body };
      this.#apply(record);
      if (this.#store !== undefined) this.#unwritten.push(record);
    }
    if (this.#store === undefined || this.#unwritten.length === 0 || this.#isLost) return;
    this.#next ??= new Deferred();
    if (!this.#isFlushing) void this.#flush(this.#store);
  }

  /**
   * The job begins anew under this id; what was written so far is kept beside (SchedulerState.S2 holds for the term).
   */
  setAside(job: string): void {
    const { serverCount, workerCount } = this.#state;
    this.#replaces = { keepsOld: true };
    this.write({ kind: "anew", job, serverCount, workerCount });
  }

  /** Undefined: everything that was written is durable (StateJournal.J2). */
  whenDurable(): Promise<void> | undefined {
    if (this.#isLost || this.#store?.isHeld === false) return NEVER;
    return (this.#next ?? this.#current)?.promise;
  }

  /** Calls `tell` when everything written so far is durable: at once if it is now. */
  told(tell: () => void): void {
    const durable = this.whenDurable();
    if (durable === undefined) tell();
    else void durable.then(tell);
  }

  /** Passes an answer on, or a failure, when everything written before it is durable. */
  answer<T>(answer: T | Promise<T>): T | Promise<T> {
    if (this.#store === undefined) return answer;
    if (answer instanceof Promise) return answer.finally(() => this.whenDurable());
    const durable = this.whenDurable();
    return durable === undefined ? answer : durable.then(() => answer);
  }

  /**
   * Closes the store; `isOver`: the job has ended, and leaves nothing behind. What is not durable yet was told to
   * nobody, and is dropped.
   */
  async close({ isOver }: { readonly isOver: boolean }): Promise<void> {
    const isHeld = !this.#isLost && this.#store?.isHeld === true;
    this.#isLost = true;
    if (isOver && isHeld) await this.#store?.clear();
    await this.#store?.close();
  }

  #apply(record: StateRecord): void {
    this.#state = applyRecord(this.#state, record);
    this.onRecord(record);
  }

  async #flush(store: StateStore): Promise<void> {
    this.#isFlushing = true;
    await Promise.resolve(); // so that what is decided in one turn is one batch
    while (this.#next !== undefined && !this.#isLost) {
      const batch = this.#unwritten;
      const replaces = this.#replaces ?? (this.#isOverfull(batch.length) ? { keepsOld: false } : undefined);
      this.#current = this.#next;
      this.#next = undefined;
      this.#unwritten = [];
      this.#replaces = undefined;
      try {
        await (replaces === undefined ? this.#append(store, batch) : this.#replace(store, replaces));
      } catch {
        this.#isLost = true; // the store has called `onLost`
        return;
      }
      this.#current.resolve();
      this.#current = undefined;
    }
    this.#isFlushing = false;
  }

  async #append(store: StateStore, batch: readonly StateRecord[]): Promise<void> {
    this.#storedCount += batch.length;
    await store.append(batch); // StateJournal.J1
  }

  async #replace(store: StateStore, options: { readonly keepsOld: boolean }): Promise<void> {
    const records = recordsOf(this.#state);
    this.#storedCount = records.length;
    await store.replace(records, options);
  }

  /** StateJournal.J3 */
  #isOverfull(count: number): boolean {
    const { incarnations, catalogue } = this.#state;
    return this.#storedCount + count > SPARE_RECORDS + 2 * (incarnations.size + catalogue.entries.size);
  }
}
