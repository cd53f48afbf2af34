// scheduler-control — the control messages between our server or worker and a scheduler that speaks ps-lite's protocol: it registers there,
// keeps the roster that the scheduler's lists tell, and stands at its barriers. Who is dead nobody tells: it is found out here.
//
//   REGISTER ──► ADD_NODE ─ list ──► answer with the roster        BARRIER ──► BARRIER ─ BARRIER ──► answer
//   HEARTBEAT ──► HEARTBEAT ─ HEARTBEAT ──► answer                 LEAVE: answered here
//
// Invariants:
//   C1. A scheduler of ours that was started again is told everything we know (`resume`), and takes us back if all nodes of the job are ours.
//       One of ps-lite cannot; nor can ours in a job with nodes of ps-lite: they stand at barriers with one message that they never repeat, their
//       servers at the last one from the beginning, so it would wait for them for ever. To such a scheduler nothing is said (van.ts, V5).
//   C2. A node whose connections are all gone for `deathMs` is dead in our roster; one that is heard of again is alive.
//   C3. Who is listed again is another one, and is met anew (member-list.ts, L1).
//   C4. A worker of ours gives servers of ps-lite time when their own scheduler does not: SETTLE_MS when one has a new life. A request that comes
//       before their handle is there ends them (newcomers.ts, N4).
//   C5. A scheduler of ours that ends the job says why and is gone, on two connections whose ends come in any order: while its own is open, the end
//       of the other counts after LAST_WORDS_MS.

import type { CancelTimer } from "../base/clock.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { barrierRequestShape } from "../wire/control.ts";
import { decodeFailure, type Failure } from "../wire/failure.ts";
import { FunctionId } from "../wire/function-id.ts";
import { nameOf, SCHEDULER_ID } from "../wire/node-id.ts";
import { registerRequestShape } from "../wire/register.ts";
import { BarrierEntries } from "./barrier-entries.ts";
import { type Control, type Envoy, unsupported } from "./envoy.ts";
import { type Member, MemberList } from "./member-list.ts";
import type { Neighbour } from "./neighbour.ts";
import { SETTLE_MS } from "./newcomers.ts";
import { decodeOwnNote, encodeOwnNote, type NodeLife } from "./own-note.ts";
import { formatPlace, type Place, placeOf } from "./place.ts";
import type { PsliteVan } from "./van.ts";
import { EMPTY, PsCommand, PsMeta, type PsNode, PsRole } from "./wire/ps-meta.ts";
import type { WrittenFrame } from "./written-frames.ts";

/** The name of a job whose scheduler tells none. */
const JOB = "ps-lite";
/** A scheduler that is told the job answers at once. */
const REPEAT_MS = 5000;
const LAST_WORDS_MS = 200;
const ANEW = "stop the nodes of the job, and start it anew";

export class SchedulerControl implements Control {
  readonly #van: PsliteVan;
  readonly #members: MemberList;
  readonly #deathTimers = new Map<number, CancelTimer>();
  #envoy: Envoy | undefined;
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

  constructor(van: PsliteVan) {
    this.#van = van;
    this.#members = new MemberList(van);
    this.#barriers = new BarrierEntries(van, this);
  }

