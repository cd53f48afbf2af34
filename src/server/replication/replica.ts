// replica — a server's part in the chain of its rank (docs/decisions/0060): as the head it writes the log, as a standby
// it repeats the log of its head (log-repeater.ts), and it goes on as the head when the scheduler says so.
//
//   standby ── LOG: repeat ──► standby ── promote ──► head, without a standby
//   head ── requests: log, handle ──► head ── the standby was given up ──► head, without a standby
//   head, without a standby ── one comes: fill ──► head        standby that comes late ── FILL … FILLED ──► standby
//   durable: comes back ── restore: its own entries ──► head, whose log goes to the disk; now and then a FILL goes
//   there too, and what was before it is not needed any more (docs/decisions/0071)
//
// Invariants (with ReplicaLog.I1, ReplicaLog.I2 and I8, StandbyLog.I1 and StandbyLog.I7):
//   Replica.I2. A standby repeats what its head did, in the same order, and gets the same bits: digests are compared
//       every DIGEST_ENTRIES entries. One that differs, or cannot repeat an entry, leaves the chain.
//   Replica.I5. A stamp counts once over a failover: the standby's vector clock has the stamps of all that it repeated.
//   Replica.I6. Clocks, joins, leaves and deaths of workers are entries: the lowest clock never falls over a failover.

import { assert } from "../../base/assert.ts";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { Contract } from "../../contracts/contract.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import { PART_COUNT } from "../../keys/part.ts";
import { keptLabel } from "../../peer/answer.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import type { ChannelHost } from "../../peer/channel-host.ts";
import { toFailure } from "../../wire/failure.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { roleOf } from "../../wire/node-id.ts";
import type { RosterEntry } from "../../wire/roster.ts";
import type { Ownership } from "../ownership.ts";
import { Fill, type FillOptions } from "./fill.ts";
import { type AnswersImage, type FilledImage, type FilledServer, keptImage, saveAnswers } from "./fill-state.ts";
import { standbySink } from "./log-call.ts";
import { EntryKind } from "./log-entry.ts";
import { LogPages } from "./log-pages.ts";
import { type LogPolicy, policyOf } from "./log-policy.ts";
import { LogRepeater } from "./log-repeater.ts";
import { type DurableLog, diskSink, type LogPage, type ServerIdentity } from "./log-sink.ts";
import { ReplicaLog, type ReplicaLogOptions } from "./replica-log.ts";
import { StandbyLog } from "./standby-log.ts";
import { digestOf } from "./state-digest.ts";

/** How often a head and its standby compare a part. */
const DIGEST_ENTRIES = 4096;

/** How much of a durable server's log is kept behind its last FILL: this, or so many times what the state came to. */
const REFILL_BYTES = 256 * 1024 * 1024;
const REFILL_STATES = 2;
/** Of a server that is stopped: between two batches all that was pushed meanwhile is written, which may be much. */
const STOP_BATCH_BYTES = 8 * 1024 * 1024;

/** The server that is replicated. */
export type ReplicatedServer = FilledServer & {
  readonly kernels: Pick<Kernels, "copy">;
  readonly ownership: Pick<Ownership, "epoch" | "isSettling">;
  /** The handler of functions. */
  readonly functions: FunctionHandler & { handOver(channel: Channel): void };
  /** The handler of kv frames of an application. */
  kvHandlerOf(app: number): FunctionHandler;
  readonly unfinishedRequests: { handOver(channel: Channel): void };
  /** Takes note of which workers are there. */
  followWorkers(nodes: readonly RosterEntry[]): void;
  forgetGuests(gone: readonly number[]): void;
};

export type ReplicaOptions = ReplicaLogOptions & {
  /** Of stand-ins, and the channels of workers. */
  readonly host: ChannelHost & { readonly id: number; channels(): Iterable<Channel> };
  readonly digestEntries?: number | undefined;
  /** How much of the state a standby that is filled gets in one turn. */
  readonly fillBytes?: number | undefined;
  /** Of a durable server: where its log goes. */
  readonly durable?: DurableLog | undefined;
  /** How large the log of a durable server grows before its state is written anew. */
  readonly refillBytes?: number | undefined;
  /** The server logs nothing before it is stopped, and serves all that others do (planned-stop.ts). */
  readonly isForStops?: boolean | undefined;
};

