// admissions — answers the nodes that registered, as the roster decides: each gets its rank, or the error why not. Also
// says whose hello is taken. Decides nothing about ranks.
//
// Invariants:
//   Admissions.N1. A node that knows a scheduler of a higher term would refuse this one: before its hello is taken,
//       this one takes a higher term, if it may (Scheduler.D4), and writes that down (Scheduler.D5).

import { WeighbridgeError } from "../base/errors.ts";
import type { LogFields } from "../base/log.ts";
import type { Channel } from "../peer/channel.ts";
import { checkMember } from "../peer/hello-rules.ts";
import type { AcceptedNode } from "../peer/peer-options.ts";
import { isGuest, nameOf, roleOf } from "../wire/node-id.ts";
import type { RegisterRequest } from "../wire/register.ts";
import { workersMaxOf } from "./applicant.ts";
import { type PendingRegistration, PendingRegistrations } from "./pending-registrations.ts";
import type { Roster } from "./roster.ts";
import type { Decision } from "./roster-decision.ts";
import type { SchedulerOptions } from "./scheduler-options.ts";
import type { SchedulerServices } from "./scheduler-services.ts";
import type { StateJournal } from "./state-journal.ts";

/** More than any clock says: what a stranger claims must leave room for schedulers to come. */
const INCARNATION_KNOWN_MAX = 2 ** 52;

export type AdmissionsOptions = Pick<
  SchedulerOptions,
  | ("peer" | "log" | "serverCount" | "workerCount" | "workerCountMax" | "mayScale")
  | ("heartbeatIntervalMs" | "heartbeatTimeoutMs" | "loopTimeoutMs" | "pulse" | "serves")
> & {
  readonly roster: Roster<PendingRegistration>;
  readonly journal: StateJournal;
  readonly services: SchedulerServices;
};

export class Admissions {
  readonly #options: AdmissionsOptions;
  readonly #registrations = new PendingRegistrations();

  constructor(options: AdmissionsOptions) {
    this.#options = options;
  }

  /** Throws as PendingRegistrations.open. */
  open(channel: Channel, request: RegisterRequest): PendingRegistration {
    return this.#registrations.open(channel, request, this.#options.peer.joinRefusal(channel));
  }

  /** The application that this link had open, no longer so. */
  take(channel: Channel): PendingRegistration | undefined {
    return this.#registrations.take(channel);
  }

  admit({ caller, node, incarnation, ...admission }: Decision<PendingRegistration> & { kind: "admit" }): void {
    const { peer, log, roster, services, heartbeatIntervalMs, heartbeatTimeoutMs, serverCount, workerCount, serves } = this.#options;
    const { loopTimeoutMs = 0, pulse } = this.#options;
    // a worker that was added (Roster.R9) before the others have passed the barrier of the start waits there with them
    const recovery = admission.recovery && (incarnation > 1 || isGuest(node) || services.hasStarted);
    this.#registrations.close(caller);
    if (!isGuest(node)) services.recall(node, incarnation, caller);
    peer.identify(caller.channel, node, incarnation);
    if (isGuest(node)) log.debug("a guest has come", { node: nameOf(node) });
    else this.#logAdmission(caller, { node: nameOf(node), incarnation, recovery });
    const { job } = roster;
    const rules = {
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      counts: { serverCount, workerCount },
      ...(serves === true ? { serves } : {}),
      pulse: { ...pulse, loopTimeoutMs },
    };
    caller.reply.resolve({ job, node, incarnation, recovery, ...rules, roster: roster.view(roleOf(node)) });
  }

  /** The scheduler says why in its log. */
  refuse(caller: PendingRegistration, error: WeighbridgeError): void {
    this.#registrations.close(caller);
    const { code, message, retryable, detail } = error;
    caller.reply.reject(new WeighbridgeError(code, message, { retryable, detail, cause: error, isLogged: true }));
  }

  #logAdmission({ packageVersion }: PendingRegistration, fields: LogFields): void {
    const { log, peer } = this.#options;
    const own = peer.packageVersion;
    log.info("a node has its rank", { ...fields, packageVersion });
    if (own === "" || packageVersion === undefined || packageVersion === own) return;
    log.warn("a node runs another version of the package than the scheduler", { node: fields.node, packageVersion, scheduler: own });
  }

  /** Throws as `checkMember` and Guests.check, and NO_ROUTE when the node is to dial again (Admissions.N1). */
  checkHello(hello: AcceptedNode): void {
    const { roster, journal } = this.#options;
    const workerCount = workersMaxOf(this.#options);
    // one that a scheduler before this one has let in may be known to nobody else
    const serverCount = journal.state.incarnations.has(hello.node) ? Infinity : this.#options.serverCount;
    const { guests, phase, hasHeardEverybody } = roster;
    // one that is not known yet may be told of by a server
    if (isGuest(hello.node)) {
      if (phase !== "forming" && (guests.has(hello.node) || hasHeardEverybody)) guests.check(hello);
    } else if (hello.node !== 0) checkMember(hello, { roster: roster.view(), serverCount, workerCount, isCertain: !roster.isResumed });
    this.#outnumber(hello);
  }

  /** A node knows a scheduler of a higher incarnation, and would refuse ours: this machine's clock is behind. */
  #outnumber({ node, knows = 0 }: AcceptedNode): void {
    const { peer, roster, journal, log } = this.#options;
    const mayLearn = roster.phase === "forming" || (roster.isResumed && node !== 0);
    if (!mayLearn || knows <= peer.incarnation || knows > INCARNATION_KNOWN_MAX) return;
    log.warn("this machine's clock is behind that of the scheduler before: going on with a higher incarnation", {
      incarnation: knows + 1,
      started: peer.incarnation,
    });
    journal.write({ kind: "term", term: knows + 1 });
    journal.told(() => {
      peer.incarnation = journal.state.term;
    });
    // Scheduler.D5: the node dials again
    if (peer.incarnation <= knows) throw new WeighbridgeError("NO_ROUTE", "this scheduler takes a higher term first", { retryable: true });
  }
}
