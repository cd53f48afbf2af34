// scheduler-control — the control messages between our server or worker and a scheduler that speaks ps-lite's protocol: it registers there,
// keeps the roster that the scheduler's lists tell, and stands at its barriers. Who is dead nobody tells: it is found out here.
//
//   REGISTER ──► ADD_NODE ─ list ──► answer with the roster        BARRIER ──► BARRIER ─ BARRIER ──► answer
//   HEARTBEAT ──► HEARTBEAT ─ HEARTBEAT ──► answer                 LEAVE: answered here
//
// Invariants:
//   C1. A scheduler of ours that was started again is told everything we know (`resume`), and takes us back if all nodes of the job are ours.
//       One of ps-lite cannot; nor can ours in a job with nodes of ps-lite: they stand at barriers with one message that they never repeat, their
//       servers at the last one from the beginning, so it would wait for them for ever. To such a scheduler nothing is said (gateway.ts, V5).
//   C2. A node whose connections are all gone for `deathMs` is dead in our roster; one that is heard of again is alive.
//   C3. Who is listed again is another one, and is met anew (member-list.ts, L1).
//   C4. A worker of ours gives servers of ps-lite time when their own scheduler does not: SETTLE_MS when one has a new life. A request that comes
//       before their handle is there ends them (replacements.ts, N4).
//   C5. A scheduler of ours that ends the job says why and is gone, on two connections whose ends come in any order: while its own is open, the end
//       of the other counts after LAST_WORDS_MS.

import type { CancelTimer } from "../base/clock.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { ABORT, BARRIER, HEARTBEAT, LEAVE, REGISTER, ROSTER } from "../contracts/control.ts";
import { decodeFailure, type Failure } from "../wire/failure.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { BarrierEntries } from "./barrier-entries.ts";
import { decodeBodyExtension, encodeBodyExtension, type NodeLife } from "./body-extension.ts";
import { type Control, type Conversation, unsupported } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort, placeOf } from "./host-port.ts";
import { type Member, MemberList } from "./member-list.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { SETTLE_MS } from "./replacements.ts";
import { bodyOf, type OutgoingFrame } from "./translating-batch.ts";
import { EMPTY, PsCommand, PsMeta, type PsNode, PsRole } from "./wire/ps-meta.ts";

/** The name of a job whose scheduler tells none. */
const JOB = "ps-lite";
/** A scheduler that is told the job answers at once. */
const REPEAT_MS = 5000;
const LAST_WORDS_MS = 200;
const ANEW = "stop the nodes of the job, and start it anew";

export class SchedulerClient implements Control {
  readonly #gateway: PsliteGateway;
  readonly #members: MemberList;
  readonly #deathTimers = new Map<number, CancelTimer>();
  #conversation: Conversation | undefined;
  /** What we told the scheduler of ourselves. */
  #own: PsNode | undefined;
  #registering: number | undefined;
  #cancelRepeat: CancelTimer = () => {};
  #heartbeat: number | undefined;
  readonly #barriers: BarrierEntries;
  #job = JOB;
  #cancelBreak: CancelTimer = () => {};
  /** The scheduler is one of ours. */
  #isOurs = false;

  constructor(gateway: PsliteGateway) {
    this.#gateway = gateway;
    this.#members = new MemberList(gateway);
    this.#barriers = new BarrierEntries(gateway, this);
  }

  /** The scheduler's conversation; a new one when it has a new life, which knows nothing of what was asked of the one before. */
  standsAt(conversation: Conversation): void {
    this.#conversation = conversation;
    this.#registering = undefined;
    this.#cancelRepeat();
    this.#heartbeat = undefined;
    this.#barriers.forget();
  }

  /** Calls `send` now, or once other nodes take requests (barrier-entries.ts, T6). */
  whenReady(send: () => void): void {
    this.#barriers.whenOthersStarted(send);
  }

