// channel — the conversation with one node, over whichever link there is: our calls to it and our answers to its
// requests. It outlives links: what has no answer is sent again on the next one. Not the writing (frame-writer.ts), not
// the dialing (peer.ts), not the meaning of functions.
//
//   call:     send → frame-writer: outbox, number, stamp → PendingCalls … → answered or failed
//   request:  frame → ReceivedRequests (order, duplicates) → served function → answer, now or later
//
// A lost request leaves a gap, and everything behind it is refused until it is sent again (go-back-n). So a read is
// never served before a write that left earlier.
//
// Invariants (see also FrameWriter):
//   Channel.N5. Every call ends: answered, failed by the other side, or failed by `end`, `renew`, `failCalls`,
//       `failLost` or `failLeft` (Availability.I7 of docs/decisions/0079).
//   Channel.N6. A failed call never leaves again, and its number is settled: the same incarnation takes the next call.
//   Channel.N7. A failover ends no call: what had left keeps its order and its stamps, and leaves before anything new.
//       An update of a lower stamp that left later would be taken for one that was applied (VectorClock.V1,
//       Availability.I5).
//   ReceivedRequests.S1. A request is fresh exactly once.
//   ReceivedRequests.S2. Requests become fresh in the order of their numbers.
//   ReceivedRequests.S3. Answers that cannot be made again are kept until the caller has them (`settled`).
//   ReceivedRequests.S4. Nobody waits for a request that its caller gave up before it came: nothing below `settled` is
//       sent again.

import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Link } from "../transport/transport.ts";
import { decodeFailure, type Failure, fromFailure, handlerStack, outcomeOfFailure, toFailure } from "../wire/failure.ts";
import { type FrameHeader, Kind, REQUESTS_OPEN_MAX, type RequestLabel } from "../wire/frame.ts";
import { encodeJson } from "../wire/json-body.ts";
import { nameOf } from "../wire/node-id.ts";
import { Answer, keptLabel, labelOf } from "./answer.ts";
import { type Call, type CallFate, detachedError, IN_PLACE_BYTES_MAX, leftError, lostErrors, UpdateFates } from "./call.ts";
import type { ChannelHost } from "./channel-host.ts";
import type { Faults } from "./faults.ts";
import type { FrameBatch, Held } from "./frame-batch.ts";
import { FrameWriter, PendingCalls } from "./frame-writer.ts";
import { GapNotice } from "./outbox.ts";

/** What is wrong with an answer that was not taken. */
const ANSWER_FAULTS: readonly ErrorCode[] = ["VALUE_LENGTH", "BAD_FRAME", "BAD_REQUEST"];

/** Serves one function. Both are called with a header and bytes that are valid until they return. */
export type FunctionHandler = {
  /** Where a request's payload should land; by default it stays in the read buffer. */
  destination?(channel: Channel, header: FrameHeader): Uint8Array | undefined;
  /**
   * Answers through the channel, now or later (`park` first). `fresh` is false for a duplicate: answer it, apply
   * nothing. What it throws goes back to the caller as a failure.
   */
  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void;
  /** A frame of this request was refused before it came here: drop the earlier ones. */
  abandon?(channel: Channel, header: FrameHeader): void;
  /** The name of the requested function, for log lines. */
  nameOf?(label: RequestLabel): string | undefined;
};

