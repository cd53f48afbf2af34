// replica-log — the log of a head: numbers what changes its state, gives it to a sink, a standby or a disk, and holds
// back what leaves for others until the sink has it (docs/decisions/0060, 0071). Not what an entry is (log-entry.ts),
// nor who writes them (logged-requests.ts).
//
//   append ──► a page ── full, or the turn's input is handled ──► to the sink ──► acknowledged ──► held writes leave
//
// Invariants (Availability.I1, Availability.I2 and Availability.I8 of docs/decisions/0079):
//   ReplicaLog.I1. A write leaves only when every entry that was there when it was made is acknowledged: nobody sees
//       what a failover could take back.
//   ReplicaLog.I2. Entries reach the standby in order, each once: what it has is a prefix of the log.
//   ReplicaLog.I8. What is kept for the standby is bounded: links that bring more are not read until it has caught up.
//   ReplicaLog.L1. Without a sink nothing is kept and nothing waits. Only the scheduler says that there is no standby.
//   ReplicaLog.L2. Nothing waits for a standby that is being filled, until it has all but what is under way (fill.ts).
//   ReplicaLog.L3. A sink's silence is counted in ticks, after the input that has arrived: a machine that stood still,
//       or a head that was held up, takes no standby for late (LinkMonitor.A1).

import { assert } from "../../base/assert.ts";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import { isWeighbridgeError, reasonOf, type WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Channel } from "../../peer/channel.ts";
import type { Output } from "../../peer/frame-writer.ts";
import type { Link } from "../../transport/transport.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { encodeJson } from "../../wire/json-body.ts";
import { ENTRY_BYTES, type EntryKind, type EntryPage, frameEntryBytes, runEntryBytes } from "./log-entry.ts";
import type { LogPages } from "./log-pages.ts";
import type { LogSink } from "./log-sink.ts";
import { pack } from "./packed-body.ts";

/** ReplicaLog.I8 */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;

/** How often a head says why it holds its answers back, as long as it does. */
const REMINDER_MS = 60_000;

/** A standby that answers nothing for this long, where heartbeats say nothing else. */
const LATE_MS = 5000;
/** The precision with which that is noticed (ReplicaLog.L3). */
const TICKS_PER_LATE = 10;

export type ReplicaLogOptions = { readonly clock: Clock; readonly log: Log; readonly keptBytesMax?: number | undefined };

export class ReplicaLog {
  /** The number of the last entry. */
  position = 0;
  /** How much was written since `byteCount` was set to 0. */
  byteCount = 0;
  /** The last entry that the sink has. */
  acknowledged = 0;
  /** False once the scheduler has said that there is no standby (ReplicaLog.L1). */
  isOn = true;
  /** Rises when there is another sink, or none any more. */
  sinkNumber = 0;
  /** Whether what leaves waits for the standby (ReplicaLog.L2). */
  holdsBack = true;
  /** How long the standby may take to answer before `onLate` is called; again and again, until it answers. */
  lateMs: number = LATE_MS;
  onLate: () => void = () => {};
  onAcknowledged: () => void = () => {};
  /** Called when the standby has taken over: this is no head any more. */
  onReplaced: (error: WeighbridgeError) => void = () => {};
  /** The standby, or the way to it, has failed. */
  onRefused: (error: unknown) => void = () => {};
  readonly #options: ReplicaLogOptions;
  readonly #keptBytesMax: number;
  readonly #waiting = new Set<HeldOutput>();
  #sink: LogSink | undefined;
  #page: EntryPage | undefined;
  /** Pages that wait for a sink. */
  readonly #unsent: { readonly first: number; readonly page: EntryPage }[] = [];
  readonly #pages: LogPages;
  #keptBytes = 0;
  #room: Deferred<void> | undefined;
  #isFlushing = false;
  /** Whether the handler of the last request runs: its entry may be taken back. */
  #isBeingHandled = false;
  #isWatched = false;
  /** Another one once the last tick is not to come any more. */
  #watchNumber = 0;
  #cancelWatch: CancelTimer = () => {};
  /** When the sink acknowledged something last, or had nothing to acknowledge. */
  #heardAtMs = 0;
  /** How many ticks ago that was. */
  #silentTicks = 0;
  /** When the reason was logged last for which nothing is acknowledged; undefined: not since the last that was. */
  #remindedAtMs: number | undefined;
  #isClosed = false;
  /** Those who wait for a position, in its order. */
  readonly #committing: { readonly position: number; readonly committed: Deferred<void> }[] = [];
  /** Who waits until an entry is acknowledged. */
  #reached: { readonly position: number; readonly run: () => void } | undefined;

