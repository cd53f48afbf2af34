// registered-node — the control messages between our scheduler and one node that speaks ps-lite's protocol: barriers,
// heartbeats, and new incarnations of other nodes. registration-service.ts handles registration.
//
// Invariants:
//   RegisteredNode.M1. A process is released once from a barrier, whichever of its customers entered it.
//   RegisteredNode.M2. A node of ps-lite has no message for a barrier that failed: it waits until no node is dead any
//       more. Nodes of ours get the failure.

import { unsupported } from "../base/errors.ts";
import { ABORT, BARRIER, HEARTBEAT, ROSTER } from "../contracts/control.ts";
import type { AbortRequest, BarrierReply } from "../wire/control.ts";
import type { Failure } from "../wire/failure.ts";
import { GROUP_MAX, inGroup } from "../wire/node-id.ts";
import type { RosterEntry, RosterView } from "../wire/roster.ts";
import { type BodyExtension, decodeBodyExtension, encodeBodyExtension } from "./body-extension.ts";
import type { Control, Conversation } from "./conversation.ts";
import type { RegistrationService } from "./registration-service.ts";
import { bodyOf, type OutgoingFrame } from "./translating-batch.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";

/** When a node that was declared dead at a barrier enters again. */
const REENTER_MS = 200;

export class RegisteredNode implements Control {
  /** The node sends heartbeats of its own. */
  beats = false;
  readonly #registrations: RegistrationService;
  readonly #conversation: Conversation;
  /** The last round that was passed, by group. */
  readonly #rounds = new Map<number, number>();
  /** The incarnations that the node knows. */
  readonly #known = new Map<number, number>();

  constructor(registrations: RegistrationService, conversation: Conversation) {
    this.#registrations = registrations;
    this.#conversation = conversation;
  }

  request(frame: OutgoingFrame): void {
    const { functionId, request } = frame.header;
    if (functionId === ROSTER.id) this.#onRoster(bodyOf(ROSTER, frame));
    else if (functionId === ABORT.id) this.#onAbort(bodyOf(ABORT, frame));
    else {
      this.#conversation.fail(frame.header.request, unsupported(`function ${functionId} is not available at a node of ps-lite`));
      return;
    }
    this.#conversation.answer(functionId === ROSTER.id ? ROSTER : ABORT, request, {});
  }

  message(meta: PsMeta): void {
    const { log } = this.#registrations.gateway;
    const registration = this.#registrations.registrationOf(this.#conversation);
    if (registration === undefined) return;
    const customer = registration.process.conversations.get(meta.customerId) ?? this.#conversation;
    switch (meta.command) {
      case PsCommand.BARRIER:
        if (meta.request && customer.control instanceof RegisteredNode)
          customer.control.enter(meta.barrierGroup, decodeBodyExtension(meta.body));
        break;
      case PsCommand.HEARTBEAT:
        this.beats = true;
        for (const conversation of registration.process.conversations.values()) conversation.serveControl(HEARTBEAT, {});
        this.#registrations.send(registration, PsCommand.HEARTBEAT, { nodes: [this.#registrations.self()] });
        break;
      case PsCommand.TERMINATE:
        if (registration.extension !== undefined) this.#registrations.leave(this.#conversation);
        else log.warn("a TERMINATE was ignored: only a node itself may end it", { node: this.#conversation.name });
        break;
      default:
        log.debug("a control message was ignored", { node: this.#conversation.name, command: meta.command });
    }
  }

  /** The list of the process has these incarnations. */
  knows({ nodes }: RosterView): void {
    for (const entry of nodes) this.#noteIncarnation(entry);
  }

  /**
   * The node waits at a barrier; one of ours sends the round, and whether it waits for dead nodes. One of ps-lite
   * always does (RegisteredNode.M2).
   */
  enter(group: number, extension: BodyExtension | undefined): void {
    const requested = extension?.round;
    const outlivesDeaths = extension === undefined || extension.outlivesDeaths === true;
    const registration = this.#registrations.registrationOf(this.#conversation);
    if (registration === undefined) return;
    if (group < 1 || group > GROUP_MAX || !inGroup(registration.role, group)) {
      this.#registrations.gateway.log.warn("a barrier entry was ignored: the node is not a member of that group", {
        node: this.#conversation.name,
        group,
      });
      return;
    }
    const round = requested ?? (this.#isLate(group) ? 0 : (this.#rounds.get(group) ?? 0) + 1);
    const passed = (reply: BarrierReply): void => {
      // It entered twice, and both entries are answered.
      const isReleased = requested === undefined && this.#rounds.get(group) === reply.round;
      this.#rounds.set(group, reply.round);
      if (isReleased || registration.process.primary !== this.#conversation) return; // RegisteredNode.M1
      this.#registrations.release({ registration, group, round: reply.round });
    };
    const failed = (failure: Failure): void => this.#failed(group, extension, failure);
    this.#conversation.serveControl(BARRIER, { group, customer: 0, round, outlivesDeaths }, passed, failed);
  }

  /** A node in a later incarnation cannot know which rounds are over. */
  #isLate(group: number): boolean {
    return this.#conversation.incarnation > 1 && !this.#rounds.has(group);
  }

  /** RegisteredNode.M2 */
  #failed(group: number, extension: BodyExtension | undefined, failure: Failure): void {
    const { gateway } = this.#registrations;
    const { code, message } = failure;
    if (code === "ABORTED") return; // it entered again meanwhile, and that is answered
    const registration = this.#registrations.registrationOf(this.#conversation);
    if (registration?.extension !== undefined)
      this.#registrations.send(registration, PsCommand.BARRIER, {
        appId: 0,
        customerId: 0,
        barrierGroup: group,
        body: encodeBodyExtension({ failure }),
      });
    else if (code === "NODE_DEAD")
      gateway.clock.after(REENTER_MS, () => (this.#conversation.isLinked ? this.enter(group, extension) : undefined));
    else
      gateway.log.error("a node of ps-lite waits at a barrier that will not be passed", {
        node: this.#conversation.name,
        group,
        code,
        reason: message,
      });
  }

  /** Sends a new incarnation to the process, once it has its list: a later list includes it. */
  #onRoster(roster: RosterView): void {
    const registration = this.#registrations.registrationOf(this.#conversation);
    const hasList = registration !== undefined && !this.#registrations.renewList(registration, roster);
    const isTold = hasList && this.#conversation.node > 0 && registration.process.primary === this.#conversation;
    for (const entry of roster.nodes)
      if (this.#noteIncarnation(entry) && isTold && entry.node !== this.#conversation.node)
        this.#registrations.sendReplacement(registration, entry);
  }

  /** Returns whether this incarnation was not known until now. */
  #noteIncarnation({ node, incarnation }: RosterEntry): boolean {
    const known = this.#known.get(node) ?? 1;
    this.#known.set(node, Math.max(known, incarnation));
    return incarnation > known;
  }

  #onAbort(failure: AbortRequest): void {
    const registration = this.#registrations.registrationOf(this.#conversation);
    if (registration === undefined) return;
    if (registration.extension === undefined)
      this.#registrations.gateway.log.error("the job is over, but a node of ps-lite cannot be notified: stop it", {
        node: this.#conversation.name,
      });
    else this.#registrations.sendAbort(registration, failure);
  }
}
