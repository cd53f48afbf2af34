// scheduler-calls — a node's calls to its scheduler, over restarts of the scheduler, and what the scheduler sends by
// itself (rosters, the end of the job). A restarted scheduler does not know us: we register again, and calls wait for
// it.
//
//   known ── the scheduler has a new incarnation ──► resuming ── it has resumed us ──► known, and what waited is sent
//
// Invariants:
//   SchedulerCalls.C1. Only REGISTER is sent to a scheduler that does not know us: other calls wait for its answer.
//   SchedulerCalls.C2. No heartbeat watches a link on which we resume, so the answer has a deadline of its own; after
//       it we dial again.

import { assert } from "../base/assert.ts";
import type { CancelTimer, Clock } from "../base/clock.ts";
import { Deferred } from "../base/deferred.ts";
import { badRequest, type ErrorCode, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { JsonContract } from "../contracts/contract.ts";
import { ABORT, REGISTER, ROSTER, STATUS } from "../contracts/control.ts";
import type { Call } from "../peer/call.ts";
import { callJson, serveJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { Peer } from "../peer/peer.ts";
import { SCHEDULER_ID } from "../wire/node-id.ts";
import type { RegisterReply } from "../wire/register.ts";
import { missingAtEnd, missingText, type RosterView } from "../wire/roster.ts";

export type SchedulerCallsOptions = {
  readonly clock: Clock;
  readonly log: Log;
  /** Registers with a scheduler that was restarted. */
  readonly registerAgain: (channel: Channel) => Promise<RegisterReply>;
  readonly resumed: (reply: RegisterReply) => void;
  /** The scheduler will never resume us. */
  readonly refused: (error: WeighbridgeError) => void;
};

export class SchedulerCalls {
  readonly #options: SchedulerCallsOptions;
  /** While a new scheduler does not know us yet. */
  #resuming: Deferred<void> | undefined;
  #isRegistering = false;
  #cancelTimer: CancelTimer = () => {};
  #heldCalls: Call[] = [];
  /** While callers wait for a scheduler that is away. */
  #back: Deferred<void> | undefined;
  /** Why calls fail from now on. */
  #over: WeighbridgeError | undefined;

  constructor(options: SchedulerCallsOptions) {
    this.#options = options;
  }

  /** Whether a restarted scheduler has not resumed this node yet. */
  get isResuming(): boolean {
    return this.#resuming !== undefined;
  }

  /** Whether callers wait for a scheduler that is away. */
  get isWaitedFor(): boolean {
    return this.#back !== undefined || this.#heldCalls.length > 0;
  }

  async call<Q, R>(channel: Channel | undefined, fn: JsonContract<Q, R>, body: Q): Promise<R> {
    while (this.#resuming !== undefined) await this.#resuming.promise; // SchedulerCalls.C1
    assert(channel !== undefined, "join comes first");
    return await callJson(channel, fn, body, this.#options.clock);
  }

  /** Resolves when the scheduler can be called; rejects when what waits for it fails. */
  async back(channel: Channel | undefined): Promise<void> {
    while (channel?.link === undefined || this.isResuming) {
      if (this.#over !== undefined) throw this.#over;
      this.#back ??= new Deferred();
      await this.#back.promise;
    }
  }

  /**
   * The scheduler has a new incarnation, or does not know us again; `again` was open before. Returns whether this node
   * resumes.
   */
  restarted(channel: Channel, again: readonly Call[], { isRegistered }: { readonly isRegistered: boolean }): boolean {
    if (!isRegistered) {
      for (const call of again) channel.send(call); // none waits for a registration
      return false;
    }
    // An open registration, of a node that resumes, is simply made again.
    const registrations = again.filter((call) => call.functionId === REGISTER.id);
    this.#heldCalls.push(...again.filter((call) => call.functionId !== REGISTER.id));
    for (const call of registrations) channel.send(call);
    if (registrations.length > 0) return false;
    this.#resuming ??= new Deferred();
    this.#resume(channel);
    return true;
  }

  /**
   * A link to the scheduler is open; one that has to resume us answers within `timeoutMs` (SchedulerCalls.C2), if not
   * 0.
   */
  linkUp(channel: Channel, timeoutMs: number): void {
    if (this.#resuming === undefined) {
      this.#isBack();
      return;
    }
    if (!this.#isRegistering) this.#resume(channel);
    const { link } = channel;
    if (timeoutMs === 0 || link === undefined) return;
    this.#cancelTimer();
    this.#cancelTimer = this.#options.clock.after(timeoutMs, () => {
      if (!this.#isRegistering || channel.link !== link) return;
      this.#options.log.warn("the scheduler's link is silent, dialing again", { silentMs: timeoutMs });
      link.destroy();
    });
  }

  /** Fails what waits for the scheduler; `isOver`: later calls fail too. */
  fail(error: WeighbridgeError, { isOver }: { readonly isOver: boolean }): void {
    for (const call of this.#heldCalls.splice(0)) call.failed(error);
    if (isOver) this.#over ??= error;
    this.#back?.reject(error);
    this.#back = undefined;
    if (this.#resuming === undefined) return;
    this.#resuming.reject(error);
    if (!isOver) this.#resuming = new Deferred();
  }

  close(error: WeighbridgeError): void {
    this.#cancelTimer();
    this.fail(error, { isOver: true });
  }

  #resume(channel: Channel): void {
    const { log, registerAgain, refused } = this.#options;
    this.#isRegistering = true;
    registerAgain(channel).then(
      (reply) => this.#resumed(channel, reply),
      (error: unknown) => {
        this.#isRegistering = false;
        if (isWeighbridgeError(error) && !error.retryable) refused(error);
        else log.warn("the scheduler did not take this node back; waiting for another one", { reason: reasonOf(error) });
      },
    );
  }

  #resumed(channel: Channel, reply: RegisterReply): void {
    this.#isRegistering = false;
    this.#resuming?.resolve();
    this.#resuming = undefined;
    this.#options.resumed(reply);
    for (const call of this.#heldCalls.splice(0)) channel.send(call);
    this.#isBack();
  }

  #isBack(): void {
    this.#back?.resolve();
    this.#back = undefined;
  }
}

/** How much later a DEADLINE may come to name the missing nodes: a round trip if the scheduler answers. */
const STATUS_DEADLINE_MS = 500;

/** As `server 1, worker 0`; "" when the scheduler does not answer, or none is missing. Never throws. */
export async function missingNodes(
  scheduler: Channel | undefined,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  at: "start" | "end" = "start",
): Promise<string> {
  if (scheduler?.link === undefined || scheduler.ended !== undefined) return "";
  try {
    const { phase, waiting, nodes, leaving, ...counts } = await callJson(scheduler, STATUS, {}, clock, { timeoutMs: STATUS_DEADLINE_MS });
    if (at === "end") return leaving === undefined ? "" : missingAtEnd(nodes, leaving);
    return phase === "forming" ? missingText(counts, waiting) : "";
  } catch (thrown) {
    log.debug("the scheduler does not tell who is missing", { reason: reasonOf(thrown) });
    return "";
  }
}

/** The same DEADLINE, with the names of the missing nodes. */
export function incompleteError(error: WeighbridgeError, missing: string): WeighbridgeError {
  if (missing === "" || error.message.includes("missing: ")) return error;
  return new WeighbridgeError(error.code, `${error.message}; missing: ${missing}`, { retryable: error.retryable, cause: error });
}

export type NewsListener = { roster(roster: RosterView): void; aborted(error: WeighbridgeError): void };

export function serveSchedulerNews(peer: Peer, listener: NewsListener): void {
  peer.serve(
    serveJson(ROSTER, (channel, roster) => {
      checkSender(channel, "ROSTER");
      listener.roster(roster);
      return {};
    }),
  );
  peer.serve(
    serveJson(ABORT, (channel, { code, message }) => {
      checkSender(channel, "ABORT");
      listener.aborted(new WeighbridgeError(code as ErrorCode, message));
      return {};
    }),
  );
}

/** Throws BAD_REQUEST (ClusterNode.N1). */
export function checkSender(channel: Channel, what: string): void {
  if (channel.id !== SCHEDULER_ID) throw badRequest(`${what} comes from the scheduler, not from ${channel.name}`);
}