  /** The scheduler's envoy; a new one when it has a new life, which knows nothing of what was asked of the one before. */
  standsAt(envoy: Envoy): void {
    this.#envoy = envoy;
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
    if (this.#van.selfId === 0) return undefined;
    if (!this.#isOurs) return `a scheduler of ps-lite cannot be started again under a running job: ${ANEW}`;
    if (!this.#van.isAllOurs) return `under nodes of ps-lite a scheduler cannot be started again: ${ANEW}`;
    return undefined;
  }

  /** The envoy of the node at this place. */
  envoyAt(place: Place): Envoy | undefined {
    return this.#members.envoyAt(place);
  }

  // Control

  request(frame: WrittenFrame): void {
    const { functionId, request } = frame.header;
    switch (functionId) {
      case FunctionId.REGISTER:
        this.#register(frame);
        break;
      case FunctionId.BARRIER:
        this.#barriers.enter(request, this.envoy.decode(barrierRequestShape, "BARRIER", frame.payload()));
        break;
      case FunctionId.HEARTBEAT:
        this.#heartbeat = request;
        this.send(PsCommand.HEARTBEAT, { nodes: this.#own === undefined ? [] : [{ ...this.#own, id: this.#van.selfId }] });
        break;
      case FunctionId.LEAVE:
        if (this.#isOurs) this.send(PsCommand.TERMINATE, {});
        this.envoy.answerJson(functionId, request, {});
        break;
      default:
        this.envoy.failRequest(frame.header, unsupported("ps-lite's scheduler has registrations, barriers and heartbeats only"));
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
        if (this.#heartbeat !== undefined) this.envoy.answerJson(FunctionId.HEARTBEAT, this.#heartbeat, {});
        this.#heartbeat = undefined;
        break;
      case PsCommand.TERMINATE:
        this.#takeTerminate(meta);
        break;
      default:
        this.#van.log.debug("a control message was left out", { from: "the scheduler", command: meta.command });
    }
  }

  #takeRelease({ barrierGroup, body }: PsMeta): void {
    const note = decodeOwnNote(body);
    if (note?.failure === undefined) this.#barriers.release(barrierGroup, note?.round);
    else this.#barriers.refuse(barrierGroup, errorOf(note.failure));
  }

  // What happens to connections.

  present(neighbour: Neighbour): void {
    for (const envoy of neighbour.envoys.values()) {
      this.#cancelDeath(envoy.node);
      const member = this.#members.get(envoy.node);
      if (member?.state === "dead") {
        member.state = "alive";
        this.#van.log.info("a node is there again", { node: nameOf(member.node) });
        this.#announce();
      }
      if (member !== undefined && this.#isAccepted(member)) this.#van.accept(envoy);
    }
  }

  /** A line that was up broke. */
  fell(neighbour: Neighbour, cause: Error | undefined): void {
    for (const envoy of neighbour.envoys.values()) {
      if (envoy === this.#envoy) this.#barriers.broke();
      if (envoy === this.#envoy && this.#maySpeak(neighbour)) {
        this.#cancelBreak = this.#van.clock.after(LAST_WORDS_MS, () => this.#breakLink(cause)); // C5
        continue;
      }
      if (envoy === this.#envoy && isWeighbridgeError(cause, "UNSUPPORTED")) this.#failRegister(cause); // dialing again would not help
      const member = this.#members.get(envoy.node);
      if (member !== undefined && this.#isAccepted(member)) {
        if (this.#van.resender === undefined && !this.#van.isLeaving) envoy.lineBroke(cause); // what we asked may be lost
        continue; // it is dialed again, and answers wait
      }
      if (this.#van.resender !== undefined && !this.#van.isLeaving && envoy !== this.#envoy) {
        neighbour.keep(); // what was not acknowledged is sent again; for the scheduler's our peer dials, and knows how long that has been away
        continue;
      }
      envoy.lineBroke(cause);
      envoy.break(cause);
    }
  }

  /** A connection of that node to us is open. */
  called(envoy: Envoy): void {
    if (envoy === this.#envoy) this.#barriers.back();
  }

  /** A connection of that node to us broke: what it said last may be lost. */
  fellSilent(envoy: Envoy): void {
    if (envoy !== this.#envoy) return;
    this.#barriers.broke();
    if (envoy.line === undefined) this.#breakLink(undefined);
  }

  /** C5 */
  #maySpeak({ inlets }: Neighbour): boolean {
    return inlets.size > 0 && (this.#isOurs || this.#van.selfId === 0) && !this.#van.isLeaving;
  }

  #breakLink(cause: Error | undefined): void {
    this.#cancelBreak();
    if (this.#envoy?.line !== undefined) return;
    this.#envoy?.lineBroke(cause);
    this.#envoy?.break(cause);
  }

  gone(neighbour: Neighbour): void {
    if (this.#van.isLeaving) return;
    for (const envoy of neighbour.envoys.values()) {
      const member = this.#members.get(envoy.node);
      if (member === undefined || member.state === "dead" || this.#deathTimers.has(member.node)) continue;
      const died = (): void => {
        this.#deathTimers.delete(member.node);
        if (!neighbour.isPresent && !this.#van.isLeaving) this.#died(member);
      };
      this.#deathTimers.set(member.node, this.#van.clock.after(this.#van.deathMs, died));
    }
  }

  unlinked(envoy: Envoy, isAbrupt: boolean): void {
    const member = this.#members.get(envoy.node);
    if (member !== undefined && this.#isAccepted(member)) return;
    const place = envoy.node === SCHEDULER_ID ? placeOf(this.#van.options.schedulerAddress) : member?.place;
    if (place !== undefined) this.#van.neighbourAt(place).dropLine(isAbrupt);
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

  get envoy(): Envoy {
    const envoy = this.#envoy;
    if (envoy === undefined) throw new WeighbridgeError("CLOSED", "the scheduler was never dialed");
    return envoy;
  }

  #cancelDeath(node: number): void {
    this.#deathTimers.get(node)?.();
    this.#deathTimers.delete(node);
  }

  /** C2 */
  #died(member: Member): void {
    member.state = "dead";
    this.#van.log.warn("a node is dead", { node: nameOf(member.node), at: formatPlace(member.place) });
    this.#announce();
    if (this.#isAccepted(member)) member.envoy?.break(undefined);
    this.#barriers.fail(member.role, new WeighbridgeError("NODE_DEAD", `${nameOf(member.node)} is dead`, { retryable: true }));
  }

  // Registration.

  #register(frame: WrittenFrame): void {
    const body = this.envoy.decode(registerRequestShape, "REGISTER", frame.payload());
    if (body.failure !== undefined) {
      this.envoy.failRequest(frame.header, unsupported("ps-lite's scheduler cannot be told that a node does not come"));
      return;
    }
    this.#registering = frame.header.request;
    const { rank, label, packageVersion, serverCount, workerCount, resume } = body;
    if (this.#van.selfId !== 0 && resume === undefined) {
      this.#answerRegister();
      return;
    }
    const { hostname, port } = placeOf(body.address);
    const role = body.role === "server" ? PsRole.SERVER : PsRole.WORKER;
    this.#own = { role, id: EMPTY, hostname, port, isRecovery: false, customerId: 0 };
    const note = encodeOwnNote({ rank, label, packageVersion, serverCount, workerCount, resume });
    this.send(PsCommand.ADD_NODE, { nodes: [this.#own], body: note });
    if (resume !== undefined) this.#repeat({ nodes: [this.#own], body: note });
  }

  /** C1. A list is lost with its connection, and no start's time ends this wait: it is asked for until it comes. */
  #repeat(registration: Pick<PsMeta, "nodes" | "body">): void {
    this.#cancelRepeat();
    this.#cancelRepeat = this.#van.clock.after(REPEAT_MS, () => {
      if (this.#registering === undefined) return;
      this.send(PsCommand.ADD_NODE, registration);
      this.#repeat(registration);
    });
  }

  /** C4: of our own scheduler we hear of a new life when it can be asked. */
  #takeNodes(meta: PsMeta): void {
    const isFirst = this.#van.selfId === 0;
    if (isFirst && !this.#findSelf(meta)) return;
    const note = decodeOwnNote(meta.body);
    this.#van.isAllOurs = note?.isAllOurs === true;
    this.#job = note?.job ?? this.#job;
    const nodes = [...meta.nodes];
    const isCalledAtOnce = isFirst || this.#isOurs || this.#van.options.role !== "worker";
    if (isCalledAtOnce) this.#takeList(nodes, isFirst, note?.lives);
    else this.#van.clock.after(SETTLE_MS, () => this.#takeList(nodes, false, undefined));
  }

  #takeList(nodes: readonly PsNode[], isFirst: boolean, lives: readonly NodeLife[] | undefined): void {
    const changed = this.#members.take(nodes, isFirst, lives);
    for (const { node } of changed) this.#cancelDeath(node);
    if (isFirst) this.#van.neighbourAt(placeOf(this.#van.options.schedulerAddress)).renewLine(); // with our name from now on
    if (this.#registering !== undefined) this.#answerRegister();
    else if (changed.length > 0) this.#announce();
    this.#van.clock.afterInput(() => {
      for (const member of changed) this.#meet(member);
    });
  }

  /** Finds ourselves in the scheduler's list. */
  #findSelf({ nodes, body }: PsMeta): boolean {
    const own = this.#own;
    const self = nodes.find(({ hostname, port, role }) => hostname === own?.hostname && port === own.port && role === own.role);
    if (self === undefined || self.id === EMPTY) {
      this.#van.log.warn("a list of nodes does not name this one", { host: own?.hostname, port: own?.port, nodes: nodes.length });
      return false;
    }
    this.#van.selfId = self.id;
    this.#isOurs = decodeOwnNote(body) !== undefined;
    this.#barriers.listed(self);
    return true;
  }

  /** Nodes that would dial us have a line and a link from now on. */
  #meet(member: Member): void {
    if (member.envoy === undefined || !this.#isAccepted(member) || this.#members.get(member.node) !== member) return;
    this.#van.neighbourAt(member.place).keep();
    this.#van.accept(member.envoy);
  }

  #isAccepted({ role, envoy }: Member): boolean {
    return envoy !== undefined && role === "worker" && this.#van.options.role === "server";
  }

  #failRegister(error: WeighbridgeError): void {
    if (this.#registering === undefined) return;
    this.envoy.failRequest({ functionId: FunctionId.REGISTER, request: this.#registering }, error);
    this.#registering = undefined;
  }

  #answerRegister(): void {
    const { selfId, options } = this.#van;
    const own = this.#members.get(selfId);
    if (this.#registering === undefined || own === undefined) return;
    this.envoy.answerJson(FunctionId.REGISTER, this.#registering, {
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
    this.#envoy?.askJson(FunctionId.ROSTER, this.#members.roster(), () => {});
  }

  /** Anybody may send one to a node of ps-lite, and end it; here it counts only as our own scheduler's word. */
  #takeTerminate({ body }: PsMeta): void {
    const isOurs = this.#isOurs || this.#van.selfId === 0; // before it gave us a place we cannot know
    if (!isOurs || body.length === 0) {
      this.#van.log.warn("a TERMINATE of the scheduler was left out");
      return;
    }
    const failure = decodeFailure(body);
    const { code, message } = failure;
    if (failure.retryable) this.#failRegister(errorOf(failure));
    else this.#envoy?.askJson(FunctionId.ABORT, { code, message }, () => {});
  }

  send(command: number, fields: Partial<PsMeta>): void {
    const meta = Object.assign(new PsMeta(), { command, timestamp: this.#van.nextTimestamp(), ...fields });
    if (command === PsCommand.TERMINATE) {
      meta.customerId = 0;
      meta.timestamp = EMPTY;
    }
    this.envoy.send(meta);
  }
}

/** Our peer will say from whom it has it. */
function errorOf({ code, message, retryable }: Failure): WeighbridgeError {
  return new WeighbridgeError(code as ErrorCode, message, { retryable });
}
