// scheduler-client — the control messages between our server or worker and a scheduler that speaks ps-lite's protocol:
// it registers there, keeps the roster of the scheduler's lists, and enters its barriers. ps-lite's scheduler does not
// report dead nodes: this class detects them.
//
//   REGISTER ──► ADD_NODE ─ list ──► answer with the roster        BARRIER ──► BARRIER ─ BARRIER ──► answer
//   HEARTBEAT ──► HEARTBEAT ─ HEARTBEAT ──► answer                 LEAVE: answered here
//
// Invariants:
//   SchedulerClient.C1. A scheduler that was restarted cannot take the job over: nodes of ps-lite enter a barrier with
//       one message that they never repeat, and their servers enter the last one at the beginning, so it would wait for
//       them forever. A restarted scheduler of ours is sent nothing (PsliteGateway.V3).
//   SchedulerClient.C2. A node whose connections are all gone for `deathMs` is dead in our roster; one that connects
//       again is alive.
//   SchedulerClient.C3. A node that is listed again has a new incarnation, and a conversation of its own
//       (ListedNodes.L1).
//   SchedulerClient.C4. A worker of ours waits for servers of ps-lite if their own scheduler does not: SETTLE_MS when
//       one has a new incarnation. A request that arrives before they have set their handle ends them
//       (RestartedNodes.N4).
//   SchedulerClient.C5. A scheduler of ours that ends the job sends the reason and closes two connections, whose ends
//       arrive in any order: while its own is open, the end of the other counts after LAST_WORDS_MS.