export class Channel {
  /** The other node; negative until it has an id. */
  id: number;
  /** Which incarnation of the other node this is about. */
  incarnation: number;
  /** Since which incarnation the other node's state is the same: an earlier one after a failover (Channel.N7). */
  since: number;
  /** A later incarnation may go on with the state of this one. Who dials the node says whether it does. */
  returns = false;
  /** Rises when the conversation begins anew: its numbers begin anew, too. */
  conversation = 1;
  /** The other node has said that it leaves: a link that breaks afterwards is expected. */
  isLeaving = false;
  /** The node and incarnation for which a pulse speaks here (Peer.P8); a channel of a pulse has no id. */
  pulseOf: { readonly node: number; readonly incarnation: number } | undefined;
  readonly #host: ChannelHost;
  readonly #pending = new PendingCalls();
  readonly #writer: FrameWriter;
  /** What this node remembers of the other's requests; nobody else changes it. */
  received: ReceivedRequests = new ReceivedRequests();
  #gapNoticed = 0;
  #isHeard = false;
  #ended: WeighbridgeError | undefined;
  #callNumber = 0;
  #unlinked: (() => void)[] = [];
  readonly #fates = new UpdateFates();

  constructor(host: ChannelHost, id: number, incarnation: number, faults?: Faults) {
    this.#host = host;
    this.id = id;
    this.incarnation = incarnation;
    this.since = incarnation;
    this.#writer = new FrameWriter(host, this.#pending, faults);
  }

  get name(): string {
    return nameOf(this.id);
  }

  get link(): Link | undefined {
    return this.#writer.link;
  }

  get ended(): WeighbridgeError | undefined {
    return this.#ended;
  }

  /** The request number expected next from the other side, for the hello. */
  get expects(): number {
    return this.received.expected;
  }

  /** Whether either side has numbered a request of this conversation. */
  get hasBegun(): boolean {
    return this.#pending.next > 1 || this.received.expected > 1;
  }

  /** Calls that have not ended yet. */
  get openCallCount(): number {
    return this.#writer.queuedCount + this.#pending.openCount;
  }

  /** Whether calls wait for an answer, or for a link. */
  get isAwaiting(): boolean {
    return this.#pending.length > 0 || (this.link === undefined && this.#writer.queuedCount > 0);
  }

  /** Whether anything came from the other node since the last call of this; for link-monitor.ts. */
  takeHeard(): boolean {
    const isHeard = this.#isHeard;
    this.#isHeard = false;
    return isHeard;
  }

  // Calls.

  /** Distinguishes calls of several frames at the other node, which assembles them. */
  nextCallNumber(): number {
    this.#callNumber = (this.#callNumber + 1) >>> 0;
    return this.#callNumber;
  }

  /** How many more calls may queue now. */
  get room(): number {
    return this.#host.limits.queuedMax - this.#writer.queuedCount;
  }

  /** Whether so many calls may queue together: if they fit, or once half of the queue is free. */
  admits(callCount: number): boolean {
    return this.room >= callCount || this.#writer.queuedCount <= this.#host.limits.queuedMax / 2;
  }

  /** Throws QUEUE_FULL unless it admits so many calls; `advice` ends the message. */
  checkRoom(callCount: number, advice = ""): void {
    if (this.admits(callCount)) return;
    const message = `${this.#writer.queuedCount} calls to ${this.name} wait already, and ${callCount} more do not fit${advice}`;
    throw new WeighbridgeError("QUEUE_FULL", message, { retryable: true });
  }

  /** Calls `ready` once half of the queue is free again. */
  whenRoom(ready: () => void): void {
    this.#writer.whenRoom(ready);
  }

  /**
   * Accepts the call; it ends by `answered` or `failed`, never from inside `send`. Throws QUEUE_FULL, nothing sent,
   * unless `admits` was called just before.
   */
  send(call: Call, isAdmitted = false): void {
    if (this.#ended !== undefined) {
      const error = this.#ended;
      this.#host.clock.soon(() => call.failed(error));
      return;
    }
    if (!isAdmitted) this.checkRoom(1);
    this.#writer.send(call);
  }

  /** Writes what waits to leave, now and not after the current call stack. */
  flush(): void {
    this.#writer.flush();
  }

  /** Whether a node that expects this request next can resume; if not, it has forgotten the conversation. */
  canResumeAt(expects: number): boolean {
    return this.#pending.canResumeAt(expects);
  }