/** Our functions, and those of users. */
export type ServedContracts = { readonly ours: readonly Contract[]; readonly users: readonly Contract[] };

export class Replica {
  readonly log: ReplicaLog;
  /** By the hashes of their names. */
  readonly policies: ReadonlyMap<number, LogPolicy>;
  /** Repeats the log of its head, or its own. */
  readonly repeater: LogRepeater;
  /** Of a standby: takes the log of its head. */
  readonly standbyLog: StandbyLog = new StandbyLog(this);
  /** The scheduler's word, which comes with the rank. */
  isStandby = false;
  readonly #options: ReplicaOptions;
  readonly #server: ReplicatedServer;
  /** The channels of workers that this head inherited, and has met. */
  #met = new WeakSet<Channel>();
  /** Of a head: the copy that is under way. */
  #fill: Fill | undefined;
  /** Of a head: the last read in several frames of each worker (Fill.F5). */
  readonly #longReads = new Map<Channel, number>();
  /** What the state came to when it was written last. */
  #stateBytes = 0;
  #sinceDigest = 0;
  #digestPart = 0;
  /** Whether it is being stopped: it fills nobody, and its log goes to the standby it has, or to a disk. */
  isLeaving = false;

  constructor(server: ReplicatedServer, { ours, users }: ServedContracts, options: ReplicaOptions) {
    this.#server = server;
    this.#options = options;
    this.log = new ReplicaLog(options, new LogPages(server));
    if (options.isForStops === true) this.log.stop(); // nothing is logged before the stop
    this.policies = new Map([
      ...ours.map((fn) => [fn.nameHash, policyOf(fn, options)] as const),
      ...users.map(({ nameHash, isUpdate }) => [nameHash, isUpdate ? "repeated" : "read"] as const),
    ]);
    this.repeater = new LogRepeater(server, this.policies, options.host);
  }

  // The head.

  /** Whether parts come or go: a standby is filled afterwards. */
  get isSettling(): boolean {
    return this.#server.ownership.isSettling;
  }

  /** Whether this head loads a checkpoint to begin with: its standby loads the same, or is filled afterwards. */
  get isRestoring(): boolean {
    return this.#server.parameters.isRestoring;
  }

  /**
   * Whether reads leave notes that updates depend on: what a worker has pulled (DC-ASGD), and which keys it has named.
   */
  get recordsReads(): boolean {
    return this.#server.parameters.recordsReads;
  }

  /** Whether requests are repeated now, or will be: they are written to a log, or come from one. */
  get isRepeating(): boolean {
    return this.log.isOn || this.repeater.isComingBack;
  }

  /** The roster has changed: who lives is an entry, in the order of all others (Replica.I6). */
  follow(nodes: readonly RosterEntry[], goneGuests: readonly number[]): void {
    if (this.isStandby) return;
    const workers = nodes.filter(({ role }) => role === "worker");
    if (this.log.isOn) this.log.appendText(EntryKind.WORKERS, { nodes: workers, goneGuests });
    this.repeater.followWorkers(workers, goneGuests);
  }

