// etcd-store — a scheduler's records in etcd, and its turn among schedulers of the job: the one whose key `leader` it
// is decides, the others stand by.
//
//   /weighbridge/<job>/leader                     who leads; goes with its lease
//   /weighbridge/<job>/standbys/<id>              who would take over; each with its lease
//   /weighbridge/<job>/state                      the generation of records that counts
//   /weighbridge/<job>/records/<generation>/<n>   a batch of records
//   /weighbridge/<job>/aside                      the generation of an earlier run, whose nodes did not come back
//
//   standing by ── `leader` is gone: it is ours now ──► leading ── the lease ends, or a write finds another ──► lost
//
// A process whose store was lost makes a new one, and stands by again (run-scheduler.ts).
//
// Invariants:
//   EtcdStore.E1. Every write compares the revision in which our `leader` was made: one that leads no more writes
//       nothing.
//   EtcdStore.E2. The lease is counted from before etcd was asked: it ends here before it ends there. From then on
//       nothing is told (StateJournal.J2).
//   EtcdStore.E3. A generation counts when all of it is written; what is appended is appended in order.
//   EtcdStore.E4. While etcd does not answer, everything is tried again for as long as the lease lasts.
//   EtcdStore.E5. A standby whose job ends, ends too, and does not wait for the next one.

import { randomUUID } from "node:crypto";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { StateRecord } from "../../scheduler/scheduler-state.ts";
import type { StateStore } from "../../scheduler/state-store.ts";
import type { EtcdApi, EtcdChange, EtcdEntry, EtcdPut } from "./etcd-api.ts";

const ROOT = "/weighbridge";
/** Characters of a batch; etcd takes 1.5 MiB in a request. */
const BATCH_CHARS_MAX = 256 * 1024;
const RETRY_MS = 100;
/** A standby looks again after this long, with or without an event. */
const WATCH_MS = 1000;
/** So often is a lease made longer while it lasts. */
const BEATS_PER_LEASE = 4;
const NUMBER_DIGITS = 12;

export type EtcdStoreOptions = {
  readonly api: EtcdApi;
  readonly clock: Clock;
  readonly log: Log;
  readonly job: string;
  /** Where nodes reach this scheduler when it leads. */
  readonly address: string;
  readonly leaseMs: number;
  /** How long a scheduler that starts looks for etcd. */
  readonly findMs: number;
  /** It led before, in this process, and lost its turn: there was a job (EtcdStore.E5). */
  readonly standsByAgain?: boolean | undefined;
  /** Called with the leader's address when this scheduler begins to stand by, and when that changes. */
  readonly onStandby?: ((leader: string) => void) | undefined;
  /** For tests; otherwise random. */
  readonly id?: string;
};

type Lease = { readonly lease: string; readonly ttlMs: number };

export class EtcdStore implements StateStore {
  onLost: (error: WeighbridgeError) => void = () => {};
  readonly location: string;
  readonly #options: EtcdStoreOptions;
  readonly #api: EtcdApi;
  readonly #clock: Clock;
  readonly #id: string;
  readonly #prefix: string;
  #lease: Lease | undefined;
  /** EtcdStore.E2 */
  #leaseUntilMs = 0;
  /** In which our key `leader` was made; 0 while we do not lead. */
  #createRevision = 0;
  #generation = "";
  #generationCount = 0;
  #batchCount = 0;
  #standbys: readonly string[] = [];
  #isClosed = false;
  #cancelTimer: CancelTimer = () => {};
  /** Ends the present wait. */
  #wake: () => void = () => {};

  constructor(options: EtcdStoreOptions) {
    this.#options = options;
    this.#api = options.api;
    this.#clock = options.clock;
    this.#id = options.id ?? randomUUID();
    this.#prefix = `${ROOT}/${encodeURIComponent(options.job.toWellFormed())}`;
    this.location = `etcd ${this.#prefix}`;
  }

  get isHeld(): boolean {
    return this.#createRevision > 0 && !this.#isClosed && this.#clock.nowMs() < this.#leaseUntilMs;
  }

  get standbys(): readonly string[] {
    return this.#standbys;
  }

