// channel — the conversation with one node, over whichever link there is at the moment: our calls to it and our answers to its requests.
// It outlives links: what was not answered is sent again on the next one. Not the dialing (peer.ts), not the meaning of functions.
//
//   call:     send → outbox (priority) → depart: number, stamp, write → pending … → answered or failed
//   request:  frame → session (order, duplicates) → served function → answer, now or later
//
// Invariants:
//   N1. Calls are numbered and stamped when they leave for the first time, and keep both: a resend is the same request.
//   N2. After a reconnect everything unanswered leaves again, in its old order, before anything new.
//   N3. Bytes handed to the link and not yet flushed stay under `inFlightBytesMax` plus one frame, so that an urgent frame waits at most that long.
//   N4. While more than `answerBytesMax` of answers wait, no further request is read from that link.
//   N5. Every call ends: answered, failed by the other side, or failed by `end` or `renew`.

import { assert } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { RingQueue } from "../base/ring-queue.ts";
import type { Link } from "../transport/transport.ts";
import { decodeFailure, fromFailure, toFailure } from "../wire/failure.ts";
import { FrameHeader, Kind, PAYLOAD_BYTES_MAX, REQUESTS_OPEN_MAX } from "../wire/frame.ts";
import { encodeJson } from "../wire/json-body.ts";
import { nameOf } from "../wire/node-id.ts";
import { Answer, fillAnswerHeader, keptLabel, labelOf, type RequestLabel, setExtent } from "./answer.ts";
import { Call } from "./call.ts";
import type { ChannelLimits } from "./channel-limits.ts";
import type { Complaints } from "./complaints.ts";
import type { Faults } from "./faults.ts";
import { FrameBatch, type Held, INLINE_BYTES_MAX, type PagePool } from "./frame-batch.ts";
import { GapNotice } from "./gap-notice.ts";
import type { PeerMetrics } from "./metrics.ts";
import { type Notice, type Outbound, Outbox } from "./outbox.ts";
import { Session } from "./session.ts";

/** Serves one function. Both are called with a header and bytes that are valid until they return. */
export type FunctionHandler = {
  /** Where a request's payload should land; by default it stays in the read buffer. */
  destination?(channel: Channel, header: FrameHeader): Uint8Array | undefined;
  /**
   * Answers through the channel, now or later (`park` first). `fresh` is false for a duplicate: answer it, apply nothing.
   * What it throws goes back to the caller as a failure.
   */
  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void;
};

/** What a channel shares with the others of its node. */
export type ChannelHost = {
  readonly clock: Clock;
  readonly pages: PagePool;
  readonly metrics: PeerMetrics;
  readonly complaints: Complaints;
  readonly limits: ChannelLimits;
  /** 0: only reconnects make calls leave again. */
  readonly resendTimeoutMs: number;
  nextStamp(): number;
  handlerOf(functionId: number): FunctionHandler | undefined;
};

const SMALL_COPY_BYTES = 64;

export class Channel {
  /** The other node; negative until it has an id. */
  id: number;
  /** Which life of the other node this is about. */
  incarnation: number;
  readonly #host: ChannelHost;
  readonly #faults: Faults | undefined;
  readonly #header = new FrameHeader();
  readonly #outbox = new Outbox();
  #session = new Session();
  #batch: FrameBatch;
  #link: Link | undefined;
  #inFlightBytes = 0;
  #answerBytes = 0;
  #paused = false;
  #flushSoon = false;
  #flushAfterInput = false;
  /** While input is handled, and whether it made us call. */
  #isInput = false;
  #inputCalls = false;
  /** Departed calls by number, `pendingFirst` at the head; undefined: settled, behind one that is not. */
  readonly #pending = new RingQueue<Call | undefined>();
  #pendingFirst = 1;
  /** The first call that was given up, until a later one is answered: the other side may or may not have seen it; 0: none was. */
  #givenUpFrom = 0;
  #nextRequest = 1;
  /** Position in `pending` of the next call to send again; at its length: none. */
  #resendAt = 0;
  #gapNoticed = 0;
  #ended: WeighbridgeError | undefined;
  #roomWaiters: (() => void)[] = [];

  constructor(host: ChannelHost, id: number, incarnation: number, faults?: Faults) {
    this.#host = host;
    this.id = id;
    this.incarnation = incarnation;
    this.#faults = faults;
    this.#batch = new FrameBatch(host.pages);
  }

  get name(): string {
    return nameOf(this.id);
  }

