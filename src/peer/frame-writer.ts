// frame-writer — what leaves on a channel, in which order and when: calls that leave again, then the outbox by
// priority, one batch per write, bounded bytes in flight. Frames that need not wait go into the batch at once.
// PendingCalls are the calls that have left.
//
// Invariants:
//   FrameWriter.N1. Calls are numbered and stamped when they leave for the first time, and keep both: a resend is the
//       same request.
//   FrameWriter.N2. After a reconnect everything unanswered leaves again, in its old order, before anything new.
//   FrameWriter.N3. Bytes written and not yet flushed stay under `inFlightBytesMax` plus one frame: an urgent frame
//       waits no longer.
//   FrameWriter.N4. While more than `answerBytesMax` of answers wait, no further request is read from that link.
//   FrameWriter.N7. While somebody holds the input back (`holdInput`), no further request is read from that link
//       either.
//   FrameWriter.N8. An acknowledgement that nobody waits for leaves with whatever leaves next, or after LATER_MS. So do
//       those before it of the same input, if the other node waits for a read: it has ended its clock without waiting
//       for them, and hears of its updates when it hears of those of the others.
//   PendingCalls.C1. A number is used once per incarnation of the other node, also when its call is given up.
//   PendingCalls.C2. `first` is the lowest number without an answer; everything below is settled.
//   PendingCalls.C3. Calls leave again in the order of their numbers, from `resendFrom` on, before any new one.

import { AssertionError, assert } from "../base/assert.ts";
import { hasEmptyChunk, type Link } from "../transport/transport.ts";
import { FrameHeader, fillAnswerHeader, Kind, type RequestLabel, setExtent } from "../wire/frame.ts";
import { Answer, keptLabel } from "./answer.ts";
import { type Call, detachedError, WithdrawnCall } from "./call.ts";
import type { ChannelHost } from "./channel-host.ts";
import type { Faults } from "./faults.ts";
import { EncodedFrames, type FrameBatch, INLINE_BYTES_MAX } from "./frame-batch.ts";
import { type Notice, type Outbound, Outbox } from "./outbox.ts";
import { PausableLink } from "./pausable-link.ts";

const SMALL_COPY_BYTES = 64;
/** A write counts as at least this much: it keeps a page, and a slow peer could make us keep thousands. */
const WRITE_COST_BYTES = 8 * 1024;

/** How long an acknowledgement that nobody waits for stays at most, so that it leaves with others (FrameWriter.N8). */
const LATER_MS = 2;

/** So many bytes of answers that were made just now leave at once. */
const FRESH_BYTES = 128 * 1024;

/** Where the writes of a channel go. */
export type Output = Pick<Link, "write"> & {
  /** The link is gone: what was held back is flushed, and never leaves. */
  detached?(): void;
};

export class FrameWriter {
  readonly #host: ChannelHost;
  readonly #pending: PendingCalls;
  readonly #faults: Faults | undefined;
  readonly #header = new FrameHeader();
  readonly #outbox = new Outbox();
  readonly #frames: EncodedFrames;
  /** What the link takes: frames, or what a gateway makes of them. */
  #batch: FrameBatch;
  #link: Link | undefined;
  /** What the link's writes go to: itself, what it holds, or what holds them back. */
  #output: Output | undefined;
  #inFlightBytes = 0;
  #answerBytes = 0;
  #paused = false;
  /** How many hold the input back (FrameWriter.N7). */
  #holdCount = 0;
  #isFlushing = false;
  #flushSoon = false;
  #flushAfterInput = false;
  #isFlushLater = false;
  /** While input is handled: whether it made us call, and answer. */
  #isInput = false;
  #inputCalls = false;
  #inputAnswers = false;
  /** Only acknowledgements wait to leave, and all of them may wait (FrameWriter.N8). */
  #mayWait = false;
  /** An answer other than an acknowledgement waits to leave. */
  #hasAnswer = false;
  #roomWaiters: (() => void)[] = [];

