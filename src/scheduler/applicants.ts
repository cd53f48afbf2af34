// applicants — the nodes that registered and have no slot yet, in the order in which they came: who of them gets which
// slot of a running job, and who waits on. Pure; the roster says what holds of the job (roster.ts).
//
// Invariants:
//   Applicants.W1. A process waits at most once: what it asked for before is void when it registers again.
//   Applicants.W2. Each one is there until it is given a slot, refused, or withdrawn, and gets one answer.

import { WeighbridgeError } from "../base/errors.ts";
import type { WaitingEntry } from "../wire/control.ts";
import { AddedServers, notNeeded } from "./added-servers.ts";
import { type Applicant, jobOver } from "./applicant.ts";
import type { Chains } from "./chains.ts";
import { type Assignment, assignRanks, conflict } from "./formation.ts";
import { LostCopies } from "./lost-copies.ts";
import { chooseCopy, chooseRank, isBesideHead, type RankChoice, waitForServers } from "./rank-choice.ts";
import type { RankSlot } from "./rank-slot.ts";
import type { RankSlots } from "./rank-slots.ts";
import type { Decision, RosterRules } from "./roster-decision.ts";
import type { StateJournal } from "./state-journal.ts";

/** What holds of the job now. */
export type JobFacts = {
  /** Everybody has passed the last barrier (Roster.R4). */
  readonly isEnding: boolean;
  /** It comes back from the disks of its servers (Roster.R8). */
  readonly isStored: boolean;
  /** Every node that should be alive has been heard. */
  readonly isSettled: boolean;
  /** A node may still resume that no other one has told of. */
  readonly mayResume: boolean;
  /** Nobody is judged by a closed link now (SilenceVerdicts.S4). */
  readonly isPaused: boolean;
};

export type ApplicantsOptions = {
  readonly rules: RosterRules;
  readonly journal: Pick<StateJournal, "state">;
  readonly slots: RankSlots;
  readonly chains: Chains;
};

export class Applicants<T> {
  readonly #rules: RosterRules;
  readonly #slots: RankSlots;
  readonly #chains: Chains;
  readonly #added: AddedServers<T>;
  readonly #lost: LostCopies;
  #waiting: Applicant<T>[] = [];

  constructor({ rules, journal, slots, chains }: ApplicantsOptions) {
    this.#rules = rules;
    this.#slots = slots;
    this.#chains = chains;
    this.#added = new AddedServers(journal, slots);
    this.#lost = new LostCopies(rules);
  }

  get all(): readonly Applicant<T>[] {
    return this.#waiting;
  }

  /** Which of them could begin a job together; others came to join the one that was found. */
  sorted(): { readonly fitting: readonly Applicant<T>[]; readonly refusals: Decision<T>[] } {
    const fitting: Applicant<T>[] = [];
    const refusals: Decision<T>[] = [];
    for (const applicant of this.#waiting) {
      const error = conflict(applicant, this.#rules, fitting);
      if (error === undefined) fitting.push(applicant);
      else refusals.push({ kind: "refuse", caller: applicant.caller, error });
    }
    return { fitting, refusals };
  }

  /**
   * The rank of each of these, once a job can begin with them; otherwise undefined, or why it never will (assignRanks).
   * `isDue`: it waits no longer for copies that have not come.
   */
  deal(
    fitting: readonly Applicant<T>[],
    { isDue, nowMs }: { readonly isDue: boolean; readonly nowMs: number },
  ): Assignment<T>[] | WeighbridgeError | undefined {
    return assignRanks(fitting, this.#rules, isDue ? Infinity : this.#lost.dead(fitting, nowMs));
  }

  entries(): WaitingEntry[] {
    return this.#waiting.map(({ request: { role, rank, address, label, packageVersion } }) => {
      return { role, rank, address, label, ...(packageVersion === undefined ? {} : { packageVersion }) };
    });
  }

  add(applicant: Applicant<T>): void {
    this.#lost.came(applicant.request);
    this.#waiting.push(applicant);
  }

  /** Returns all of them, and forgets them. */
  takeAll(): Applicant<T>[] {
    return this.#waiting.splice(0);
  }