  /** Resends from the first overdue call on. The peer's timer calls it, if resending is on. */
  resendOverdue(nowMs: number): void {
    if (this.link === undefined || this.#pending.isResending) return;
    const overdue = this.#pending.overdue(nowMs, this.#host.resendTimeoutMs);
    if (overdue === 0) return;
    this.#pending.resendFrom(overdue);
    this.#writer.flushSoon();
  }

  // Links.

  /** A link is open: calls without an answer leave again on it (FrameWriter.N2). A gateway's link has its own batch. */
  attach(link: Link, takesRuns = false, batch?: FrameBatch): void {
    this.#writer.attach(link, takesRuns, batch, this.#host.outputOf?.(this, link));
  }

  /** The link is gone. Calls stay; answers are dropped, since the other side sends its requests again. */
  detach(link: Link): void {
    this.#writer.detach(link);
    if (this.link !== undefined) return;
    const unlinked = this.#unlinked;
    this.#unlinked = [];
    for (const each of unlinked) each();
  }

  /** Ends the link that is there, at once. */
  cutLink(): void {
    const { link } = this;
    if (link === undefined) return;
    this.detach(link);
    link.destroy();
  }

  /** Calls `unlinked` once, when the link that is there now, or the next one, is gone. Another may come. */
  whenUnlinked(unlinked: () => void): void {
    this.#unlinked.push(unlinked);
  }

  /** Around the handling of input from this channel's link: calls made by it leave together. */
  beginInput(): boolean {
    this.#isHeard = true;
    this.#writer.beginInput();
    return true;
  }

  /** `wasAll`: there was room for more than came, so nothing else is waiting to be read. */
  endInput(wasAll: boolean): void {
    this.#writer.endInput(wasAll);
  }

  /** The other node has a new incarnation, which knows none of our calls. Returns those that may be sent again. */
  renew(incarnation: number, error: WeighbridgeError): Call[] {
    // The same incarnation has forgotten what it took.
    this.#beginAnew(incarnation, incarnation === this.incarnation ? "unknown" : "dropped");
    this.since = incarnation;
    const calls = [...this.#pending.giveUp(), ...this.#writer.takeWaiting()];
    this.#pending.restart();
    const again = calls.filter((call) => call.isIdempotent);
    for (const call of again) call.request = 0;
    for (const call of calls) if (!call.isIdempotent) call.failed(error);
    this.#writer.wakeRoomWaiters();
    return again;
  }

  /**
   * The other node's state goes on in another process, as this incarnation: all open calls leave again, in their order
   * and with their stamps, and that process knows which of them were applied (Channel.N7).
   */
  continueWith(incarnation: number): void {
    this.#beginAnew(incarnation, "unknown");
    this.#pending.renumber();
  }

  /** The conversation begins anew, with this incarnation. `fate`: of updates that were given up. */
  #beginAnew(incarnation: number, fate: CallFate["outcome"]): void {
    this.cutLink(); // answers on it have numbers that are used again now
    this.#fates.decide(() => fate);
    this.incarnation = incarnation;
    this.conversation++;
    this.received = new ReceivedRequests();
    this.#gapNoticed = 0;
  }

  /** The same incarnation goes on; it expects this request next (Call.K4), if it says so. */
  resume(expects: number | undefined): void {
    this.#fates.decide((request) => (expects === undefined ? "unknown" : request < expects ? "applied" : "dropped"));
  }

  /** Nothing more will come of this channel: every open call fails with `error`, now and later (Channel.N5). */
  end(error: WeighbridgeError): void {
    if (this.#ended !== undefined) return;
    this.#ended = error;
    const { link } = this;
    link?.close();
    if (link !== undefined) this.detach(link);
    this.failCalls(error);
  }

  /** Fails every open call; the same incarnation of the other node takes new ones (Channel.N6). */
  failCalls(error: WeighbridgeError): void {
    const fateOf = ({ request, isUpdate }: Call): CallFate | undefined =>
      isUpdate ? this.#fates.open(request, this.#ended !== undefined) : undefined;
    this.#failAll(error, (call) => call.failed(error, fateOf(call)));
  }

  /**
   * The other node could not be reached: fails every open call; the error says whether it may have been applied
   * (Channel.N6).
   */
  failLost(code: "LINK_LOST" | "NODE_DEAD", reason: string): void {
    const { lost, unsent } = lostErrors(code, reason);
    this.#failAll(unsent, (call) => call.failed(call.isUpdate ? lost : unsent));
  }

  /** The other node has left, and others have its parts: every open call fails, as `leftError` says. */
  failLeft(): void {
    const departed = this.#pending.giveUp();
    if (departed.length > 0) this.link?.destroy(); // as in #failAll
    // First what waits: a request of which a frame has not left was not applied.
    for (const call of this.#writer.takeWaiting()) call.failed(leftError(this.id, call, false));
    for (const call of departed) call.failed(leftError(this.id, call, true));
  }

  #failAll(unsent: WeighbridgeError, failDeparted: (call: Call) => void): void {
    const departed = this.#pending.giveUp();
    const waiting = this.#writer.takeWaiting();
    if (departed.length > 0) this.link?.destroy(); // an answer may be landing in memory that is the caller's again
    for (const call of departed) failDeparted(call);
    for (const call of waiting) call.failed(unsent);
    this.#writer.wakeRoomWaiters();
  }

  /** For a gateway: the call of this number failed; one that has ended is left alone. */
  failCall(request: number, failure: Failure): void {
    const call = this.#pending.at(request);
    if (call === undefined) return;
    this.#settle(request);
    call.failed(fromFailure(failure, this.name, call.isUpdate ? outcomeOfFailure(failure) : undefined));
  }

  // Frames in.

  /** Where the payload of this frame belongs; see FrameSink. */
  destination(header: FrameHeader): Uint8Array | undefined {
    if (header.payloadBytes <= IN_PLACE_BYTES_MAX) return undefined;
    if (header.kind === Kind.REPLY) return this.#pending.at(header.request)?.destination(header);
    if (header.kind === Kind.REQUEST) return this.#host.handlers[header.functionId]?.destination?.(this, header);
    return undefined;
  }

  frame(header: FrameHeader, bytes: Uint8Array, at: number): void {
    switch (header.kind) {
      case Kind.REQUEST:
        this.#takeRequest(header, bytes, at);
        break;
      case Kind.REPLY:
        this.#takeAnswer(header, bytes, at);
        break;
      case Kind.FAILURE:
        this.#takeFailure(header, bytes, at);
        break;
      case Kind.NOTICE:
        this.#takeNotice(header.request);
        break;
      default:
        throw new WeighbridgeError("BAD_FRAME", `${this.name} sent a second hello`);
    }
  }

  #takeAnswer(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const { request } = header;
    const pending = this.#pending;
    const call = pending.at(request);
    if (call === undefined) {
      this.#takeOrphan(header, bytes, at);
      return;
    }
    let last: boolean;
    try {
      if (!call.isIntact) throw detachedError(call);
      last = call.answered(header, bytes, at);
    } catch (thrown) {
      this.#settle(request);
      call.failed(this.#answerFault(thrown));
      return;
    }
    if (last && pending.at(request) === call) this.#settle(request); // else its callback ended the channel
  }

  /** The failure of a call whose answer was not taken. One that does not fit its call names the node that gave it. */
  #answerFault(thrown: unknown): WeighbridgeError {
    return isWeighbridgeError(thrown) && !ANSWER_FAULTS.includes(thrown.code) ? thrown : fromFailure(toFailure(thrown), this.name);
  }

  #takeFailure(header: FrameHeader, bytes: Uint8Array, at: number): void {
    if (this.#pending.at(header.request) === undefined) this.#takeOrphan(header, bytes, at);
    // a throw leaves the call to the next link
    else this.failCall(header.request, decodeFailure(bytes.subarray(at, at + header.payloadBytes)));
  }

  /** An answer to no call that is open. */
  #takeOrphan({ kind, request, payloadBytes }: FrameHeader, bytes: Uint8Array, at: number): void {
    const isRefusal = kind === Kind.FAILURE && request === 0; // it dialed us and refuses our hello
    if (isRefusal) throw fromFailure(decodeFailure(bytes.subarray(at, at + payloadBytes)), this.name);
    this.#host.metrics.orphanAnswers++;
    // otherwise an answer that came before
    if (request >= this.#pending.next || request === 0) throw this.#illegal(`answered request ${request}`);
  }

  #settle(request: number): void {
    const wasFull = this.#pending.length >= this.#host.limits.pendingMax;
    this.#pending.settle(request);
    if (wasFull) this.#writer.flushSoon();
  }

