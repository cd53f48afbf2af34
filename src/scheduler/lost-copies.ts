// lost-copies — copies of replicated servers that registered for the start of a job, and whose link is closed. Pure.
//
// Invariants:
//   LostCopies.L1. A copy counts as dead when its link has been closed for SUSPECT_GRACE_MS, and it has not registered
//       again. It has no slot and sends no heartbeats, so that nothing else tells.
//   LostCopies.L2. The start waits for one copy less for each that is dead. It waits for all copies of a rank again
//       when others of that rank came for those that are dead.

import type { RegisterRequest } from "../wire/register.ts";
import { type Applicant, type ClusterCounts, countOf } from "./applicant.ts";
import { SUSPECT_GRACE_MS } from "./rank-choice.ts";

type LostCopy = { readonly rank: number | undefined; readonly deadAtMs: number };

export class LostCopies {
  readonly #counts: ClusterCounts;
  /** By the token of the process. */
  readonly #lost = new Map<string, LostCopy>();

  constructor(counts: ClusterCounts) {
    this.#counts = counts;
  }

  /** The link of a node that waits for the start is closed. */
  lost({ copy, token, rank }: RegisterRequest, nowMs: number): void {
    if (copy === undefined) return;
    this.#lost.set(token, { rank, deadAtMs: nowMs + SUSPECT_GRACE_MS });
    const [oldest] = this.#lost.keys();
    if (this.#lost.size > countOf(this.#counts, "standby") && oldest !== undefined) this.#lost.delete(oldest);
  }

  /** It has registered again. */
  came({ token }: RegisterRequest): void {
    this.#lost.delete(token);
  }

  /** When the next one counts as dead; Infinity if none does. */
  dueMs(nowMs: number): number {
    return Math.min(Infinity, ...this.#all.flatMap(({ deadAtMs }) => (deadAtMs > nowMs ? deadAtMs : [])));
  }

  /** For how many copies the start does not wait (LostCopies.L2). */
  dead(waiting: readonly Applicant<unknown>[], nowMs: number): number {
    const { replicas = 1 } = this.#counts;
    const isFull = (rank: number): boolean => waiting.filter(({ request }) => request.copy && request.rank === rank).length >= replicas;
    const dead = this.#all.filter(({ deadAtMs }) => deadAtMs <= nowMs);
    const ranks = new Set(dead.flatMap(({ rank }) => (rank === undefined || isFull(rank) ? [] : rank)));
    return ranks.size + dead.filter(({ rank }) => rank === undefined).length;
  }

  get #all(): readonly LostCopy[] {
    return [...this.#lost.values()];
  }
}