  /** The caller went away before it was answered; `isForming`: before the job ran. */
  withdraw(caller: T, nowMs: number, { isForming }: { readonly isForming: boolean }): void {
    for (const { request } of this.#waiting.filter((applicant) => isForming && applicant.caller === caller))
      this.#lost.lost(request, nowMs);
    this.#waiting = this.#waiting.filter((applicant) => applicant.caller !== caller);
  }

  /**
   * Refuses an earlier application of the same process (Applicants.W1): its link is gone, or it would not register
   * again.
   */
  forget(token: string): Decision<T>[] {
    const error = new WeighbridgeError("ABORTED", "this node registered again meanwhile", { retryable: true });
    const earlier = this.#waiting.filter(({ request }) => request.token === token);
    this.#waiting = this.#waiting.filter(({ request }) => request.token !== token);
    return earlier.map(({ caller }) => ({ kind: "refuse", caller, error }));
  }

  /** While a job forms: when it may begin with fewer copies, if nothing else happens before; Infinity if never. */
  formsAtMs(nowMs: number): number {
    return this.#lost.dueMs(nowMs);
  }

  /**
   * When one of them can get a slot or a refusal, if nothing else happens before; Infinity if none waits for a time.
   */
  dueMs(facts: JobFacts, nowMs: number): number {
    const dueTimes = this.#waiting.map((applicant) => {
      const choice = this.#choiceFor(applicant, facts, nowMs);
      return choice.found === "nothing" ? choice.lookAgainAtMs : nowMs;
    });
    return Math.min(Infinity, ...dueTimes);
  }

  /** Gives a slot to this node, in a new incarnation (Roster.R1). */
  assign({ request, caller }: Applicant<T>, slot: RankSlot, nowMs: number): Decision<T> & { kind: "admit" } {
    this.#slots.assign(slot, request, slot.incarnation + 1, nowMs);
    this.#chains.assigned(slot);
    return { kind: "admit", caller, node: slot.node, incarnation: slot.incarnation, recovery: true };
  }

  /** Assigns the slots that are free, after those of retired servers are gone. */
  assignFree(facts: JobFacts, nowMs: number): Decision<T>[] {
    this.#added.dropRetired();
    const decisions: Decision<T>[] = [];
    for (const applicant of this.takeAll()) {
      const isSpare = this.#isSpare(applicant);
      const choice = this.#choiceFor(applicant, facts, nowMs);
      // ServerCopies.P1
      const isNear = choice.found === "slot" && isBesideHead(applicant.request, choice.slot, this.#slots.all());
      const isUnplaced = choice.found === "nothing" && choice.lookAgainAtMs === Infinity; // else a slot may become free
      // Roster.R4, RankChoice.S1.
      const mayAdd = isSpare && (isUnplaced || isNear) && !facts.isEnding && facts.isSettled;
      const added = mayAdd ? this.#added.slotFor(applicant, facts) : undefined;
      if (added !== undefined) {
        decisions.push(this.assign(applicant, added, nowMs));
        if (applicant.request.copy !== undefined) this.#chains.added(added);
      } else if (choice.found === "nothing") {
        this.#waiting.push(applicant);
        if (isSpare && facts.isSettled) decisions.push(...this.#added.notice(applicant));
      } else if (choice.found === "refusal") decisions.push({ kind: "refuse", caller: applicant.caller, error: choice.error });
      else {
        const slot = choice.found === "added" ? this.#slots.add("worker", choice.rank) : choice.slot;
        if (slot.state === "alive") decisions.push({ kind: "died", node: slot.node }); // not published yet
        decisions.push(this.assign(applicant, slot, nowMs));
      }
    }
    return decisions;
  }

  /** All nodes have left: refuses spares (AddedServers.A2), and at the end of the job everybody else (Roster.R4). */
  refuseLast({ isEnding }: JobFacts): Decision<T>[] {
    const decisions: Decision<T>[] = [];
    for (const applicant of this.takeAll()) {
      const { caller, request } = applicant;
      const isSpare = this.#isSpare(applicant);
      if (isSpare || isEnding) decisions.push({ kind: "refuse", caller, error: isSpare ? notNeeded(request) : jobOver(request) });
      else this.#waiting.push(applicant);
    }
    return decisions;
  }

  #isSpare(applicant: Applicant<T>): boolean {
    return this.#rules.mayScale === true && this.#added.isSpare(applicant);
  }

  #choiceFor(applicant: Applicant<T>, { isEnding, isStored, isPaused }: JobFacts, nowMs: number): RankChoice {
    const rules = { ...this.#rules, isPaused };
    const slots = this.#slots.all().filter((slot) => !this.#added.isRetired(slot));
    const wait = isStored ? waitForServers(applicant, slots, rules, nowMs) : undefined; // Roster.R8
    if (wait !== undefined) return wait;
    if (isEnding && this.#rules.serves === true) return { found: "nothing", lookAgainAtMs: Infinity }; // Roster.R4
    const choose = applicant.request.copy === undefined ? chooseRank : chooseCopy;
    if (!isEnding) return choose(applicant, slots, rules, nowMs);
    const held = slots.filter(({ state }) => state !== "left"); // Roster.R4
    return choose(applicant, held, { ...rules, workerCountMax: 0 }, nowMs);
  }
}
