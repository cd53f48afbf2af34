// member-control — the control messages between our scheduler and one node that speaks ps-lite's protocol: barriers, heartbeats, and news
// of other nodes. Registration is registrar.ts.
//
// Invariants:
//   M1. A process is told once that a barrier is over, whichever of its customers stood there: all of them hear it.
//   M2. A node of ps-lite cannot be told that a barrier failed: it stands there until nobody is dead any more. One of ours is told.

import { abortRequestShape, type BarrierRequest, barrierReplyShape } from "../wire/control.ts";
import { decodeFailure } from "../wire/failure.ts";
import { FunctionId } from "../wire/function-id.ts";
import { GROUP_MAX, inGroup } from "../wire/node-id.ts";
import { type RosterEntry, type RosterView, rosterShape } from "../wire/roster.ts";
import { type Control, type Envoy, unsupported } from "./envoy.ts";
import { decodeOwnNote, encodeOwnNote } from "./own-note.ts";
import type { Registrar } from "./registrar.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";
import type { WrittenFrame } from "./written-frames.ts";

/** How often a node that stands at a barrier with a dead member asks again. */
const REENTER_MS = 200;

export class MemberControl implements Control {
  /** The node sends heartbeats of its own. */
  beats = false;
  readonly #registrar: Registrar;
  readonly #envoy: Envoy;
  /** The last round that was passed, by group. */
  readonly #rounds = new Map<number, number>();
  /** The lives that the node was told of. */
  readonly #known = new Map<number, number>();

  constructor(registrar: Registrar, envoy: Envoy) {
    this.#registrar = registrar;
    this.#envoy = envoy;
  }

  request(frame: WrittenFrame): void {
    const { functionId, request } = frame.header;
    if (functionId === FunctionId.ROSTER) this.#takeRoster(frame.payload());
    else if (functionId === FunctionId.ABORT) this.#takeAbort(frame.payload());
    else {
      this.#envoy.failRequest(frame.header, unsupported(`function ${functionId} cannot be asked of a node of ps-lite`));
      return;
    }
    this.#envoy.answerJson(functionId, request, {});
  }

  message(meta: PsMeta): void {
    const { log } = this.#registrar.van;
    const registration = this.#registrar.registrationOf(this.#envoy);
    if (registration === undefined) return;
    const customer = registration.neighbour.envoys.get(meta.customerId) ?? this.#envoy;
    switch (meta.command) {
      case PsCommand.BARRIER:
        if (meta.request && customer.control instanceof MemberControl)
          customer.control.enter(meta.barrierGroup, decodeOwnNote(meta.body)?.round);
        break;
      case PsCommand.HEARTBEAT:
        this.beats = true;
        for (const envoy of registration.neighbour.envoys.values()) envoy.askJson(FunctionId.HEARTBEAT, {}, () => {});
        this.#registrar.send(registration, PsCommand.HEARTBEAT, { nodes: [this.#registrar.self()] });
        break;
      case PsCommand.TERMINATE:
        if (registration.note !== undefined) this.#registrar.leave(this.#envoy);
        else log.warn("a TERMINATE was left out: only a node's own may end it", { node: this.#envoy.name });
        break;
      default:
        log.debug("a control message was left out", { node: this.#envoy.name, command: meta.command });
    }
  }

  /** The process is told these lives with its list, and has passed these rounds under an earlier scheduler. */
  knows({ nodes }: RosterView, passed: readonly BarrierRequest[] = []): void {
    for (const entry of nodes) this.#noteLife(entry);
    for (const { group, round } of passed) this.#rounds.set(group, round);
  }

  /** The node stands at a barrier; one of ours says at which round of it. */
  enter(group: number, told: number | undefined): void {
    const registration = this.#registrar.registrationOf(this.#envoy);
    if (registration === undefined) return;
    if (group < 1 || group > GROUP_MAX || !inGroup(registration.role, group)) {
      this.#registrar.van.log.warn("a barrier was left out: the node is no member of that group", { node: this.#envoy.name, group });
      return;
    }
    const round = told ?? (this.#isLate(group) ? 0 : (this.#rounds.get(group) ?? 0) + 1);
    this.#envoy.askJson(FunctionId.BARRIER, { group, customer: 0, round }, (payload, isFailure) => {
      if (isFailure) this.#failed(group, told, payload);
      else {
        const passed = this.#envoy.decode(barrierReplyShape, "the answer to BARRIER", payload).round;
        const isTold = told === undefined && this.#rounds.get(group) === passed; // it entered twice, and both entries are answered
        this.#rounds.set(group, passed);
        if (isTold) return;
        if (registration.neighbour.primary !== this.#envoy) return; // M1
        this.#registrar.release({ registration, group, round: passed });
      }
    });
  }

  /** A node in a later life cannot know which rounds are over. */
  #isLate(group: number): boolean {
    return this.#envoy.incarnation > 1 && !this.#rounds.has(group);
  }

  /** M2 */
  #failed(group: number, told: number | undefined, payload: Uint8Array): void {
    const { van } = this.#registrar;
    const failure = decodeFailure(payload);
    const { code, message } = failure;
    if (code === "ABORTED") return; // it entered again meanwhile, and that is answered
    const registration = this.#registrar.registrationOf(this.#envoy);
    if (registration?.note !== undefined)
      this.#registrar.send(registration, PsCommand.BARRIER, {
        appId: 0,
        customerId: 0,
        barrierGroup: group,
        body: encodeOwnNote({ failure }),
      });
    else if (code === "NODE_DEAD") van.clock.after(REENTER_MS, () => (this.#envoy.isLinked ? this.enter(group, told) : undefined));
    else
      van.log.error("a node of ps-lite stands at a barrier that nobody will open", {
        node: this.#envoy.name,
        group,
        code,
        reason: message,
      });
  }

  /** A node with a new life is told to the process, once it has its list: until then that will say so. */
  #takeRoster(payload: Uint8Array): void {
    const roster = this.#envoy.decode(rosterShape, "ROSTER", payload);
    const registration = this.#registrar.registrationOf(this.#envoy);
    const hasList = registration !== undefined && !this.#registrar.renewList(registration, roster);
    const isTold = hasList && this.#envoy.node > 0 && registration.neighbour.primary === this.#envoy;
    for (const entry of roster.nodes)
      if (this.#noteLife(entry) && isTold && entry.node !== this.#envoy.node) this.#registrar.tellOfNewLife(registration, entry);
  }

  /** Returns whether this life was not known until now. */
  #noteLife({ node, incarnation }: RosterEntry): boolean {
    const known = this.#known.get(node) ?? 1;
    this.#known.set(node, Math.max(known, incarnation));
    return incarnation > known;
  }

  #takeAbort(payload: Uint8Array): void {
    const failure = this.#envoy.decode(abortRequestShape, "ABORT", payload);
    const registration = this.#registrar.registrationOf(this.#envoy);
    if (registration === undefined) return;
    if (registration.note === undefined)
      this.#registrar.van.log.error("the job is over, but a node of ps-lite cannot be told: stop it", { node: this.#envoy.name });
    else this.#registrar.tellAbort(registration, failure);
  }
}