  async open(signal?: AbortSignal): Promise<readonly StateRecord[]> {
    const end = (): void => void this.close();
    signal?.addEventListener("abort", end);
    let isJobKnown = this.#options.standsByAgain === true;
    try {
      isJobKnown = (await this.#standBy()) || isJobKnown;
    } finally {
      signal?.removeEventListener("abort", end);
    }
    this.#beat();
    const records = await this.#persist(() => this.#read());
    if (records.length > 0 || !isJobKnown) return records;
    await this.close();
    throw new WeighbridgeError("CLOSED", "the job that this scheduler stood by for has ended"); // EtcdStore.E5
  }

  /** Returns when this scheduler leads: whether there was a job while it stood by. */
  async #standBy(): Promise<boolean> {
    const giveUpMs = this.#clock.nowMs() + this.#options.findMs;
    let known: string | undefined;
    let isJobKnown = false;
    for (;;) {
      if (this.#isClosed) throw new WeighbridgeError("ABORTED", "the scheduler was closed before it led");
      try {
        await this.#holdLease();
        if (await this.#campaign()) return isJobKnown;
        const { address } = (await this.#leader()) ?? {};
        if (address !== undefined && address !== known) this.#options.onStandby?.(address);
        known = address ?? known;
        isJobKnown ||= (await this.#api.list(this.#key("state"))).length > 0;
        await this.#api.watch(this.#key("leader"), Math.min(WATCH_MS, (this.#lease?.ttlMs ?? 0) / BEATS_PER_LEASE));
      } catch (thrown) {
        const isPassing = isWeighbridgeError(thrown, "STATE_IO") && (this.#lease !== undefined || this.#clock.nowMs() < giveUpMs);
        if (!isPassing) throw thrown;
        await this.#pause();
      }
    }
  }

  async append(records: readonly StateRecord[]): Promise<void> {
    for (const batch of batchesOf(records)) {
      const put = this.#record(this.#generation, this.#batchCount++, batch);
      await this.#write({ puts: [put] }); // EtcdStore.E3
    }
  }

  async replace(records: readonly StateRecord[], { keepsOld }: { readonly keepsOld: boolean }): Promise<void> {
    const old = this.#generation;
    const generation = `${this.#createRevision}-${this.#generationCount++}`;
    const batches = batchesOf(records);
    for (const [i, batch] of batches.entries()) await this.#write({ puts: [this.#record(generation, i, batch)] });
    const [aside] = keepsOld ? await this.#persist(() => this.#api.list(this.#key("aside"))) : [];
    const state = { key: this.#key("state"), value: generation };
    const dropped = keepsOld ? aside?.value : old;
    await this.#write({
      puts: keepsOld && old !== "" ? [state, { key: this.#key("aside"), value: old }] : [state],
      removes: dropped === undefined || dropped === "" ? [] : [this.#key(`records/${dropped}/`)],
    });
    this.#generation = generation;
    this.#batchCount = batches.length;
  }

  async clear(): Promise<void> {
    await this.#write({ removes: [this.#key("state"), this.#key(`records/${this.#generation}/`)] });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#cancelTimer();
    this.#wake();
    const { lease } = this.#lease ?? {};
    // so that another one need not wait for its end, which comes anyway
    if (lease !== undefined) await this.#api.revokeLease(lease).catch(() => {});
  }

  #key(name: string): string {
    return `${this.#prefix}/${name}`;
  }

  #record(generation: string, count: number, batch: readonly StateRecord[]): EtcdPut {
    return { key: this.#key(`records/${generation}/${String(count).padStart(NUMBER_DIGITS, "0")}`), value: JSON.stringify(batch) };
  }

  async #read(): Promise<readonly StateRecord[]> {
    const [state] = await this.#api.list(this.#key("state"));
    this.#generation = state?.value ?? "";
    if (state === undefined) return [];
    const entries = await this.#api.list(this.#key(`records/${this.#generation}/`));
    this.#batchCount = entries.length;
    return entries.flatMap((entry) => parsed(entry) as StateRecord[]);
  }

  // Leading.

  /** Takes the lead if nobody has it. */
  async #campaign(): Promise<boolean> {
    const { address } = this.#options;
    const key = this.#key("leader");
    const value = JSON.stringify({ id: this.#id, address });
    const lease = this.#lease?.lease;
    await this.#api.change({ ifKey: key, hasCreateRevision: 0, puts: [{ key, value, lease }] });
    const leader = await this.#leader(); // the answer to the change may have been lost
    if (leader?.id !== this.#id || leader.createRevision === 0) return false;
    this.#createRevision = leader.createRevision;
    return true;
  }

  async #leader(): Promise<{ readonly id: string; readonly address: string; readonly createRevision: number } | undefined> {
    const [entry] = await this.#api.list(this.#key("leader"));
    if (entry === undefined) return undefined;
    const { id = "", address = "" } = parsed(entry) as { readonly id?: string; readonly address?: string };
    return { id, address, createRevision: entry.createRevision };
  }

  /** EtcdStore.E1. Throws FENCED if another scheduler leads. */
  async #write(change: Pick<EtcdChange, "puts" | "removes">): Promise<void> {
    const isDone = await this.#persist(() =>
      this.#api.change({ ifKey: this.#key("leader"), hasCreateRevision: this.#createRevision, ...change }),
    );
    if (!isDone) throw this.#lose("another scheduler leads the job");
  }

  /** EtcdStore.E4. Throws FENCED when the lease is over. */
  async #persist<T>(step: () => Promise<T>): Promise<T> {
    for (let tries = 0; ; tries++) {
      if (!this.isHeld) throw this.#lose("its lease in etcd has ended");
      try {
        return await step();
      } catch (thrown) {
        if (!isWeighbridgeError(thrown, "STATE_IO")) throw thrown;
        if (tries === 0) this.#options.log.warn("etcd does not answer, trying again", { reason: reasonOf(thrown) });
        await this.#pause();
      }
    }
  }

  #lose(reason: string): WeighbridgeError {
    const error = new WeighbridgeError(
      "FENCED",
      `the scheduler at ${this.#options.address} was replaced, or must be taken for so: ${reason}`,
    );
    const isFirst = this.#createRevision > 0 && !this.#isClosed;
    this.#createRevision = 0;
    this.#cancelTimer();
    if (isFirst) this.onLost(error);
    return error;
  }

  // The lease.

  /** Makes the lease longer, or gets one, with the key of a standby. */
  async #holdLease(): Promise<void> {
    const askedAtMs = this.#clock.nowMs();
    if (this.#lease === undefined || !(await this.#api.keepAlive(this.#lease.lease))) {
      this.#lease = await this.#api.grantLease(this.#options.leaseMs);
      const key = this.#key(`standbys/${this.#id}`);
      await this.#api.change({ ifKey: key, hasCreateRevision: 0, puts: [{ key, value: this.#options.address, lease: this.#lease.lease }] });
    }
    this.#leaseUntilMs = askedAtMs + this.#lease.ttlMs; // EtcdStore.E2
  }

  /** Makes the lease longer for as long as this scheduler leads. */
  #beat(): void {
    const { ttlMs = 0 } = this.#lease ?? {};
    const restMs = this.#leaseUntilMs - this.#clock.nowMs();
    if (restMs <= 0) {
      this.#lose("its lease in etcd has ended");
      return;
    }
    this.#cancelTimer = this.#clock.after(Math.min(ttlMs / BEATS_PER_LEASE, restMs), () => {
      const askedAtMs = this.#clock.nowMs();
      this.#keep(askedAtMs).then(
        () => this.#createRevision > 0 && !this.#isClosed && this.#beat(),
        () => this.#createRevision > 0 && !this.#isClosed && this.#beat(),
      );
    });
  }

  async #keep(askedAtMs: number): Promise<void> {
    const lease = this.#lease;
    if (lease === undefined) return;
    if (!(await this.#api.keepAlive(lease.lease))) {
      this.#lose("its lease in etcd has ended");
      return;
    }
    this.#leaseUntilMs = askedAtMs + lease.ttlMs;
    const own = this.#key(`standbys/${this.#id}`);
    const standbys = await this.#api.list(this.#key("standbys/"));
    this.#standbys = standbys.filter(({ key }) => key !== own).map(({ value }) => value);
  }

  /** Before another try. */
  async #pause(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      this.#clock.after(RETRY_MS, resolve);
    });
  }
}

/** Throws STATE_CORRUPT. */
function parsed({ key, value }: EtcdEntry): unknown {
  try {
    return JSON.parse(value);
  } catch (cause) {
    throw new WeighbridgeError("STATE_CORRUPT", `${key} in etcd is not what a scheduler wrote; remove it, or name another job`, { cause });
  }
}

/** Records in order, in lists of bounded length. */
function batchesOf(records: readonly StateRecord[]): StateRecord[][] {
  const batches: StateRecord[][] = [];
  let room = 0;
  for (const record of records) {
    const length = JSON.stringify(record).length;
    if (batches.length === 0 || length > room) {
      batches.push([]);
      room = BATCH_CHARS_MAX;
    }
    batches.at(-1)?.push(record);
    room -= length;
  }
  return batches;
}
