// barrier-entries — our node's entries into the barriers of a scheduler that speaks ps-lite's protocol: one message
// each, answered when the scheduler releases the barrier. scheduler-client.ts knows the scheduler and the roster.
//
// Invariants:
//   BarrierEntries.T1. A barrier of ps-lite's scheduler is entered with one message, however often our node requests
//       it: it counts messages. Our scheduler counts members, and gets the round that we wait at: we send the entry
//       again after every broken connection, so that no answer is lost with one.
//   BarrierEntries.T2. A worker of ours waits for servers of ps-lite if their own scheduler does not: SERVERS_FIRST_MS
//       after the barrier of the start. A request that arrives before they have set their handle ends them
//       (BarrierReleases.X1).
//   BarrierEntries.T3. With PS_RESEND no barrier of ps-lite's scheduler is entered before SETTLE_MS after its list:
//       until then it counts but does not acknowledge, so it would count a resent entry again, and release the barrier
//       one member too early.
//   BarrierEntries.T4. A scheduler in a new incarnation knows of no entry: all of them are forgotten, and our node
//       enters again.
//   BarrierEntries.T5. An entry may be lost with a connection to ps-lite's scheduler, or with the scheduler itself,
//       without any notice: a wait that lasts longer than the start timeout afterwards fails. The entry still counts
//       (BarrierEntries.T1): a caller that enters again waits again.
//   BarrierEntries.T6. A server of ours is released from the barrier of the start before nodes of ps-lite are, and
//       before workers of our scheduler (BarrierReleases.X1). Its requests to others leave when those are released too,
//       and have had time to create their applications.

import type { CancelTimer } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { BARRIER } from "../contracts/control.ts";
import type { BarrierRequest } from "../wire/control.ts";
import { inGroup, type Role } from "../wire/node-id.ts";
import { RequestHold, SERVERS_FIRST_MS } from "./barrier-releases.ts";
import { encodeBodyExtension } from "./body-extension.ts";
import type { Conversation } from "./conversation.ts";
import type { PsliteGateway } from "./gateway.ts";
import { SETTLE_MS } from "./restarted-nodes.ts";
import { PsCommand, type PsMeta } from "./wire/ps-meta.ts";

/** The scheduler, as entries see it. */
export type BarrierScheduler = {
  /** Throws CLOSED before it was dialed. */
  readonly conversation: Conversation;
  readonly isOurs: boolean;
  send(command: number, fields: Partial<PsMeta>): void;
};

/** An entry without an answer. */
type Entry = Pick<BarrierRequest, "group" | "customer" | "round"> & {
  /** It stays when a member dies: its node waits for that member to come back. */
  outlivesDeaths: boolean;
  request: number | undefined;
  passedRound: number | undefined;
  /** It may be lost (BarrierEntries.T5). */
  isDoubtful: boolean;
  cancelTimer: CancelTimer;
};

const START_TIMEOUT_MS = 60_000;

export class BarrierEntries {
  readonly #gateway: PsliteGateway;
  readonly #scheduler: BarrierScheduler;
  #entries: Entry[] = [];
  /** The last round that was passed of each group's barrier, as our scheduler counts. */
  readonly #rounds = new Map<number, number>();
  /** We joined when rounds that we do not know of may have been over. */
  #isLate = false;
  /** We have passed the barrier of the start, or joined when it was over. */
  #hasPassed = false;
  #listedAtMs = 0;
  readonly #hold = new RequestHold();

  constructor(gateway: PsliteGateway, scheduler: BarrierScheduler) {
    this.#gateway = gateway;
    this.#scheduler = scheduler;
  }

  /** The scheduler has listed us, for the first time. */
  listed({ isRecovery }: { readonly isRecovery: boolean }): void {
    this.#hasPassed = isRecovery;
    this.#isLate = isRecovery;
    this.#listedAtMs = this.#gateway.clock.nowMs();
  }

