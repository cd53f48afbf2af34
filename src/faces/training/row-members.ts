// row-members — the workers among whom the rows of cached tables are dealt out, as the sources of one worker see them: who owns which row, and in which order
// this worker speaks with the others. One for all cached tables of a worker, as they share one Collective.
//
// Every worker has to call the operations of a Collective in the same order. So a source begins them at two kinds of moments alone: at once when it is
// called (`announce`, `give`), or in its turn among the sources that take (`inTurn`), which come one after the other, in the order of the calls.
//
// Invariants:
//   O1. A row belongs to one worker: that of its part of the key space, part modulo the number of members. It depends on the members alone.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { Collective } from "../../worker/collective.ts";
import { RowPlanner } from "../../worker/router/row-plan.ts";

/** What is needed of a worker's Collective. */
export type RowCollective = Pick<Collective, "members" | "generation" | "exchange">;

export class RowMembers {
  readonly rank: number;
  readonly #collective: RowCollective | undefined;
  #last: Promise<unknown> = Promise.resolve();

  /** Without a collective this worker has all rows. */
  constructor(rank: number, collective?: RowCollective) {
    this.rank = rank;
    this.#collective = collective;
  }

  /** Ranks, ascending. */
  get ranks(): readonly number[] {
    return this.#collective?.members ?? [this.rank];
  }

  get isAlone(): boolean {
    return this.ranks.length === 1;
  }

  /** Of the Collective; 0 without one. */
  get generation(): number {
    return this.#collective?.generation ?? 0;
  }

  /** This worker's place among the ranks. Throws FENCED when it has none any more. */
  get position(): number {
    const position = this.ranks.indexOf(this.rank);
    if (position >= 0) return position;
    throw new WeighbridgeError("FENCED", `worker ${this.rank} is not among the workers ${this.ranks.join(", ")} that share the rows`);
  }

  /** Plans rows by the member that owns them (O1). */
  planner(arena: Arena, secret: number): RowPlanner {
    return RowPlanner.among(arena, this.ranks, secret);
  }

  /** As the Collective's; alone, what was sent comes back. */
  async exchange(outgoing: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    if (this.#collective === undefined) return outgoing;
    return await this.#collective.exchange(outgoing);
  }

  /** Runs `speak` when everybody who asked for a turn before has ended. */
  async inTurn<T>(speak: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(speak);
    this.#last = turn.catch(() => {}); // its caller hears of it
    return await turn;
  }
}