  /**
   * Fills a standby that has nothing, through this channel; `filled` is called when it has everything, `failed` when it
   * cannot be filled. Throws HANDLER_FAILED.
   */
  fill(channel: Channel, { filled, failed }: Pick<FillOptions, "filled" | "failed">): void {
    this.endFill();
    const begin = (): void => this.log.start(standbySink(channel, this.#options.clock));
    this.#begin({ begin, failed, filled });
  }

  #begin({ begin, filled, failed, ...own }: Pick<FillOptions, "begin" | "filled" | "failed" | "batchBytes">): Fill {
    const { log } = this;
    const { clock, fillBytes: batchBytes = own.batchBytes } = this.#options;
    const server = this.#server;
    const answers = (): FilledImage => ({ answers: this.#answers(), own: server.ownState.save() });
    const done = (): void => {
      this.#fill = undefined;
      filled();
    };
    for (const [known] of this.#longReads) if (known.ended !== undefined) this.#longReads.delete(known);
    const fill = new Fill({ server, log, clock, longReads: this.#longReads, answers, begin, filled: done, failed, batchBytes });
    this.#fill = fill;
    log.appendText(EntryKind.WORKERS, { nodes: this.repeater.workers });
    return fill;
  }

  // The disk.

  /**
   * Repeats what the disk has, and sends the log there from now on; without a disk nothing happens. Throws what
   * DurableLog.open throws.
   */
  async openDurable(): Promise<void> {
    const { durable } = this.#options;
    if (durable === undefined) return;
    await this.#repeatAll(durable);
    this.log.goOnAfter(this.repeater.applied);
    this.log.sendTo(diskSink(durable));
  }

  /**
   * Repeats what a process before left when it was stopped (PlannedStop.open). False: its stop was not finished, and
   * nothing was repeated.
   */
  async openStopped(left: DurableLog): Promise<boolean> {
    await this.#repeatAll(left);
    if (this.repeater.identity === undefined) return false;
    this.log.goOnAfter(this.repeater.applied);
    return true;
  }

  /** Throws what DurableLog.open throws. */
  async #repeatAll(durable: DurableLog): Promise<void> {
    this.repeater.isComingBack = true;
    await durable.open((page) => this.#restore(page));
    this.repeater.isComingBack = false;
  }

  /**
   * Writes the state there, and from then on what changes it: resolves when output waits for it (Fill.F4). `check`
   * throws if the state cannot be saved, in the turn in which that begins. Throws what it throws, and what the disk
   * does; then the server is as it was.
   */
  async leave(left: DurableLog, identity: ServerIdentity, check: () => void): Promise<void> {
    this.isLeaving = true;
    this.endFill(); // of a standby that cannot be reached
    try {
      await left.open(() => {});
      await new Promise<void>((filled, failed) => {
        const begin = (): void => {
          check();
          this.log.start(diskSink(left));
          this.log.onRefused = failed;
          this.log.appendText(EntryKind.IDENTITY, identity); // DurableLog.D3
        };
        this.#begin({ begin, filled, failed, batchBytes: STOP_BATCH_BYTES });
      });
    } catch (thrown) {
      this.isLeaving = false;
      this.endFill();
      this.log.stop();
      throw thrown;
    }
  }

  #restore({ first, entries }: LogPage): void {
    this.log.byteCount += entries.byteLength;
    try {
      this.repeater.repeat(first, entries, 0, entries.length);
    } catch (thrown) {
      const message = `entry ${this.repeater.applied + 1} of this server's log could not be repeated: ${reasonOf(thrown)}`;
      throw new WeighbridgeError("STATE_CORRUPT", message, { cause: thrown });
    }
  }

  /** Who this durable server is, before anything is acknowledged under that name. */
  identify(identity: ServerIdentity): void {
    if (this.#options.durable === undefined) return;
    this.repeater.identity = identity;
    this.log.appendText(EntryKind.IDENTITY, identity);
  }

  /** Writes the state of a durable server anew, as entries of its log, once that is large. */
  #refill(durable: DurableLog): void {
    const { log } = this;
    log.byteCount = 0;
    const failed = (error: unknown): void => {
      this.#fill = undefined;
      this.#options.log.warn("the state could not be written anew, and is later", { reason: reasonOf(error) });
    };
    try {
      const fill = this.#begin({
        begin: () => log.appendText(EntryKind.IDENTITY, this.repeater.identity), // DurableLog.D3
        failed,
        filled: () => {
          this.#stateBytes = fill.byteCount;
          this.#options.log.info("the state was written anew", { bytes: fill.byteCount, entry: fill.position });
          durable.trim(fill.position - 1);
        },
      });
    } catch (thrown) {
      failed(thrown);
    }
  }

  /** The standby that is being filled is given up, if there is one. */
  endFill(): void {
    if (this.#fill === undefined) return;
    this.#fill.stop();
    this.#fill = undefined;
    this.log.stop();
  }

  /** Whether a standby is being filled: nothing waits for it, and nobody but this head decides about it. */
  get isFillingStandby(): boolean {
    return this.#fill !== undefined;
  }

  /** The last frame of a read in several frames came. */
  noteLongRead(channel: Channel, request: number): void {
    this.#longReads.set(channel, request);
  }

  /** Those that this head keeps for its workers, and those that it kept for them as a standby. */
  #answers(): AnswersImage {
    const inherited = [...this.repeater.standIns.values()].map((standIn) => ({
      worker: standIn.id,
      incarnation: standIn.incarnation,
      kept: [...standIn.kept()].flatMap((answers) => keptImage(Infinity, answers)),
    }));
    const own = [...this.#options.host.channels()].filter(({ id }) => isClient(id));
    return [...inherited, ...saveAnswers(own)];
  }

  /** Entries were written: after DIGEST_ENTRIES of them comes a digest. */
  appended(count = 1): void {
    if (this.#fill !== undefined || this.#server.ownership.isSettling) return; // Fill.F3
    const { durable, refillBytes = REFILL_BYTES } = this.#options;
    if (durable !== undefined && this.log.byteCount > Math.max(refillBytes, REFILL_STATES * this.#stateBytes)) this.#refill(durable);
    this.#sinceDigest += count;
    if (this.#sinceDigest < (this.#options.digestEntries ?? DIGEST_ENTRIES)) return;
    this.#sinceDigest = 0;
    const part = this.#digestPart++ % PART_COUNT;
    this.log.appendText(EntryKind.DIGEST, { part, digest: digestOf(this.#server.parameters, part) });
  }

  /** A handler has refused this update: the standby will say so, too (LoggedRequests.I5). */
  refused({ id: node, incarnation }: Channel, { request, stamp }: Pick<FrameHeader, "request" | "stamp">, thrown: unknown): void {
    this.log.appendText(EntryKind.REFUSED, { node, incarnation, request, stamp, failure: toFailure(thrown) });
  }

  /** The same before any handler: what came of a request in several frames is forgotten there, too (RequestGate.G3). */
  refusedAtGate(channel: Channel, header: FrameHeader, thrown: unknown): void {
    if (!this.log.isOn || header.stamp === 0 || this.isStandby) return;
    this.refused(channel, header, thrown);
  }

  /** The first frame of a worker's new conversation with a head that was a standby: unfinished requests go on. */
  meet(channel: Channel): void {
    if (this.repeater.standIns.size === 0 || this.#met.has(channel)) return;
    this.#met.add(channel);
    if (this.repeater.standIns.get(channel.id)?.incarnation !== channel.incarnation) return;
    this.#server.functions.handOver(channel);
    this.#server.unfinishedRequests.handOver(channel);
  }

  /** Answers an update that this head repeated as a standby, if it kept the answer. */
  answerAgain(channel: Channel, header: FrameHeader): boolean {
    const standIn = this.repeater.standIns.get(channel.id);
    const answers = standIn?.incarnation === channel.incarnation ? standIn.answerOf(header.stamp) : undefined;
    if (answers === undefined) return false;
    const label = keptLabel(header);
    channel.answerRemembered(
      header.request,
      answers.map((answer) => answer.relabelled(label)),
    );
    return true;
  }

  /** This server is a standby: it repeats the log of its head, and writes none. */
  standBy(): void {
    this.isStandby = true;
    this.log.stop();
  }

  /** This standby is the head from now on, without a standby of its own. */
  promote(): void {
    assert(!this.repeater.isFilling, "a standby that is being filled takes over from nobody"); // Chains.I3
    this.isStandby = false;
    this.repeater.takeOver();
    this.log.stop();
  }

  close(): void {
    if (this.#options.durable === undefined && !this.isLeaving) this.log.stop();
    else this.log.close(); // no node may learn what the disk may not have
  }
}

/** Workers and guests: who sends servers requests, and knows no standby. */
export function isClient(id: number): boolean {
  const role = roleOf(id);
  return role === "worker" || role === "guest";
}