import type { CancelTimer } from "../base/clock.ts";
import { type ErrorCode, isWeighbridgeError, unsupported, WeighbridgeError } from "../base/errors.ts";
import { ABORT, BARRIER, HEARTBEAT, LEAVE, REGISTER, ROSTER } from "../contracts/control.ts";
import { decodeFailure, type Failure } from "../wire/failure.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { BarrierEntries } from "./barrier-entries.ts";
import { decodeBodyExtension, encodeBodyExtension } from "./body-extension.ts";
import type { Control, Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { formatHostPort, type HostPort, hostPortOf } from "./host-port.ts";
import { type ListedNode, ListedNodes } from "./listed-nodes.ts";
import type { RemoteProcess } from "./remote-process.ts";
import { SETTLE_MS } from "./restarted-nodes.ts";
import { bodyOf, type OutgoingFrame } from "./translating-batch.ts";
import { EMPTY, PsCommand, type PsMeta, type PsNode, psRoleOf } from "./wire/ps-meta.ts";

/** ps-lite's jobs have no names. */
const JOB = "ps-lite";
const LAST_WORDS_MS = 200;
const ANEW = "stop the nodes of the job, and start it anew";

export class SchedulerClient implements Control {
  readonly #gateway: PsliteGateway;
  readonly #nodes: ListedNodes;
  readonly #deathTimers = new Map<number, CancelTimer>();
  #conversation: Conversation | undefined;
  /** What we registered with. */
  #own: PsNode | undefined;
  #registering: number | undefined;
  #heartbeat: number | undefined;
  readonly #barriers: BarrierEntries;
  #cancelBreak: CancelTimer = () => {};
  /** The scheduler is one of ours. */
  #isOurs = false;

  constructor(gateway: PsliteGateway) {
    this.#gateway = gateway;
    this.#nodes = new ListedNodes(gateway);
    this.#barriers = new BarrierEntries(gateway, this);
  }

  /** The scheduler's conversation; a new one if it has a new incarnation, which does not know earlier requests. */
  useConversation(conversation: Conversation): void {
    this.#conversation = conversation;
    this.#registering = undefined;
    this.#heartbeat = undefined;
    this.#barriers.forget();
  }

  /** Calls `send` now, or once other nodes accept requests (BarrierEntries.T6). */
  whenReady(send: () => void): void {
    this.#barriers.whenOthersStarted(send);
  }

  /** What to do about a lost scheduler, once it has assigned us a rank (SchedulerClient.C1). */
  get loss(): string | undefined {
    if (this.#gateway.selfId === 0) return undefined;
    if (!this.#isOurs) return `a scheduler of ps-lite cannot be started again under a running job: ${ANEW}`;
    return `under nodes of ps-lite or its protocol a scheduler cannot be started again: ${ANEW}`;
  }

  /** The conversation of the node at this address. */
  conversationAt(hostPort: HostPort): Conversation | undefined {
    return this.#nodes.conversationAt(hostPort);
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
        if ((this.#gateway.options.heartbeatIntervalMs ?? 0) === 0) {
          // ps-lite's scheduler expects no heartbeat, and has no field for what ours reports.
          this.conversation.answer(HEARTBEAT, request, {});
          break;
        }
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
        this.#gateway.log.debug("a control message was ignored", { from: "the scheduler", command: meta.command });
    }
  }

  #takeRelease({ barrierGroup, body }: PsMeta): void {
    const extension = decodeBodyExtension(body);
    if (extension?.failure === undefined) this.#barriers.release(barrierGroup, extension?.round);
    else this.#barriers.refuse(barrierGroup, errorOf(extension.failure));
  }

  // What happens to connections.

  present(process: RemoteProcess): void {
    for (const conversation of process.conversations.values()) {
      this.#cancelDeath(conversation.node);
      const listed = this.#nodes.get(conversation.node);
      if (listed?.state === "dead") {
        listed.state = "alive";
        this.#gateway.log.info("a node is alive again", { node: nameOf(listed.node) });
        this.#publishRoster();
      }
      if (listed !== undefined && this.#isAccepted(listed)) this.#gateway.accept(conversation);
    }
  }

  /** An outgoing connection that was up broke. */
  fell(process: RemoteProcess, cause: Error | undefined): void {
    for (const conversation of process.conversations.values()) {
      if (conversation === this.#conversation) this.#barriers.broke();
      if (conversation === this.#conversation && this.#maySpeak(process)) {
        // SchedulerClient.C5
        this.#cancelBreak = this.#gateway.clock.after(LAST_WORDS_MS, () => this.#breakLink(cause));
        continue;
      }
      // Dialing again would not help.
      if (conversation === this.#conversation && isWeighbridgeError(cause, "UNSUPPORTED")) this.#failRegister(cause);
      const listed = this.#nodes.get(conversation.node);
      if (listed !== undefined && this.#isAccepted(listed)) {
        // Our requests may be lost.
        if (this.#gateway.resender === undefined && !this.#gateway.isLeaving) conversation.connectionBroke(cause);
        continue; // it is dialed again, and answers wait
      }
      if (this.#gateway.resender !== undefined && !this.#gateway.isLeaving && conversation !== this.#conversation) {
        // Unacknowledged messages are resent; for the scheduler's our peer dials, and knows how long it has been away.
        process.keep();
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

  /** A connection of that node to us broke: its last messages may be lost. */
  incomingBroke(conversation: Conversation): void {
    if (conversation !== this.#conversation) return;
    this.#barriers.broke();
    if (conversation.outgoing === undefined) this.#breakLink(undefined);
  }

  /** SchedulerClient.C5 */
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
      const listed = this.#nodes.get(conversation.node);
      if (listed === undefined || listed.state === "dead" || this.#deathTimers.has(listed.node)) continue;
      const died = (): void => {
        this.#deathTimers.delete(listed.node);
        if (!process.isPresent && !this.#gateway.isLeaving) this.#died(listed);
      };
      this.#deathTimers.set(listed.node, this.#gateway.clock.after(this.#gateway.deathMs, died));
    }
  }

  /** The channel closed its link with this conversation. */
  closedByChannel(conversation: Conversation, isAbrupt: boolean): void {
    const listed = this.#nodes.get(conversation.node);
    if (listed !== undefined && this.#isAccepted(listed)) return;
    const hostPort = conversation.node === SCHEDULER_ID ? hostPortOf(this.#gateway.options.schedulerAddress) : listed?.hostPort;
    if (hostPort !== undefined) this.#gateway.processAt(hostPort).disconnect(isAbrupt);
  }

  close(): void {
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

  /** SchedulerClient.C2 */
  #died(listed: ListedNode): void {
    listed.state = "dead";
    this.#gateway.log.warn("a node is dead", { node: nameOf(listed.node), at: formatHostPort(listed.hostPort) });
    this.#publishRoster();
    if (this.#isAccepted(listed)) listed.conversation?.break(undefined);
    this.#barriers.fail(listed.role, new WeighbridgeError("NODE_DEAD", `${nameOf(listed.node)} is dead`, { retryable: true }));
  }

  // Registration.

  #register(frame: OutgoingFrame): void {
    const body = bodyOf(REGISTER, frame);
    if (body.failure !== undefined) {
      this.conversation.fail(frame.header.request, unsupported("ps-lite's scheduler cannot be notified that a node will not join"));
      return;
    }
    this.#registering = frame.header.request;
    const { rank, label, packageVersion, serverCount, workerCount, hasNoClock } = body;
    if (this.#gateway.selfId !== 0) {
      this.#answerRegister();
      return;
    }
    const { hostname, port } = hostPortOf(body.address);
    this.#own = { role: psRoleOf(body.role), id: EMPTY, hostname, port, isRecovery: false, customerId: 0 };
    this.send(PsCommand.ADD_NODE, {
      nodes: [this.#own],
      body: encodeBodyExtension({ rank, label, packageVersion, serverCount, workerCount, hasNoClock }),
    });
  }

  /** SchedulerClient.C4: our own scheduler sends a new incarnation when it accepts requests. */
  #takeNodes(meta: PsMeta): void {
    const isFirst = this.#gateway.selfId === 0;
    if (isFirst && !this.#findSelf(meta)) return;
    const nodes = [...meta.nodes];
    const isCalledAtOnce = isFirst || this.#isOurs || this.#gateway.options.role !== "worker";
    if (isCalledAtOnce) this.#takeList(nodes, isFirst);
    else this.#gateway.clock.after(SETTLE_MS, () => this.#takeList(nodes, false));
  }

  #takeList(nodes: readonly PsNode[], isFirst: boolean): void {
    const changed = this.#nodes.update(nodes, isFirst);
    for (const { node } of changed) this.#cancelDeath(node);
    if (isFirst) {
      this.#gateway.listed();
      // With our identity from now on.
      this.#gateway.processAt(hostPortOf(this.#gateway.options.schedulerAddress)).renewOutgoing();
    }
    if (this.#registering !== undefined) this.#answerRegister();
    else if (changed.length > 0) this.#publishRoster();
    this.#gateway.clock.afterInput(() => {
      for (const listed of changed) this.#meet(listed);
    });
  }

  /** Finds this node in the scheduler's list. */
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

  /** Nodes that would dial us get an outgoing connection and a link. */
  #meet(listed: ListedNode): void {
    if (listed.conversation === undefined || !this.#isAccepted(listed) || this.#nodes.get(listed.node) !== listed) return;
    this.#gateway.processAt(listed.hostPort).keep();
    this.#gateway.accept(listed.conversation);
  }

  /** Whether we open its link. */
  #isAccepted({ conversation }: ListedNode): boolean {
    return conversation !== undefined && this.#gateway.isDialedBy(conversation);
  }

  #failRegister(error: WeighbridgeError): void {
    if (this.#registering === undefined) return;
    this.conversation.fail(this.#registering, error);
    this.#registering = undefined;
  }

  #answerRegister(): void {
    const { selfId, options } = this.#gateway;
    const own = this.#nodes.get(selfId);
    if (this.#registering === undefined || own === undefined) return;
    this.conversation.answer(REGISTER, this.#registering, {
      job: JOB,
      node: selfId,
      incarnation: own.incarnation,
      recovery: own.isRecovery,
      heartbeatIntervalMs: options.heartbeatIntervalMs ?? 0,
      heartbeatTimeoutMs: options.heartbeatTimeoutMs ?? 0,
      roster: this.#nodes.roster(),
    });
    this.#registering = undefined;
  }

  #publishRoster(): void {
    this.#conversation?.serveControl(ROSTER, this.#nodes.roster());
  }

  /** Anybody may send one to a node of ps-lite, and end it; here it counts only from our own scheduler. */
  #takeTerminate({ body }: PsMeta): void {
    const isOurs = this.#isOurs || this.#gateway.selfId === 0; // before it has assigned a rank we cannot know
    if (!isOurs || body.length === 0) {
      this.#gateway.log.warn("a TERMINATE of the scheduler was ignored");
      return;
    }
    const failure = decodeFailure(body);
    const { code, message } = failure;
    if (failure.retryable) this.#failRegister(errorOf(failure));
    else this.#conversation?.serveControl(ABORT, { code, message });
  }

  send(command: number, fields: Partial<PsMeta>): void {
    this.conversation.sendMessage(this.#gateway.controlMeta(command, fields));
  }
}

/** Our peer adds the node that sent it. */
function errorOf({ code, message, retryable }: Failure): WeighbridgeError {
  return new WeighbridgeError(code as ErrorCode, message, { retryable });
}