  #takeNotice(missing: number): void {
    if (missing >= this.#pending.next || missing === 0) throw this.#illegal(`misses request ${missing}`);
    this.#pending.resendFrom(missing);
    if (this.#pending.isResending) this.#writer.flushSoon();
  }

  #illegal(what: string): WeighbridgeError {
    return new WeighbridgeError("BAD_FRAME", `${this.name} ${what}; requests 1 to ${this.#pending.next - 1} were made`);
  }

  #takeRequest(header: FrameHeader, bytes: Uint8Array, at: number): void {
    const { request, settled, functionId } = header;
    if (request - settled > REQUESTS_OPEN_MAX || request === 0) throw this.#tooOld(header);
    const admission = this.received.admit(request, settled);
    if (admission !== "fresh" && !this.#isServedAgain(request, admission)) return;
    const handler = this.#host.handlers[functionId];
    try {
      if (handler === undefined) throw new WeighbridgeError("UNKNOWN_FUNCTION", `there is no function ${functionId} on this node`);
      handler.handle(this, header, bytes, at, admission === "fresh");
    } catch (thrown) {
      this.fail(labelOf(header), thrown);
    }
  }

  #tooOld({ request, settled }: FrameHeader): WeighbridgeError {
    return new WeighbridgeError("BAD_FRAME", `${this.name} sent request ${request} with those before ${settled} settled`);
  }

  /** Of a request that is not fresh: whether its function answers it anew. */
  #isServedAgain(request: number, admission: Admission): boolean {
    const { metrics } = this.#host;
    if (admission === "gap") {
      metrics.gaps++;
      this.#noticeGap();
      return false;
    }
    metrics.duplicates++;
    if (admission === "remembered") for (const answer of this.received.remembered(request)) this.#writer.push(answer);
    return admission === "again";
  }

  /** Requests the first missing request again, once per gap; the resend timer covers a lost notice. */
  #noticeGap(): void {
    const missing = this.received.expected;
    if (this.#gapNoticed === missing) return;
    this.#gapNoticed = missing;
    this.#writer.push(new GapNotice(missing));
  }

  // Answers. Each request gets exactly one of these, or `park` now and one of them later.

  /** Reads and handles no more input of this link until the promise resolves; it must not reject. */
  holdInput(until: Promise<void>): void {
    this.#writer.holdInput(until);
  }

  /** Answers without a payload; `isLater`: nobody waits for it (FrameWriter.N8). */
  acknowledge(label: RequestLabel, isLater = false): void {
    this.#writer.acknowledge(label, isLater, this.received.parkedCount > 0);
  }

  /** Answers with a copy of these bytes, at most INLINE_BYTES_MAX. */
  answerCopy(label: RequestLabel, source: Uint8Array, from: number, byteCount: number): void {
    this.#writer.answerCopy(label, source, from, byteCount);
  }

  /** Answers with these bytes by reference; `held` is released when they have left or never will. */
  answerHeld(label: RequestLabel, payload: Uint8Array, held?: Held): void {
    this.answer(new Answer(keptLabel(label), held === undefined ? { payload } : { payload, held }));
  }

  /** Sends one frame of an answer that could be made again. */
  answer(answer: Answer): void {
    this.#writer.push(answer);
  }

  /** Sends an answer of one or several frames that is kept until the caller has it, because it cannot be made again. */
  answerRemembered(request: number, answers: readonly Answer[]): void {
    this.received.unpark(request);
    this.received.remember(request, answers);
    for (const answer of answers) this.#writer.push(answer);
  }

  fail(label: RequestLabel, thrown: unknown): void {
    this.#host.metrics.requestsFailed++;
    const failure = toFailure(thrown);
    const called = this.#host.handlers[label.functionId]?.nameOf?.(label) ?? label.functionId;
    if (!isWeighbridgeError(thrown) || thrown.isLogged !== true)
      this.#host.peerLog.logFailure(failure, { node: this.name, function: called, request: label.request }, handlerStack(thrown));
    const payload = encodeJson(failure);
    this.answerRemembered(label.request, [new Answer(keptLabel(label), { kind: Kind.FAILURE, payload })]);
  }

  /** The answer to this request comes later, through `answerRemembered` or `fail`. */
  park(request: number): void {
    this.received.park(request);
  }

  /** The answer comes now after all, through any of the ways to answer. */
  unpark(request: number): void {
    this.received.unpark(request);
  }

  get parkedCount(): number {
    return this.received.parkedCount;
  }
}