  constructor(options: ReplicaLogOptions, pages: LogPages) {
    this.#options = options;
    this.#pages = pages;
    this.#keptBytesMax = options.keptBytesMax ?? KEPT_BYTES_MAX;
  }

  /** The log goes there, from its first entry on. */
  sendTo(sink: LogSink): void {
    if (!this.isOn) return;
    this.#sink = sink;
    for (const { first, page } of this.#unsent.splice(0)) this.#send(sink, first, page);
  }

  /** The sink has all entries up to this one, as a process before this one wrote them. */
  goOnAfter(position: number): void {
    assert(this.position === 0, "a log goes on before anything is written");
    this.position = position;
    this.acknowledged = position;
  }

  /** A standby that has nothing: the log goes on for it, and nobody waits (ReplicaLog.L2). */
  start(sink: LogSink): void {
    this.stop();
    this.isOn = true;
    this.#sink = sink;
  }

  /** Calls `run` once, when the sink has all entries that are there now. One waits at a time. */
  whenAcknowledged(run: () => void): void {
    this.#reached = { position: this.position, run };
  }

  /** Whether this head has held its answers back for so long that others find it silent, and it them. */
  get isMute(): boolean {
    return this.heldMs !== undefined;
  }

  /** For how long; undefined: not at all, or not for so long. */
  get heldMs(): number | undefined {
    const isHeld = this.isOn && this.holdsBack && this.acknowledged < this.position;
    const heldMs = Math.round(this.#options.clock.nowMs() - this.#heardAtMs);
    return isHeld && heldMs >= this.lateMs / 2 ? heldMs : undefined;
  }

  /** Resolves when nobody can take back what was done up to now; undefined: nobody can (ReplicaLog.I1). */
  whenCommitted(): Promise<void> | undefined {
    if (!this.holdsBack || this.acknowledged === this.position) return undefined;
    const committed = new Deferred<void>();
    this.#committing.push({ position: this.position, committed });
    return committed.promise;
  }

  /** The scheduler has given the standby up: what waited for it leaves (ReplicaLog.L1). */
  stop(): void {
    this.isOn = false;
    this.holdsBack = false;
    this.sinkNumber++;
    this.#reached = undefined;
    this.#sink = undefined;
    if (this.#page !== undefined) this.#pages.give(this.#page);
    this.#page = undefined;
    for (const { page } of this.#unsent.splice(0)) this.#pages.give(page);
    this.#keptBytes = 0;
    this.acknowledged = this.position;
    this.#endWatch();
    this.#release();
  }

  /** What waits goes on waiting, and never leaves: the sink may not have it. */
  close(): void {
    this.#isClosed = true;
    this.#endWatch();
  }

  // Entries.

  /** A request, as it came: before its handler runs, which may change its bytes. */
  appendFrame(kind: EntryKind, { id, incarnation }: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    this.#pageFor(frameEntryBytes(header)).addFrame(kind, id, incarnation, header, bytes, at);
    this.#isBeingHandled = true;
  }

  /** Whether a run may be sent before it is handled: a standby has all that came before, and answers wait for it. */
  get takesAhead(): boolean {
    return this.isOn && this.holdsBack && this.#sink?.takesAhead === true;
  }

  /** The run that begins with this request, before any of it is handled. It leaves at once. */
  appendRun({ id, incarnation }: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    this.#pageFor(runEntryBytes(header), 1 + header.more).addRun(id, incarnation, header, bytes, at);
    this.#sendPage();
  }

  /** The handler of the last request has returned, and its entry stays. */
  handled(): void {
    this.#isBeingHandled = false;
  }

  appendText(kind: EntryKind, body: unknown): void {
    const text = encodeJson(body);
    this.#pageFor(ENTRY_BYTES + text.length + 8).addText(kind, text);
  }

  appendPacked(kind: EntryKind, value: unknown): number {
    const body = pack(value);
    this.#pageFor(ENTRY_BYTES + body.byteCount).addPacked(kind, body);
    return body.byteCount;
  }

  /** The last request was refused by its handler. Its number stays taken: a write may wait for it. */
  retract(): void {
    assert(this.#page !== undefined, "nothing is sent while a handler runs");
    this.#page.dropLast();
    this.handled();
  }

  /** The handler of the last request threw, and what it did until then is to be repeated. */
  markThrown(): void {
    assert(this.#page !== undefined, "nothing is sent while a handler runs");
    this.#page.markThrown();
    this.handled();
  }

  /** ReplicaLog.I8 */
  get isFull(): boolean {
    return this.#keptBytes + (this.#page?.length ?? 0) > this.#keptBytesMax;
  }

  /** Resolves when half of what may be kept is free. */
  whenRoom(): Promise<void> {
    this.#room ??= new Deferred();
    return this.#room.promise;
  }

  /** The page that the next entry is written to; it gets its numbers here. */
  #pageFor(byteCount: number, count = 1): EntryPage {
    if (this.#page !== undefined && this.#page.room < byteCount) this.#sendPage();
    this.#page ??= this.#pages.take(byteCount);
    this.position += count;
    if (!this.#isFlushing) {
      this.#isFlushing = true;
      this.#options.clock.afterInput(this.#flush);
    }
    return this.#page;
  }

  readonly #flush = (): void => {
    this.#isFlushing = false;
    this.#sendPage();
  };

  /** A write waits for what is in the page: the sooner that leaves the better, unless a handler may still refuse it. */
  hurry(): void {
    if (!this.#isBeingHandled) this.#sendPage();
  }

  #sendPage(): void {
    const page = this.#page;
    if (page === undefined) return;
    this.#page = undefined;
    const first = this.position - page.count + 1;
    if (this.acknowledged === first - 1) this.#heardNow(); // nothing was awaited so far
    if (!this.#isWatched) this.#watch();
    this.#keptBytes += page.length;
    this.byteCount += page.length;
    if (this.#sink === undefined) this.#unsent.push({ first, page });
    else this.#send(this.#sink, first, page);
  }

  /** Runs only while entries are not acknowledged. */
  #watch(): void {
    const { clock } = this.#options;
    this.#isWatched = this.isOn && !this.#isClosed && this.acknowledged < this.position;
    if (!this.#isWatched) return;
    const watch = ++this.#watchNumber;
    this.#cancelWatch = clock.after(this.lateMs / TICKS_PER_LATE, () => {
      clock.afterInput(() => {
        if (this.#watchNumber === watch) this.#tick();
      });
    });
  }

  /** ReplicaLog.L3 */
  #tick(): void {
    if (this.acknowledged < this.position && ++this.#silentTicks % TICKS_PER_LATE === 0) {
      if (this.#silentTicks > TICKS_PER_LATE) this.#remind("it does not answer");
      this.onLate();
    }
    if (this.#isWatched) this.#watch(); // else it was stopped for that
  }

  /** Nothing is waited for any more: no timer keeps the process of a server that has ended. */
  #endWatch(): void {
    this.#cancelWatch();
    this.#watchNumber++;
    this.#isWatched = false;
  }

  #send(sink: LogSink, first: number, page: EntryPage): void {
    const entries = page.bytes.subarray(0, page.length);
    sink.write(
      { first, last: first + page.count - 1, entries },
      {
        written: (last) => {
          const { length } = page;
          this.#pages.give(page);
          if (this.#sink !== sink) return;
          this.#keptBytes -= length;
          this.#acknowledge(last);
        },
        failed: (error) => {
          this.#pages.drop(page); // what is left of a write to it may still leave
          if (this.#sink === sink && !this.#isClosed) this.#refused(error);
        },
      },
    );
  }

  /** The standby may have what this head has not: the scheduler is asked to give it up. */
  giveUp(error: WeighbridgeError): void {
    if (this.#sink !== undefined) this.#refused(error);
  }

  /** The scheduler decides what follows; until then what waits goes on waiting. */
  #refused(error: unknown): void {
    if (isWeighbridgeError(error, "FENCED")) {
      this.onReplaced(error);
      return;
    }
    this.#remind(reasonOf(error));
    this.onRefused(error);
  }

  #heardNow(): void {
    this.#heardAtMs = this.#options.clock.nowMs();
    this.#silentTicks = 0;
    this.#remindedAtMs = undefined;
  }

  /** Says why nothing is acknowledged, now and again. */
  #remind(reason: string): void {
    const { clock, log } = this.#options;
    const nowMs = clock.nowMs();
    if (this.#sink === undefined || nowMs - (this.#remindedAtMs ?? -Infinity) < REMINDER_MS) return;
    this.#remindedAtMs = nowMs;
    const heldMs = this.holdsBack ? { heldMs: Math.round(nowMs - this.#heardAtMs) } : {};
    log.warn(`${this.#sink.name} does not take the log${this.holdsBack ? ", and answers wait for it" : ""}`, { reason, ...heldMs });
  }

  #acknowledge(applied: number): void {
    if (applied <= this.acknowledged) return;
    assert(applied <= this.position, "a sink has a prefix of the log");
    this.acknowledged = applied;
    this.#heardNow();
    this.onAcknowledged();
    this.#release();
    const reached = this.#reached;
    if (reached === undefined || applied < reached.position) return;
    this.#reached = undefined;
    reached.run();
  }

  // What leaves.

  /** Holds the writes of this link back (ReplicaLog.I1). */
  holdBack(link: Link): Output {
    return new HeldOutput(this, link, this.#waiting);
  }

  #release(): void {
    while ((this.#committing[0]?.position ?? Infinity) <= this.acknowledged) this.#committing.shift()?.committed.resolve();
    for (const output of [...this.#waiting]) output.release(this.acknowledged);
    if (this.#room === undefined || this.#keptBytes > this.#keptBytesMax / 2) return;
    this.#room.resolve();
    this.#room = undefined;
  }
}

type HeldWrite = { readonly position: number; readonly chunks: readonly Uint8Array[]; readonly flushed: () => void };

/** The writes of one link. */
class HeldOutput implements Output {
  readonly #log: ReplicaLog;
  readonly #link: Link;
  readonly #waiting: Set<HeldOutput>;
  #held: HeldWrite[] = [];
  #isReleasing = false;

  constructor(log: ReplicaLog, link: Link, waiting: Set<HeldOutput>) {
    this.#log = log;
    this.#link = link;
    this.#waiting = waiting;
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    const { position, acknowledged, holdsBack } = this.#log;
    if ((position === acknowledged || !holdsBack) && this.#held.length === 0 && !this.#isReleasing) {
      this.#link.write(chunks, flushed);
      return;
    }
    this.#held.push({ position, chunks, flushed });
    this.#waiting.add(this);
    this.#log.hurry();
  }

  /** Entries up to this one are acknowledged. A write that is flushed at once may bring the next one (Link.L3). */
  release(acknowledged: number): void {
    this.#isReleasing = true;
    for (let next = this.#held[0]; next !== undefined && next.position <= acknowledged; next = this.#held[0]) {
      this.#held.shift();
      this.#link.write(next.chunks, next.flushed);
    }
    this.#isReleasing = false;
    if (this.#held.length === 0) this.#waiting.delete(this);
  }

  detached(): void {
    const held = this.#held;
    this.#held = [];
    this.#waiting.delete(this);
    for (const { flushed } of held) flushed();
  }
}
