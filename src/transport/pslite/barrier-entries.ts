// barrier-entries — our node's entries into the barriers of a scheduler that speaks ps-lite's protocol: one message each, answered when the
// scheduler says that the barrier is over. Who is there, and whose scheduler it is, is scheduler-control.ts's.
//
// Invariants:
//   T1. A barrier is entered with one message, however often our node asks: ps-lite's scheduler counts messages.
//   T2. A worker of ours gives servers of ps-lite time when their own scheduler does not: SERVERS_FIRST_MS after the barrier of the start. A
//       request that comes before their handle is there ends them (registrar.ts, G4).
//   T3. With PS_RESEND no barrier of ps-lite's scheduler is entered before SETTLE_MS after its list: until then it counts but does not acknowledge,
//       so it would count the entry again when that is sent again, and end the job one member too early.
//   T4. A scheduler in a new life knows of no entry: all of them are forgotten, and our node asks again.

import type { WeighbridgeError } from "../../base/errors.ts";
import type { BarrierRequest } from "../../wire/control.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { inGroup, type Role } from "../../wire/node-id.ts";
import { PsCommand, type PsMeta } from "../../wire/pslite/ps-meta.ts";
import type { Envoy } from "./envoy.ts";
import { SETTLE_MS } from "./newcomers.ts";
import { SERVERS_FIRST_MS } from "./registrar.ts";
import type { PsliteVan } from "./van.ts";

/** The scheduler, as entries see it. */
export type BarrierScheduler = {
  /** Throws CLOSED before it was dialed. */
  readonly envoy: Envoy;
  readonly isOurs: boolean;
  send(command: number, fields: Partial<PsMeta>): void;
};

/** An entry that has not been answered. */
type Entry = BarrierRequest & { request: number | undefined; passedRound: number | undefined };

export class BarrierEntries {
  readonly #van: PsliteVan;
  readonly #scheduler: BarrierScheduler;
  #entries: Entry[] = [];
  /** We are past the barrier of the start, or came when it was over. */
  #hasPassed = false;
  #listedAtMs = 0;

  constructor(van: PsliteVan, scheduler: BarrierScheduler) {
    this.#van = van;
    this.#scheduler = scheduler;
  }

  /** The scheduler has listed us, for the first time. */
  listed({ isRecovery }: { readonly isRecovery: boolean }): void {
    this.#hasPassed = isRecovery;
    this.#listedAtMs = this.#van.clock.nowMs();
  }

  enter(request: number, { group, customer, round }: BarrierRequest): void {
    if (this.#sizeOf(group) <= 1) {
      this.#scheduler.envoy.answerJson(FunctionId.BARRIER, request, { round: Math.max(1, round) });
      return;
    }
    const entry = this.#entries.find((other) => other.group === group && other.customer === customer);
    if (entry === undefined) {
      const fresh: Entry = { group, customer, round, request, passedRound: undefined };
      this.#entries.push(fresh);
      this.#sendInTime(fresh);
      return;
    }
    entry.request = request;
    if (entry.passedRound !== undefined) this.#pass(entry);
  }

  /** The scheduler's word does not say which barrier it is about; ours does, with the round, and otherwise it is the oldest. */
  release(group: number, round: number | undefined): void {
    const open = this.#entries.filter(({ passedRound }) => passedRound === undefined);
    const meant = open.filter((entry) => entry.group === group);
    for (const entry of meant.length > 0 ? meant : open.slice(0, 1)) {
      const isStart = !this.#hasPassed && !this.#scheduler.isOurs && this.#van.options.role === "worker";
      this.#hasPassed = true;
      const passedRound = round ?? Math.max(1, entry.round);
      if (isStart)
        this.#van.clock.after(SERVERS_FIRST_MS, () => this.#over(entry, passedRound)); // T2
      else this.#over(entry, passedRound);
    }
  }

  /** A member of that role is dead: whoever waits is told; the entries stand (T1). */
  fail(role: Role, error: WeighbridgeError): void {
    for (const entry of this.#entries) {
      if (entry.request === undefined || !inGroup(role, entry.group)) continue;
      this.#scheduler.envoy.failRequest({ functionId: FunctionId.BARRIER, request: entry.request }, error);
      entry.request = undefined;
    }
  }

  /** T4 */
  forget(): void {
    this.#entries = [];
  }

  #sendInTime(entry: Entry): void {
    const { clock, resender } = this.#van;
    const { group, customer } = entry;
    const send = (): void => {
      if (this.#entries.includes(entry))
        this.#scheduler.send(PsCommand.BARRIER, { request: true, appId: 0, customerId: customer, barrierGroup: group });
    };
    const waitMs = this.#scheduler.isOurs || resender === undefined ? 0 : this.#listedAtMs + SETTLE_MS - clock.nowMs();
    if (waitMs > 0)
      clock.after(waitMs, send); // T3
    else send();
  }

  #over(entry: Entry, round: number): void {
    if (entry.passedRound !== undefined) return;
    entry.passedRound = round;
    if (entry.request !== undefined) this.#pass(entry);
  }

  #pass(entry: Entry): void {
    this.#entries = this.#entries.filter((other) => other !== entry);
    if (entry.request !== undefined)
      this.#scheduler.envoy.answerJson(FunctionId.BARRIER, entry.request, { round: entry.passedRound ?? Math.max(1, entry.round) });
  }

  #sizeOf(group: number): number {
    const { serverCount, workerCount } = this.#van.options;
    return (
      (inGroup("scheduler", group) ? 1 : 0) + (inGroup("server", group) ? serverCount : 0) + (inGroup("worker", group) ? workerCount : 0)
    );
  }
}