/** again: answer a duplicate anew. remembered: its answer is kept. ignore: its answer comes. gap: one is missing. */
export type Admission = "fresh" | "again" | "remembered" | "ignore" | "gap";

/** What a node remembers of another's requests, so that each is taken in order and once, whatever the links do. */
export class ReceivedRequests {
  #expected = 1;
  /** Requests whose answer is still to come. */
  readonly #parked = new Set<number>();
  /** Answers that are kept, by the numbers of their requests. Nobody else writes them. */
  readonly answers: Map<number, readonly Answer[]> = new Map();
  /** The other node has all answers to requests below this one. Nobody else writes it. */
  settled = 1;

  /** The number the next fresh request will have. */
  get expected(): number {
    return this.#expected;
  }

  get parkedCount(): number {
    return this.#parked.size;
  }

  get rememberedCount(): number {
    return this.answers.size;
  }

  admit(request: number, settled: number): Admission {
    if (settled > this.settled) this.#forget(Math.min(settled, request));
    if (request === this.#expected) {
      this.#expected++;
      return "fresh";
    }
    if (request > this.#expected) return "gap";
    if (this.#parked.size > 0 && this.#parked.has(request)) return "ignore";
    return this.answers.has(request) ? "remembered" : "again";
  }

  /** The answer to this request will come later. */
  park(request: number): void {
    this.#parked.add(request);
  }

  /** The answer is there now. Returns false if the request was answered before. */
  unpark(request: number): boolean {
    return this.#parked.delete(request);
  }

  /** Keeps an answer that could not be made again (ReceivedRequests.S3). */
  remember(request: number, answers: readonly Answer[]): void {
    if (request >= this.settled) this.answers.set(request, answers);
  }

  remembered(request: number): readonly Answer[] {
    return this.answers.get(request) ?? [];
  }

  /** Costs what is forgotten, or what is kept if that is less: a peer may claim any number. */
  #forget(settled: number): void {
    const first = this.settled;
    this.settled = settled;
    if (settled > this.#expected) this.#expected = settled; // ReceivedRequests.S4
    if (this.answers.size === 0) return;
    if (settled - first <= this.answers.size) for (let request = first; request < settled; request++) this.answers.delete(request);
    else for (const request of this.answers.keys()) if (request < settled) this.answers.delete(request);
  }
}