  constructor(host: ChannelHost, pending: PendingCalls, faults: Faults | undefined) {
    this.#host = host;
    this.#pending = pending;
    this.#faults = faults;
    this.#frames = new EncodedFrames(host.pages);
    this.#batch = this.#frames;
  }

  get link(): Link | undefined {
    return this.#link;
  }

  /** Frames that wait to leave. */
  get queuedCount(): number {
    return this.#outbox.length;
  }

  /** FrameWriter.N2. `batch`: of a gateway, whose link this is. `output`: what holds writes back, if anything does. */
  attach(link: Link, takesRuns: boolean, batch: FrameBatch | undefined, output?: Output): void {
    assert(this.#link === undefined, "the old link was detached first");
    this.#link = link;
    this.#output = output ?? (link instanceof PausableLink ? link.inner : link);
    this.#frames.takesRuns = takesRuns;
    this.#batch = batch ?? this.#frames;
    this.#pending.resendFrom(0);
    this.flushSoon();
  }

  /** The link is gone. Calls stay; answers are dropped, since the other side sends its requests again. */
  detach(link: Link): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#output?.detached?.();
    this.#isInput = false;
    this.#faults?.reset();
    this.#inFlightBytes = 0;
    this.#answerBytes = 0;
    this.#paused = false;
    this.#holdCount = 0;
    this.#batch.take().flushed();
    const frames = this.#outbox.drain();
    for (const frame of frames) {
      if (frame.isCall) this.#outbox.push(frame);
      else frame.discard();
    }
  }

  // Calls.

  send(call: Call): void {
    if (this.#canWriteNow()) {
      this.#number(call);
      this.#emitCall(call);
    } else this.#outbox.push(call);
    this.flushSoon();
  }

  /** Takes the calls out that have not left. */
  takeWaiting(): Call[] {
    const frames = this.#outbox.drain();
    for (const frame of frames) if (!frame.isCall) this.#outbox.push(frame);
    return frames.filter((frame) => frame.isCall);
  }

