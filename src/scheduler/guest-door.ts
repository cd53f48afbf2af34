// guest-door — guests that ask to come in: those that wait, and who gets which number. Not who is there: guests.ts.
//
// Invariants:
//   GuestDoor.G1. A guest that comes before the job runs waits for it, and until its nodes have passed the barrier of
//       the start: by then servers have what they restore, whose names and specs hold. One that resumes waits until
//       the servers have told which guests they know, and is refused if none of them knows it.

import { WeighbridgeError } from "../base/errors.ts";
import { type Applicant, jobOver } from "./applicant.ts";
import type { Guests } from "./guests.ts";
import type { RankSlots } from "./rank-slots.ts";
import type { Decision, RosterRules } from "./roster-decision.ts";
import type { StateJournal } from "./state-journal.ts";

type GuestDoorOptions = {
  readonly guests: Guests;
  readonly journal: Pick<StateJournal, "state">;
  /** Hears of new guests. */
  readonly slots: Pick<RankSlots, "guestsChanged">;
  readonly rules: Pick<RosterRules, "hasStarted">;
};

export class GuestDoor<T> {
  readonly #options: GuestDoorOptions;
  #waiting: Applicant<T>[] = [];

  constructor(options: GuestDoorOptions) {
    this.#options = options;
  }

  /** To be answered by `admit`. */
  wait(guest: Applicant<T>): void {
    this.#waiting.push(guest);
  }

  /** The caller went away before it was answered. */
  withdraw(caller: T): void {
    this.#waiting = this.#waiting.filter((guest) => guest.caller !== caller);
  }

  /** Nobody waits any more. Returns those who did. */
  clear(): readonly Applicant<T>[] {
    return this.#waiting.splice(0);
  }

  /** Answers those whose answer is known; `isSettled`: every node has been heard, so all guests are known. */
  admit(nowMs: number, { isOver, isSettled }: { readonly isOver: boolean; readonly isSettled: boolean }): Decision<T>[] {
    return this.clear().flatMap((guest) => {
      const { request, caller } = guest;
      if (isOver) return { kind: "refuse", caller, error: jobOver(request) };
      try {
        const node = this.#numberOf(guest, nowMs, isSettled);
        if (node !== undefined) return { kind: "admit", caller, node, incarnation: 1, recovery: true };
        this.#waiting.push(guest);
        return [];
      } catch (thrown) {
        if (!(thrown instanceof WeighbridgeError)) throw thrown;
        return { kind: "refuse", caller, error: thrown };
      }
    });
  }

  /** Undefined while that is not decided (GuestDoor.G1). Throws FENCED, QUEUE_FULL. */
  #numberOf({ request }: Applicant<T>, nowMs: number, isSettled: boolean): number | undefined {
    const { guests, journal, slots, rules } = this.#options;
    const { job, term } = journal.state;
    const { resume } = request;
    if (resume === undefined) {
      if (rules.hasStarted?.() === false) return undefined;
      const before = guests.size;
      const node = guests.admit(request, `${job} ${term}`, nowMs);
      if (guests.size > before) slots.guestsChanged();
      return node;
    }
    if (resume.job === job && guests.resume(resume.node, request, nowMs)) return resume.node;
    if (resume.job === job && !isSettled) return undefined;
    throw guests.forgotten(resume.node);
  }

  /** A guest that is no longer there. */
  dismissal(node: number): Decision<T> {
    return { kind: "dismiss", node, error: this.#options.guests.forgotten(node) };
  }
}