  enter(request: number, { group, customer, round, outlivesDeaths = false }: BarrierRequest): void {
    if (this.#sizeOf(group) <= 1) {
      this.#scheduler.conversation.answer(BARRIER, request, { round: Math.max(1, round) });
      return;
    }
    const entry = this.#entries.find((other) => other.group === group && other.customer === customer);
    if (entry === undefined) {
      const barrier = { group, customer, round, outlivesDeaths };
      const fresh: Entry = { ...barrier, request, passedRound: undefined, isDoubtful: false, cancelTimer: () => {} };
      this.#entries.push(fresh);
      this.#sendInTime(fresh);
      return;
    }
    entry.request = request;
    entry.outlivesDeaths = outlivesDeaths;
    if (entry.passedRound !== undefined) this.#pass(entry);
    else if (this.#scheduler.isOurs) this.#send(entry);
    else if (entry.isDoubtful) this.#watch(entry);
  }

  /**
   * ps-lite's release does not say which barrier it is about: it is the oldest. Our scheduler's release names the
   * round.
   */
  release(group: number, round: number | undefined): void {
    // Released twice: we entered again meanwhile.
    if (round !== undefined && round <= (this.#rounds.get(group) ?? 0)) return;
    const open = this.#entries.filter(({ passedRound }) => passedRound === undefined);
    const meant = open.filter((entry) => entry.group === group);
    for (const entry of meant.length > 0 ? meant : open.slice(0, 1)) {
      const isStart = !this.#hasPassed && !this.#scheduler.isOurs && this.#gateway.options.role === "worker";
      if (!this.#hasPassed) this.#holdRequests();
      this.#hasPassed = true;
      const passedRound = round ?? Math.max(1, entry.round);
      if (round !== undefined) this.#rounds.set(entry.group, round);
      if (isStart)
        this.#gateway.clock.after(SERVERS_FIRST_MS, () => this.#over(entry, passedRound)); // BarrierEntries.T2
      else this.#over(entry, passedRound);
    }
  }

  /** Calls `send` now, or once other nodes accept requests (BarrierEntries.T6). */
  whenOthersStarted(send: () => void): void {
    this.#hold.whenOpen(send);
  }

  #holdRequests(): void {
    const { clock, options } = this.#gateway;
    if (options.role !== "server") return;
    clock.after(this.#scheduler.isOurs ? 2 * SERVERS_FIRST_MS : SERVERS_FIRST_MS, this.#hold.hold());
  }

  /** Our scheduler reports that this barrier failed: the entries into it no longer count. */
  refuse(group: number, error: WeighbridgeError): void {
    const refused = this.#entries.filter((entry) => entry.group === group && entry.passedRound === undefined);
    this.#entries = this.#entries.filter((entry) => !refused.includes(entry));
    for (const { request } of refused) if (request !== undefined) this.#scheduler.conversation.fail(request, error);
  }

  /**
   * A member of that role is dead: fails the calls that do not wait for its return; the entries still count
   * (BarrierEntries.T1).
   */
  fail(role: Role, error: WeighbridgeError): void {
    for (const entry of this.#entries) {
      if (entry.request === undefined || entry.outlivesDeaths || !inGroup(role, entry.group)) continue;
      this.#scheduler.conversation.fail(entry.request, error);
      entry.request = undefined;
    }
  }

  /** A connection with the scheduler is up, after one whose end may have lost an answer. */
  back(): void {
    if (this.#scheduler.isOurs) for (const entry of this.#entries) if (entry.passedRound === undefined) this.#send(entry);
  }

  /** A connection with the scheduler broke. */
  broke(): void {
    if (this.#scheduler.isOurs) return;
    for (const entry of this.#entries) {
      entry.isDoubtful = true;
      this.#watch(entry);
    }
  }

  /** BarrierEntries.T4; also when this node ends. */
  forget(): void {
    for (const { cancelTimer } of this.#entries) cancelTimer();
    this.#entries = [];
  }

  #sendInTime(entry: Entry): void {
    const { clock, resender } = this.#gateway;
    const waitMs = this.#scheduler.isOurs || resender === undefined ? 0 : this.#listedAtMs + SETTLE_MS - clock.nowMs();
    if (waitMs > 0)
      clock.after(waitMs, () => this.#send(entry)); // BarrierEntries.T3
    else this.#send(entry);
  }

  #send(entry: Entry): void {
    if (!this.#entries.includes(entry)) return;
    const { group, customer, outlivesDeaths } = entry;
    const last = this.#rounds.get(group);
    const round = last === undefined && this.#isLate ? 0 : (last ?? 0) + 1;
    const extension = this.#scheduler.isOurs ? { body: encodeBodyExtension({ round, ...(outlivesDeaths ? { outlivesDeaths } : {}) }) } : {};
    this.#scheduler.send(PsCommand.BARRIER, { request: true, appId: 0, customerId: customer, barrierGroup: group, ...extension });
  }

  /** BarrierEntries.T5 */
  #watch(entry: Entry): void {
    const { clock, options } = this.#gateway;
    const { startTimeoutMs = START_TIMEOUT_MS, schedulerAddress } = options;
    entry.cancelTimer();
    entry.cancelTimer = clock.after(startTimeoutMs, () => {
      const { request } = entry;
      if (request === undefined || entry.passedRound !== undefined) return;
      const broke = `the connection with the scheduler at ${schedulerAddress} broke while this node waited at the barrier of group ${entry.group}`;
      const message = `${broke}, and ${startTimeoutMs} ms later it is not over: a scheduler of ps-lite that was started again knows nothing of it`;
      entry.request = undefined;
      const error = new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { retryable: true });
      this.#scheduler.conversation.fail(request, error);
    });
  }

  #over(entry: Entry, round: number): void {
    if (entry.passedRound !== undefined) return;
    entry.passedRound = round;
    entry.cancelTimer();
    if (entry.request !== undefined) this.#pass(entry);
  }

  #pass(entry: Entry): void {
    this.#entries = this.#entries.filter((other) => other !== entry);
    if (entry.request !== undefined)
      this.#scheduler.conversation.answer(BARRIER, entry.request, { round: entry.passedRound ?? Math.max(1, entry.round) });
  }

  #sizeOf(group: number): number {
    const { serverCount, workerCount } = this.#gateway.options;
    return (
      (inGroup("scheduler", group) ? 1 : 0) + (inGroup("server", group) ? serverCount : 0) + (inGroup("worker", group) ? workerCount : 0)
    );
  }
}