  /** What to do about a scheduler that is gone, once it gave us a place that no other can take over (C1). */
  get loss(): string | undefined {
    if (this.#gateway.selfId === 0) return undefined;
    if (!this.#isOurs) return `a scheduler of ps-lite cannot be started again under a running job: ${ANEW}`;
    if (!this.#gateway.isAllOurs) return `under nodes of ps-lite a scheduler cannot be started again: ${ANEW}`;
    return undefined;
  }

  /** The conversation of the node at this place. */
  conversationAt(place: HostPort): Conversation | undefined {
    return this.#members.conversationAt(place);
  }

  // Control

  request(frame: OutgoingFrame): void {
    const { functionId, request } = frame.header;
    switch (functionId) {
      case REGISTER.id:
        this.#register(frame);
        break;
      case BARRIER.id:
        this.#barriers.enter(request, bodyOf(BARRIER, frame));
        break;
      case HEARTBEAT.id:
        this.#heartbeat = request;
        this.send(PsCommand.HEARTBEAT, { nodes: this.#own === undefined ? [] : [{ ...this.#own, id: this.#gateway.selfId }] });
        break;
      case LEAVE.id:
        if (this.#isOurs) this.send(PsCommand.TERMINATE, {});
        this.conversation.answer(LEAVE, request, {});
        break;
      default:
        this.conversation.fail(frame.header.request, unsupported("ps-lite's scheduler has registrations, barriers and heartbeats only"));
    }
  }

  message(meta: PsMeta): void {
    switch (meta.command) {
      case PsCommand.ADD_NODE:
        this.#takeNodes(meta);
        break;
      case PsCommand.BARRIER:
        if (!meta.request) this.#takeRelease(meta);
        break;
      case PsCommand.HEARTBEAT:
        if (this.#heartbeat !== undefined) this.conversation.answer(HEARTBEAT, this.#heartbeat, {});
        this.#heartbeat = undefined;
        break;
      case PsCommand.TERMINATE:
        this.#takeTerminate(meta);
        break;
      default:
        this.#gateway.log.debug("a control message was left out", { from: "the scheduler", command: meta.command });
    }
  }

  #takeRelease({ barrierGroup, body }: PsMeta): void {
    const note = decodeBodyExtension(body);
    if (note?.failure === undefined) this.#barriers.release(barrierGroup, note?.round);
    else this.#barriers.refuse(barrierGroup, errorOf(note.failure));
  }

  // What happens to connections.

  present(process: RemoteProcess): void {
    for (const conversation of process.conversations.values()) {
      this.#cancelDeath(conversation.node);
      const member = this.#members.get(conversation.node);
      if (member?.state === "dead") {
        member.state = "alive";
        this.#gateway.log.info("a node is there again", { node: nameOf(member.node) });
        this.#announce();
      }
      if (member !== undefined && this.#isAccepted(member)) this.#gateway.accept(conversation);
    }
  }

  /** A line that was up broke. */
  fell(process: RemoteProcess, cause: Error | undefined): void {
    for (const conversation of process.conversations.values()) {
      if (conversation === this.#conversation) this.#barriers.broke();
      if (conversation === this.#conversation && this.#maySpeak(process)) {
        this.#cancelBreak = this.#gateway.clock.after(LAST_WORDS_MS, () => this.#breakLink(cause)); // C5
        continue;
      }
      if (conversation === this.#conversation && isWeighbridgeError(cause, "UNSUPPORTED")) this.#failRegister(cause); // dialing again would not help
      const member = this.#members.get(conversation.node);
      if (member !== undefined && this.#isAccepted(member)) {
        if (this.#gateway.resender === undefined && !this.#gateway.isLeaving) conversation.connectionBroke(cause); // what we asked may be lost
        continue; // it is dialed again, and answers wait
      }
      if (this.#gateway.resender !== undefined && !this.#gateway.isLeaving && conversation !== this.#conversation) {
        process.keep(); // what was not acknowledged is sent again; for the scheduler's our peer dials, and knows how long that has been away
        continue;
      }
      conversation.connectionBroke(cause);
      conversation.break(cause);
    }
  }

  /** A connection of that node to us is open. */
  called(conversation: Conversation): void {
    if (conversation === this.#conversation) this.#barriers.back();
  }

  /** A connection of that node to us broke: what it said last may be lost. */
  fellSilent(conversation: Conversation): void {
    if (conversation !== this.#conversation) return;
    this.#barriers.broke();
    if (conversation.outgoing === undefined) this.#breakLink(undefined);
  }

  /** C5 */
  #maySpeak({ incoming }: RemoteProcess): boolean {
    return incoming.size > 0 && (this.#isOurs || this.#gateway.selfId === 0) && !this.#gateway.isLeaving;
  }

  #breakLink(cause: Error | undefined): void {
    this.#cancelBreak();
    if (this.#conversation?.outgoing !== undefined) return;
    this.#conversation?.connectionBroke(cause);
    this.#conversation?.break(cause);
  }

  gone(process: RemoteProcess): void {
    if (this.#gateway.isLeaving) return;
    for (const conversation of process.conversations.values()) {
      const member = this.#members.get(conversation.node);
      if (member === undefined || member.state === "dead" || this.#deathTimers.has(member.node)) continue;
      const died = (): void => {
        this.#deathTimers.delete(member.node);
        if (!process.isPresent && !this.#gateway.isLeaving) this.#died(member);
      };
      this.#deathTimers.set(member.node, this.#gateway.clock.after(this.#gateway.deathMs, died));
    }
  }

  unlinked(conversation: Conversation, isAbrupt: boolean): void {
    const member = this.#members.get(conversation.node);
    if (member !== undefined && this.#isAccepted(member)) return;
    const place = conversation.node === SCHEDULER_ID ? placeOf(this.#gateway.options.schedulerAddress) : member?.place;
    if (place !== undefined) this.#gateway.processAt(place).disconnect(isAbrupt);
  }

  close(): void {
    this.#cancelRepeat();
    this.#cancelBreak();
    this.#barriers.forget();
    for (const node of [...this.#deathTimers.keys()]) this.#cancelDeath(node);
  }

  // BarrierScheduler

  get isOurs(): boolean {
    return this.#isOurs;
  }

  get conversation(): Conversation {
    const conversation = this.#conversation;
    if (conversation === undefined) throw new WeighbridgeError("CLOSED", "the scheduler was never dialed");
    return conversation;
  }

  #cancelDeath(node: number): void {
    this.#deathTimers.get(node)?.();
    this.#deathTimers.delete(node);
  }

  /** C2 */
  #died(member: Member): void {
    member.state = "dead";
    this.#gateway.log.warn("a node is dead", { node: nameOf(member.node), at: formatHostPort(member.place) });
    this.#announce();
    if (this.#isAccepted(member)) member.conversation?.break(undefined);
    this.#barriers.fail(member.role, new WeighbridgeError("NODE_DEAD", `${nameOf(member.node)} is dead`, { retryable: true }));
  }

  // Registration.

  #register(frame: OutgoingFrame): void {
    const body = bodyOf(REGISTER, frame);
    if (body.failure !== undefined) {
      this.conversation.fail(frame.header.request, unsupported("ps-lite's scheduler cannot be told that a node does not come"));
      return;
    }
    this.#registering = frame.header.request;
    const { rank, label, packageVersion, serverCount, workerCount, resume } = body;
    if (this.#gateway.selfId !== 0 && resume === undefined) {
      this.#answerRegister();
      return;
    }
    const { hostname, port } = placeOf(body.address);
    const role = body.role === "server" ? PsRole.SERVER : PsRole.WORKER;
    this.#own = { role, id: EMPTY, hostname, port, isRecovery: false, customerId: 0 };
    const note = encodeBodyExtension({ rank, label, packageVersion, serverCount, workerCount, resume });
    this.send(PsCommand.ADD_NODE, { nodes: [this.#own], body: note });
    if (resume !== undefined) this.#repeat({ nodes: [this.#own], body: note });
  }

  /** C1. A list is lost with its connection, and no start's time ends this wait: it is asked for until it comes. */
  #repeat(registration: Pick<PsMeta, "nodes" | "body">): void {
    this.#cancelRepeat();
    this.#cancelRepeat = this.#gateway.clock.after(REPEAT_MS, () => {
      if (this.#registering === undefined) return;
      this.send(PsCommand.ADD_NODE, registration);
      this.#repeat(registration);
    });
  }

  /** C4: of our own scheduler we hear of a new life when it can be asked. */
  #takeNodes(meta: PsMeta): void {
    const isFirst = this.#gateway.selfId === 0;
    if (isFirst && !this.#findSelf(meta)) return;
    const note = decodeBodyExtension(meta.body);
    this.#gateway.isAllOurs = note?.isAllOurs === true;
    this.#job = note?.job ?? this.#job;
    const nodes = [...meta.nodes];
    const isCalledAtOnce = isFirst || this.#isOurs || this.#gateway.options.role !== "worker";
    if (isCalledAtOnce) this.#takeList(nodes, isFirst, note?.lives);
    else this.#gateway.clock.after(SETTLE_MS, () => this.#takeList(nodes, false, undefined));
  }

  #takeList(nodes: readonly PsNode[], isFirst: boolean, lives: readonly NodeLife[] | undefined): void {
    const changed = this.#members.take(nodes, isFirst, lives);
    for (const { node } of changed) this.#cancelDeath(node);
    if (isFirst) this.#gateway.processAt(placeOf(this.#gateway.options.schedulerAddress)).renewOutgoing(); // with our name from now on
    if (this.#registering !== undefined) this.#answerRegister();
    else if (changed.length > 0) this.#announce();
    this.#gateway.clock.afterInput(() => {
      for (const member of changed) this.#meet(member);
    });
  }

  /** Finds ourselves in the scheduler's list. */
  #findSelf({ nodes, body }: PsMeta): boolean {
    const own = this.#own;
    const self = nodes.find(({ hostname, port, role }) => hostname === own?.hostname && port === own.port && role === own.role);
    if (self === undefined || self.id === EMPTY) {
      this.#gateway.log.warn("a list of nodes does not name this one", { host: own?.hostname, port: own?.port, nodes: nodes.length });
      return false;
    }
    this.#gateway.selfId = self.id;
    this.#isOurs = decodeBodyExtension(body) !== undefined;
    this.#barriers.listed(self);
    return true;
  }

  /** Nodes that would dial us have a line and a link from now on. */
  #meet(member: Member): void {
    if (member.conversation === undefined || !this.#isAccepted(member) || this.#members.get(member.node) !== member) return;
    this.#gateway.processAt(member.place).keep();
    this.#gateway.accept(member.conversation);
  }

  #isAccepted({ role, conversation }: Member): boolean {
    return conversation !== undefined && role === "worker" && this.#gateway.options.role === "server";
  }

  #failRegister(error: WeighbridgeError): void {
    if (this.#registering === undefined) return;
    this.conversation.fail(this.#registering, error);
    this.#registering = undefined;
  }

  #answerRegister(): void {
    const { selfId, options } = this.#gateway;
    const own = this.#members.get(selfId);
    if (this.#registering === undefined || own === undefined) return;
    this.conversation.answer(REGISTER, this.#registering, {
      job: this.#job,
      node: selfId,
      incarnation: own.incarnation,
      recovery: own.isRecovery,
      heartbeatIntervalMs: options.heartbeatIntervalMs ?? 0,
      heartbeatTimeoutMs: options.heartbeatTimeoutMs ?? 0,
      roster: this.#members.roster(),
    });
    this.#registering = undefined;
  }

  #announce(): void {
    this.#conversation?.serveControl(ROSTER, this.#members.roster());
  }

  /** Anybody may send one to a node of ps-lite, and end it; here it counts only as our own scheduler's word. */
  #takeTerminate({ body }: PsMeta): void {
    const isOurs = this.#isOurs || this.#gateway.selfId === 0; // before it gave us a place we cannot know
    if (!isOurs || body.length === 0) {
      this.#gateway.log.warn("a TERMINATE of the scheduler was left out");
      return;
    }
    const failure = decodeFailure(body);
    const { code, message } = failure;
    if (failure.retryable) this.#failRegister(errorOf(failure));
    else this.#conversation?.serveControl(ABORT, { code, message });
  }

  send(command: number, fields: Partial<PsMeta>): void {
    const meta = Object.assign(new PsMeta(), { command, timestamp: this.#gateway.nextTimestamp(), ...fields });
    if (command === PsCommand.TERMINATE) {
      meta.customerId = 0;
      meta.timestamp = EMPTY;
    }
    this.conversation.sendMessage(meta);
  }
}

/** Our peer will say from whom it has it. */
function errorOf({ code, message, retryable }: Failure): WeighbridgeError {
  return new WeighbridgeError(code as ErrorCode, message, { retryable });
}