  get link(): Link | undefined {
    return this.#link;
  }

  get ended(): WeighbridgeError | undefined {
    return this.#ended;
  }

  /** The request number expected next from the other side, for the hello. */
  get expects(): number {
    return this.#session.expected;
  }

  /** Calls that have not ended yet. */
  get openCallCount(): number {
    let count = this.#outbox.length;
    for (let i = 0; i < this.#pending.length; i++) if (this.#pending.at(i) !== undefined) count++;
    return count;
  }

  // Calls.

  /** How many more calls may queue now. */
  get room(): number {
    return this.#host.limits.queuedMax - this.#outbox.length;
  }

  /** Whether so many calls may queue together: if they fit, or once half of the queue is free, so that no number is too large for ever. */
  admits(callCount: number): boolean {
    return this.room >= callCount || this.#outbox.length <= this.#host.limits.queuedMax / 2;
  }

  /** Calls `ready` once half of the queue is free again. */
  whenRoom(ready: () => void): void {
    if (this.#outbox.length <= this.#host.limits.queuedMax / 2) this.#host.clock.soon(ready);
    else this.#roomWaiters.push(ready);
  }

  /**
   * Takes the call on; it ends by `answered` or `failed`, never from inside `send`. Refuses with QUEUE_FULL, nothing sent, unless `admits`
   * was asked for it just now.
   */
  send(call: Call, isAdmitted = false): void {
    if (this.#ended !== undefined) {
      const error = this.#ended;
      this.#host.clock.soon(() => call.failed(error));
      return;
    }
    if (this.#outbox.length === 0 && this.#canWrite()) {
      this.#depart(call);
    } else {
      if (!isAdmitted && this.room <= 0)
        throw new WeighbridgeError("QUEUE_FULL", `${this.#outbox.length} calls to ${this.name} wait already`, { retryable: true });
      this.#outbox.push(call);
    }
    this.#scheduleSoon();
  }

  /** Whether a node that expects this request next can go on where we stand; if not, it has forgotten the conversation. */
  canResumeAt(expects: number): boolean {
    return expects >= (this.#givenUpFrom || this.#pendingFirst) && expects <= this.#nextRequest;
  }

  // Links.

  /** A link with this node is open: what was not answered leaves again on it (N2). */
  attach(link: Link): void {
    assert(this.#link === undefined, "the old link was detached first");
    this.#link = link;
    this.#resendAt = 0;
    this.#scheduleSoon();
  }

  /** The link is gone. Calls stay; answers are dropped, since the other side asks again. */
  detach(link: Link): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#isInput = false;
    this.#faults?.reset();
    this.#inFlightBytes = 0;
    this.#answerBytes = 0;
    this.#paused = false;
    this.#batch.take().flushed();
    const kept: Call[] = [];
    for (const frame of this.#outbox.drain()) {
      if (frame instanceof Call) kept.push(frame);
      else frame.discard();
    }
    for (const call of kept) this.#outbox.push(call);
  }

  /** The other node came back with a new life: it knows nothing of what was asked before. Returns the calls that may be asked again. */
  renew(incarnation: number, error: WeighbridgeError): Call[] {
    const link = this.#link;
    if (link !== undefined) {
      this.detach(link); // it was with the old life
      link.destroy();
    }
    this.incarnation = incarnation;
    this.#session = new Session();
    this.#gapNoticed = 0;
    const calls = [...this.#takeDeparted(), ...this.#takeWaiting()];
    this.#pendingFirst = 1;
    this.#givenUpFrom = 0;
    this.#nextRequest = 1;
    const again = calls.filter((call) => call.isIdempotent);
    for (const call of calls) if (!call.isIdempotent) call.failed(error);
    this.#wakeRoomWaiters();
    return again;
  }

  /** Nothing more will come of this channel: every open call fails with `error`, now and later (N5). */
  end(error: WeighbridgeError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    this.#link?.close();
    if (this.#link !== undefined) this.detach(this.#link);
    this.failCalls(error);
  }

  /** Fails every open call. The numbers of those that left are not used again, so that the same life of the other node takes new calls. */
  failCalls(error: WeighbridgeError): void {
    const calls = [...this.#takeDeparted(), ...this.#takeWaiting()];
    for (const call of calls) call.failed(error);
    this.#wakeRoomWaiters();
  }

  /** Calls that left and have no answer. The link goes with them: an answer may be landing in memory that is the caller's again. */
  #takeDeparted(): Call[] {
    const calls: Call[] = [];
    if (this.#pending.length > 0) this.#givenUpFrom ||= this.#pendingFirst;
    for (; this.#pending.length > 0; this.#pendingFirst++) {
      const call = this.#pending.shift();
      if (call === undefined) continue;
      call.request = 0;
      calls.push(call);
    }
    this.#resendAt = 0;
    if (calls.length > 0) this.#link?.destroy();
    return calls;
  }

  #takeWaiting(): Call[] {
    const frames = this.#outbox.drain();
    for (const frame of frames) if (!(frame instanceof Call)) this.#outbox.push(frame);
    return frames.filter((frame) => frame instanceof Call);
  }

  // Frames in.

  /** Where the payload of this frame belongs; see FrameSink. */
  destination(header: FrameHeader): Uint8Array | undefined {
    if (header.kind === Kind.REPLY) return this.#pending.at(header.request - this.#pendingFirst)?.destination(header);
    if (header.kind === Kind.REQUEST) return this.#host.handlerOf(header.functionId)?.destination?.(this, header);
    return undefined;
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    switch (header.kind) {
      case Kind.REQUEST:
        this.#takeRequest(header, bytes, at);
        break;
      case Kind.REPLY:
      case Kind.FAILURE:
        this.#takeAnswer(header, bytes, at);
        break;
      case Kind.NOTICE:
        this.#takeNotice(header.request);
        break;
      default:
        throw new WeighbridgeError("BAD_FRAME", `${this.name} sent a second hello`);
    }
  }

  #takeAnswer(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const index = header.request - this.#pendingFirst;
    const call = index >= 0 ? this.#pending.at(index) : undefined;
    if (call === undefined) {
      this.#host.metrics.orphanAnswers++;
      if (header.request >= this.#nextRequest || header.request === 0) throw this.#illegal(`answered request ${header.request}`);
      return; // an answer that came before
    }
    if (header.kind === Kind.FAILURE) {
      const failure = decodeFailure(bytes.subarray(at, at + header.payloadBytes)); // if that throws, the call stays for the next link
      this.#settle(index);
      call.failed(fromFailure(failure, this.name));
      return;
    }
    let last: boolean;
    try {
      last = call.answered(header, bytes, at);
    } catch (thrown) {
      this.#settle(index);
      call.failed(thrown instanceof WeighbridgeError ? thrown : fromFailure(toFailure(thrown), this.name));
      return;
    }
    const place = header.request - this.#pendingFirst;
    if (last && this.#pending.at(place) === call) this.#settle(place); // else the answer's own callback ended the channel
  }

  #settle(index: number): void {
    this.#givenUpFrom = 0;
    this.#pending.replace(index, undefined);
    while (this.#pending.length > 0 && this.#pending.at(0) === undefined) {
      this.#pending.shift();
      this.#pendingFirst++;
      if (this.#resendAt > 0) this.#resendAt--;
    }
  }

  #takeNotice(missing: number): void {
    if (missing >= this.#nextRequest || missing === 0) throw this.#illegal(`misses request ${missing}`);
    const index = Math.max(0, missing - this.#pendingFirst);
    if (index >= this.#pending.length) return;
    this.#resendAt = Math.min(this.#resendAt, index);
    this.#scheduleSoon();
  }

  #illegal(what: string): WeighbridgeError {
    return new WeighbridgeError("BAD_FRAME", `${this.name} ${what}; requests 1 to ${this.#nextRequest - 1} were made`);
  }

  #takeRequest(header: FrameHeader, bytes: Uint8Array, at: number): void {
    if (header.request - header.settled > REQUESTS_OPEN_MAX || header.request === 0) {
      throw new WeighbridgeError("BAD_FRAME", `${this.name} sent request ${header.request} with those before ${header.settled} settled`);
    }
    const admission = this.#session.admit(header.request, header.settled);
    if (admission !== "fresh") {
      const { metrics } = this.#host;
      if (admission === "gap") {
        metrics.gaps++;
        this.#noticeGap();
        return;
      }
      metrics.duplicates++;
      if (admission === "ignore") return;
      if (admission === "remembered") {
        for (const answer of this.#session.remembered(header.request)) this.#push(answer);
        return;
      }
    }
    const handler = this.#host.handlerOf(header.functionId);
    try {
      if (handler === undefined) {
        throw new WeighbridgeError("UNKNOWN_FUNCTION", `there is no function ${header.functionId} on this node`);
      }
      handler.handle(this, header, bytes, at, admission === "fresh");
    } catch (thrown) {
      this.fail(labelOf(header), thrown);
    }
  }

  /** Asks for the first missing request; once per gap, the resend timer is the net below. */
  #noticeGap(): void {
    const missing = this.#session.expected;
    if (this.#gapNoticed === missing) return;
    this.#gapNoticed = missing;
    this.#push(new GapNotice(missing));
  }

  // Answers. Each request gets exactly one of these, or `park` now and one of them later.

  /** Says yes, with nothing else to say. */
  acknowledge(label: RequestLabel): void {
    if (this.#outbox.length > 0 || !this.#canWrite()) {
      this.#push(new Answer(keptLabel(label)));
      return;
    }
    const header = this.#header;
    fillAnswerHeader(header, label, Kind.REPLY);
    this.#batch.begin(header, 0);
    this.#host.metrics.framesSent++;
    this.#scheduleAfterInput();
  }

  /** Answers with a copy of these bytes, at most INLINE_BYTES_MAX. */
  answerCopy(label: RequestLabel, source: Uint8Array, from: number, byteCount: number): void {
    assert(byteCount <= INLINE_BYTES_MAX, "larger answers go by reference");
    if (this.#outbox.length > 0 || !this.#canWrite()) {
      this.#push(new Answer(keptLabel(label), { payload: source.slice(from, from + byteCount) }));
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
    this.#scheduleAfterInput();
  }

  /** Answers with these bytes by reference; `held` is released when they have left or never will. */
  answerHeld(label: RequestLabel, payload: Uint8Array, held?: Held): void {
    this.answer(new Answer(keptLabel(label), held === undefined ? { payload } : { payload, held }));
  }

  /** Sends one frame of an answer that could be made again. */
  answer(answer: Answer): void {
    this.#push(answer);
  }

  /** Sends an answer of one or several frames that is kept until the asker has it, because it cannot be made again. */
  answerRemembered(request: number, answers: readonly Answer[]): void {
    this.#session.unpark(request);
    this.#session.remember(request, answers);
    for (const answer of answers) this.#push(answer);
  }

  fail(label: RequestLabel, thrown: unknown): void {
    this.#host.metrics.requestsFailed++;
    const failure = toFailure(thrown);
    const { code, message: reason, retryable } = failure;
    const fields = { node: this.name, function: label.functionId, request: label.request, code, reason };
    this.#host.complaints.tell(retryable ? "info" : "warn", "a request failed", fields);
    const payload = encodeJson({ ...failure, message: failure.message.slice(0, PAYLOAD_BYTES_MAX / 8) });
    this.answerRemembered(label.request, [new Answer(keptLabel(label), { kind: Kind.FAILURE, payload })]);
  }

  /** The answer to this request comes later, through `answerRemembered` or `fail`. */
  park(request: number): void {
    this.#session.park(request);
  }

  /** The answer comes now after all, through any of the ways to answer. */
  unpark(request: number): void {
    this.#session.unpark(request);
  }

  get parkedCount(): number {
    return this.#session.parkedCount;
  }

  // Frames out.

  #push(frame: Answer | Notice): void {
    if (this.#link === undefined) {
      frame.discard();
      return;
    }
    this.#outbox.push(frame);
    this.#answerBytes += frame.byteCount;
    if (this.#answerBytes > this.#host.limits.answerBytesMax && !this.#paused) {
      this.#paused = true; // N4
      this.#link.pause();
    }
    this.#scheduleAfterInput();
  }

  #canWrite(): boolean {
    return (
      this.#link !== undefined &&
      this.#faults === undefined &&
      this.#resendAt >= this.#pending.length &&
      this.#inFlightBytes + this.#batch.byteCount < this.#host.limits.inFlightBytesMax &&
      this.#pending.length < this.#host.limits.pendingMax
    );
  }

  /** Input of this channel's link is being handled from now on: calls made by it leave together when that is done. */
  beginInput(): void {
    this.#isInput = true;
    this.#inputCalls = false;
  }

  /** The input that was read is handled: the calls that were made meanwhile leave. Answers wait for the rest of the turn's input. */
  endInput(): void {
    this.#isInput = false;
    if (this.#inputCalls) this.#flush();
  }

  #scheduleSoon(): void {
    if (this.#flushSoon) return;
    if (this.#isInput) {
      this.#inputCalls = true;
      return;
    }
    this.#flushSoon = true;
    this.#host.clock.soon(this.#runFlushSoon);
  }

  #scheduleAfterInput(): void {
    if (this.#flushAfterInput || this.#flushSoon) return;
    this.#flushAfterInput = true;
    this.#host.clock.afterInput(this.#runFlushAfterInput);
  }

  readonly #runFlushSoon = (): void => {
    this.#flushSoon = false;
    this.#flush();
  };

  readonly #runFlushAfterInput = (): void => {
    this.#flushAfterInput = false;
    this.#flush();
  };

  #flush(): void {
    for (let link = this.#link; link !== undefined && link === this.#link; ) {
      this.#fillBatch();
      if (this.#batch.byteCount === 0) return;
      const { chunks, byteCount, flushed } = this.#batch.take();
      this.#inFlightBytes += byteCount;
      const writing = link;
      link.write(chunks, () => {
        flushed();
        if (this.#link !== writing) return;
        this.#inFlightBytes -= byteCount;
        if (this.#outbox.length > 0 || this.#resendAt < this.#pending.length) this.#flush();
      });
    }
  }

  #fillBatch(): void {
    const { inFlightBytesMax, writeBytesMax, pendingMax } = this.#host.limits;
    while (this.#batch.byteCount < writeBytesMax && this.#inFlightBytes + this.#batch.byteCount < inFlightBytesMax) {
      if (this.#resendAt < this.#pending.length) {
        const call = this.#pending.at(this.#resendAt++);
        if (call === undefined) continue;
        this.#host.metrics.resends++;
        this.#write(call);
        continue;
      }
      if (this.#pending.length >= pendingMax) break;
      const frame = this.#outbox.shift();
      if (frame === undefined) break;
      if (frame instanceof Call) this.#depart(frame);
      else this.#write(frame);
    }
    if (this.#roomWaiters.length > 0 && this.#outbox.length <= this.#host.limits.queuedMax / 2) this.#wakeRoomWaiters();
  }

  #wakeRoomWaiters(): void {
    const waiters = this.#roomWaiters;
    this.#roomWaiters = [];
    for (const ready of waiters) this.#host.clock.soon(ready);
  }

  /** The call leaves for the first time (N1). */
  #depart(call: Call): void {
    call.request = this.#nextRequest++;
    if (call.isUpdate && call.stamp === 0) call.stamp = this.#host.nextStamp();
    this.#pending.push(call);
    this.#resendAt++;
    this.#write(call);
  }

  #write(frame: Outbound): void {
    const isCall = frame instanceof Call;
    if (!isCall) this.#answerLeaves(frame);
    if (this.#faults === undefined) this.#emit(frame);
    else {
      const discard = (): void => (isCall ? undefined : frame.discard());
      this.#faults.pass({ emit: () => this.#emitLater(frame), discard, isRepeatable: isCall || frame.isRepeatable });
    }
  }

  /** For the fault injector, which may emit outside a flush, or after the call ended. */
  #emitLater(frame: Outbound): void {
    if (this.#link === undefined || (frame instanceof Call && frame.request === 0)) return;
    this.#emit(frame);
    this.#scheduleSoon();
  }

  #emit(frame: Outbound): void {
    const header = this.#header;
    this.#host.metrics.framesSent++;
    if (!(frame instanceof Call)) {
      frame.writeTo(header, this.#batch);
      return;
    }
    header.reset(Kind.REQUEST, frame.functionId);
    header.priority = frame.priority;
    header.request = frame.request;
    header.stamp = frame.stamp;
    header.settled = this.#pendingFirst;
    frame.sendCount++;
    if (this.#host.resendTimeoutMs > 0) frame.sentAtMs = this.#host.clock.nowMs();
    frame.encode(header, this.#batch);
  }

  /** An answer no longer waits: the link may be read again once enough of them have gone (N4). */
  #answerLeaves({ byteCount }: Answer | Notice): void {
    this.#answerBytes -= byteCount;
    if (!this.#paused || this.#answerBytes >= this.#host.limits.answerBytesMax / 2) return;
    this.#paused = false;
    this.#link?.resume();
  }

  /** Sends again from the first call on that has waited too long. Called by the peer's timer, only when resending is on. */
  resendOverdue(nowMs: number): void {
    if (this.#link === undefined || this.#resendAt < this.#pending.length) return;
    for (let i = 0; i < this.#pending.length; i++) {
      const call = this.#pending.at(i);
      if (call === undefined || nowMs - call.sentAtMs < this.#host.resendTimeoutMs * Math.min(call.sendCount, 8)) continue;
      this.#resendAt = i;
      this.#scheduleSoon();
      return;
    }
  }
}