  /** Calls `ready` once half of the queue is free. */
  whenRoom(ready: () => void): void {
    if (this.#outbox.length <= this.#host.limits.queuedMax / 2) this.#host.clock.soon(ready);
    else this.#roomWaiters.push(ready);
  }

  wakeRoomWaiters(): void {
    const waiters = this.#roomWaiters;
    this.#roomWaiters = [];
    for (const ready of waiters) this.#host.clock.soon(ready);
  }

  // Answers.

  /** `isAwaited`: the other node waits for an answer that is still to come. */
  acknowledge(label: RequestLabel, isLater: boolean, isAwaited = false): void {
    if (!this.#canWriteNow()) {
      this.push(new Answer(keptLabel(label)));
      return;
    }
    const header = this.#header;
    fillAnswerHeader(header, label, Kind.REPLY);
    this.#batch.begin(header, 0);
    this.#host.metrics.framesSent++;
    this.#mayWait = isLater && isAwaited && !this.#hasAnswer;
    if (isLater) this.#flushLater();
    else this.#flushAfter();
  }

  answerCopy(label: RequestLabel, source: Uint8Array, from: number, byteCount: number): void {
    if (byteCount > INLINE_BYTES_MAX) throw new AssertionError("larger answers go by reference");
    if (!this.#canWriteNow()) {
      this.push(new Answer(keptLabel(label), { payload: source.slice(from, from + byteCount) }));
      return;
    }
    const header = this.#header;
    fillAnswerHeader(header, label, Kind.REPLY);
    header.payloadBytes = byteCount;
    setExtent(header, byteCount, 0);
    const at = this.#batch.begin(header, byteCount);
    const target = this.#batch.page.bytes;
    if (byteCount <= SMALL_COPY_BYTES) for (let i = 0; i < byteCount; i++) target[at + i] = source[from + i] as number;
    else target.set(source.subarray(from, from + byteCount), at);
    this.#host.metrics.framesSent++;
    this.#answerCame();
    this.#flushAfter();
  }

  push(frame: Answer | Notice): void {
    if (this.#link === undefined) {
      frame.discard();
      return;
    }
    this.#outbox.push(frame);
    this.#answerCame();
    this.#answerBytes += frame.byteCount;
    if (this.#answerBytes > this.#host.limits.answerBytesMax && !this.#paused) {
      this.#paused = true; // FrameWriter.N4
      if (this.#holdCount === 0) this.#link.pause();
    }
    if (frame.isFresh && this.#answerBytes >= FRESH_BYTES) this.flush();
    else this.#flushAfter();
  }

  #answerCame(): void {
    this.#hasAnswer = true;
    this.#mayWait = false;
  }

  /** FrameWriter.N7. The promise must not reject. */
  holdInput(until: Promise<void>): void {
    const link = this.#link;
    if (link === undefined) return;
    this.#holdCount++;
    if (this.#holdCount === 1 && !this.#paused) link.pause();
    void until.then(() => {
      if (this.#link !== link) return;
      this.#holdCount--;
      if (this.#holdCount === 0 && !this.#paused) link.resume();
    });
  }

  // When to write.

  /** Input of this channel's link is being handled from now on: calls made by it leave together when that is done. */
  beginInput(): void {
    this.#isInput = true;
    this.#inputCalls = false;
    this.#inputAnswers = false;
  }

  /**
   * The input is handled: the calls and answers that it caused leave if it `wasAll` there was to read. If not, answers
   * wait for the rest of the turn's input, to share a write.
   */
  endInput(wasAll: boolean): void {
    this.#isInput = false;
    if (this.#inputCalls || (wasAll && this.#inputAnswers && !this.#mayWait)) this.flush();
    else if (this.#inputAnswers) this.#flushAfter();
  }

  /** Writes what is there after the current call stack, or after the input that is being handled. */
  flushSoon(): void {
    if (this.#flushSoon) return;
    if (this.#isInput) {
      this.#inputCalls = true;
      return;
    }
    this.#flushSoon = true;
    this.#host.clock.soon(this.#runFlushSoon);
  }

  #flushAfter(): void {
    if (this.#isInput) {
      this.#inputAnswers = true;
      return;
    }
    if (this.#flushAfterInput || this.#flushSoon) return;
    this.#flushAfterInput = true;
    this.#host.clock.afterInput(this.#runFlushAfterInput);
  }

  /** FrameWriter.N8 */
  #flushLater(): void {
    if (this.#isFlushLater) return;
    this.#isFlushLater = true;
    this.#host.clock.after(LATER_MS, this.#runFlushLater);
  }

  readonly #runFlushLater = (): void => {
    this.#isFlushLater = false;
    this.flush();
  };

  readonly #runFlushSoon = (): void => {
    this.#flushSoon = false;
    this.flush();
  };

  readonly #runFlushAfterInput = (): void => {
    this.#flushAfterInput = false;
    if (!this.#mayWait) this.flush();
  };

  #canWriteNow(): boolean {
    const pending = this.#pending;
    const { limits } = this.#host;
    return (
      this.#outbox.length === 0 &&
      this.#link !== undefined &&
      this.#faults === undefined &&
      !pending.isResending &&
      this.#inFlightBytes + this.#batch.byteCount < limits.inFlightBytesMax &&
      pending.length < limits.pendingMax
    );
  }

  /** Writes what is there, now. */
  flush(): void {
    if (this.#isFlushing) return; // called from a write that was flushed at once: the loop goes on
    this.#isFlushing = true;
    this.#mayWait = false;
    this.#hasAnswer = false;
    try {
      this.#writeBatches();
    } finally {
      this.#isFlushing = false;
    }
  }

  #writeBatches(): void {
    for (let link = this.#link; link !== undefined && link === this.#link; ) {
      this.#fillBatch();
      if (this.#batch.byteCount === 0) return;
      const taken = this.#batch.take();
      const costBytes = Math.max(taken.byteCount, WRITE_COST_BYTES);
      this.#inFlightBytes += costBytes;
      const writing = link;
      const { chunks } = taken;
      if (chunks[0]?.length === 0 || (chunks.length > 1 && hasEmptyChunk(chunks))) {
        taken.flushed();
        link.destroy(); // its memory is gone; the next link encodes everything anew (Call.K3)
        return;
      }
      this.#output?.write(chunks, () => {
        taken.flushed();
        if (this.#link !== writing) return;
        this.#inFlightBytes -= costBytes;
        if (this.#outbox.length > 0 || this.#pending.isResending) this.flush();
      });
    }
  }

  #fillBatch(): void {
    const { inFlightBytesMax, writeBytesMax, pendingMax, queuedMax } = this.#host.limits;
    while (this.#batch.byteCount < writeBytesMax && this.#inFlightBytes + this.#batch.byteCount < inFlightBytesMax) {
      const again = this.#pending.nextResend();
      if (again !== undefined) {
        this.#host.metrics.resends++;
        this.#write(again);
        continue;
      }
      if (this.#pending.length >= pendingMax) break; // the next settled call makes room, and flushes
      const frame = this.#outbox.length === 0 ? undefined : this.#outbox.shift();
      if (frame === undefined) break;
      if (frame.isCall) this.#number(frame);
      this.#write(frame);
    }
    if (this.#roomWaiters.length > 0 && this.#outbox.length <= queuedMax / 2) this.wakeRoomWaiters();
  }

  /** FrameWriter.N1 */
  #number(call: Call): void {
    this.#pending.add(call);
    if (call.isUpdate && call.stamp === 0) call.stamp = ++this.#host.stamps.last;
  }

  #write(frame: Outbound): void {
    if (!frame.isCall) this.#answerLeaves(frame);
    if (this.#faults === undefined) {
      this.#emit(frame);
      return;
    }
    const discard = (): void => (frame.isCall ? undefined : frame.discard());
    const emit = (): void => {
      if (this.#link === undefined || (frame.isCall && frame.request === 0)) return; // after the link or the call ended
      this.#emit(frame);
      this.flushSoon();
    };
    this.#faults.pass({ emit, discard, isRepeatable: frame.isCall || frame.isRepeatable });
  }

  #emit(frame: Outbound): void {
    if (frame.isCall) this.#emitCall(frame);
    else {
      this.#host.metrics.framesSent++;
      frame.writeTo(this.#header, this.#batch);
    }
  }

  #emitCall(frame: Call): void {
    const header = this.#header;
    const host = this.#host;
    host.metrics.framesSent++;
    header.begin(Kind.REQUEST, frame.functionId, frame.priority, frame.request);
    header.stamp = frame.stamp;
    header.settled = this.#pending.first;
    header.epoch = frame.epoch;
    const call = frame.isIntact ? frame : this.#withdraw(frame);
    call.sendCount++;
    if (host.resendTimeoutMs > 0) call.sentAtMs = host.clock.nowMs();
    call.encode(header, this.#batch);
  }

  /** Its memory is gone: it fails, and what stands for it keeps its number (Call.K3). */
  #withdraw(call: Call): Call {
    const withdrawn = new WithdrawnCall(call);
    if (this.#pending.at(call.request) !== call) return withdrawn; // a copy by the fault injector; the call has ended
    this.#pending.replace(call, withdrawn);
    const error = detachedError(call);
    this.#host.clock.soon(() => call.failed(error));
    return withdrawn;
  }

  /** An answer no longer waits: the link may be read again once enough of them have gone (FrameWriter.N4). */
  #answerLeaves({ byteCount }: Answer | Notice): void {
    this.#answerBytes -= byteCount;
    if (!this.#paused || this.#answerBytes >= this.#host.limits.answerBytesMax / 2) return;
    this.#paused = false;
    if (this.#holdCount === 0) this.#link?.resume();
  }
}

/** The calls that left and have no answer yet, by their numbers. Knows which of them are to leave again. */
export class PendingCalls {
  /** A ring, as long as a power of two: a call is at its number. Undefined: settled, behind one that is not. */
  #calls: (Call | undefined)[] = new Array<Call | undefined>(16).fill(undefined);
  #first = 1;
  #next = 1;
  /** The number of the next call to leave again; `next`: none. */
  #resend = 1;
  /** The first call that was given up, until a later one is answered; the other side may have seen it. 0: none. */
  #givenUpFrom = 0;

  /** Calls that are kept, and settled ones behind them. */
  get length(): number {
    return this.#next - this.#first;
  }

  get openCount(): number {
    let count = 0;
    for (let request = this.#first; request < this.#next; request++) if (this.at(request) !== undefined) count++;
    return count;
  }

  /** PendingCalls.C2 */
  get first(): number {
    return this.#first;
  }

  /** The number the next call will have. */
  get next(): number {
    return this.#next;
  }

  get isResending(): boolean {
    return this.#resend < this.#next;
  }

  /** The call leaves for the first time, now: it gets its number. Not while others leave again (PendingCalls.C3). */
  add(call: Call): void {
    if (this.#next - this.#first === this.#calls.length) this.#grow();
    const request = this.#next;
    const calls = this.#calls;
    call.request = request;
    calls[request & (calls.length - 1)] = call;
    this.#next = request + 1;
    this.#resend = request + 1;
  }

  /** The call with this number, unless it is settled or was never made. */
  at(request: number): Call | undefined {
    return request >= this.#first && request < this.#next ? this.#calls[request & (this.#calls.length - 1)] : undefined;
  }

  /** Another call stands for this one from now on, under its number. */
  replace(call: Call, by: Call): void {
    this.#calls[call.request & (this.#calls.length - 1)] = by;
  }

  /** The call with this number has its answer. */
  settle(request: number): void {
    const calls = this.#calls;
    const mask = calls.length - 1;
    this.#givenUpFrom = 0;
    calls[request & mask] = undefined;
    if (request !== this.#first) return;
    let first = request + 1;
    while (first < this.#next && calls[first & mask] === undefined) first++;
    this.#first = first;
    if (this.#resend < first) this.#resend = first;
  }

  /** This call and all behind it are to leave again. */
  resendFrom(request: number): void {
    this.#resend = Math.min(this.#resend, Math.max(this.#first, request));
  }

  /** The next call that is to leave again. */
  nextResend(): Call | undefined {
    while (this.#resend < this.#next) {
      const call = this.at(this.#resend++);
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** The number of the first call that has waited longer than `timeoutMs`, times how often it left; 0: none has. */
  overdue(nowMs: number, timeoutMs: number): number {
    for (let request = this.#first; request < this.#next; request++) {
      const call = this.at(request);
      if (call !== undefined && nowMs - call.sentAtMs >= timeoutMs * Math.min(call.sendCount, 8)) return request;
    }
    return 0;
  }

  /**
   * Removes all calls, unanswered. Their numbers are not used again: the same incarnation takes new calls
   * (PendingCalls.C1).
   */
  giveUp(): Call[] {
    const calls: Call[] = [];
    if (this.length > 0) this.#givenUpFrom ||= this.#first;
    for (; this.#first < this.#next; this.#first++) {
      const call = this.at(this.#first);
      if (call !== undefined) calls.push(call);
    }
    this.#calls.fill(undefined);
    this.#resend = this.#next;
    return calls;
  }

  /** The other node has a new incarnation: numbers begin anew. Only after `giveUp`. */
  restart(): void {
    this.#first = 1;
    this.#next = 1;
    this.#resend = 1;
    this.#givenUpFrom = 0;
  }

  /** Another process goes on with the other node's state: what is open leaves again in its order, as 1, 2, 3 … */
  renumber(): void {
    const calls = this.giveUp();
    this.restart();
    for (const call of calls) this.add(call);
    this.#resend = this.#first;
  }

  /** Whether a node that expects this request next can resume; if not, it has forgotten the conversation. */
  canResumeAt(expects: number): boolean {
    return expects >= (this.#givenUpFrom || this.#first) && expects <= this.#next;
  }

  #grow(): void {
    const calls = new Array<Call | undefined>(this.#calls.length * 2).fill(undefined);
    for (let request = this.#first; request < this.#next; request++) calls[request & (calls.length - 1)] = this.at(request);
    this.#calls = calls;
  }
}
