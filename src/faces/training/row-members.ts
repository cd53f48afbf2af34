// row-members — the workers that share the rows of cached tables, as the sources of one worker see them: which worker
// owns which row, and in which order this worker talks to the others. One object for all cached tables of a worker,
// because they share one Collective.
//
// Every worker has to call the operations of a Collective in the same order. So a source begins an operation
// immediately when it is called (`prefetch`, `push`), or in its turn among the sources that acquire (`turns`), in the
// order of the calls.
//
// Invariants:
//   RowMembers.O1. A row belongs to one worker: the part of its key modulo the number of members is that worker's
//       position.

import { asError, WeighbridgeError } from "../../base/errors.ts";
import { InTurn } from "../../base/in-turn.ts";
import type { Arena } from "../../kernel/arena.ts";
import { encodeTraining, type TrainingState, trainingShape } from "../../store/training-state.ts";
import { type Check, count, list, object } from "../../wire/json-body.ts";
import type { Collective } from "../../worker/collective.ts";
import type { RawRows } from "../../worker/raw-rows.ts";
import { RowPlanner } from "../../worker/router/row-plan.ts";
import { assignmentMessage, decodeAssignment } from "./row-messages.ts";

/** What is needed of a worker's Collective. */
export type RowCollective = Pick<Collective, "members" | "generation" | "exchange">;

export class RowMembers {
  readonly rank: number;
  readonly #collective: RowCollective | undefined;
  /** Of the sources that acquire. */
  readonly turns: InTurn = new InTurn();

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

  /** This worker's index among the ranks. Throws FENCED if it is no longer a member. */
  get position(): number {
    const position = this.ranks.indexOf(this.rank);
    if (position >= 0) return position;
    throw new WeighbridgeError("FENCED", `worker ${this.rank} is not among the workers ${this.ranks.join(", ")} that share the rows`);
  }

  /** Plans rows by the member that owns them (RowMembers.O1). */
  planner(arena: Arena, secret: number): RowPlanner {
    return RowPlanner.among(arena, this.ranks, secret);
  }

  /** The Collective's exchange; without one, returns what was sent. */
  async exchange(outgoing: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    if (this.#collective === undefined) return outgoing;
    return await this.#collective.exchange(outgoing);
  }
}

type Assignment = { readonly claims: readonly number[]; readonly training: readonly TrainingState[] };
const assignmentShape: Check<Assignment> = object({ claims: list(count), training: list(trainingShape) });

/**
 * The workers agree that they own the rows of a table from now on. Every member calls it, after it has written back its
 * rows; then the lowest rank claims the table on the servers, and sends the claim to the others. Rows of an earlier
 * claim can no longer be written. If a member reports a failure, or the claim fails, it rejects for all members.
 */
export async function assignRows(members: RowMembers, raw: RawRows, failure?: unknown): Promise<readonly TrainingState[]> {
  const share = async (body: object | WeighbridgeError): Promise<unknown[]> =>
    (await members.exchange(members.ranks.map(() => assignmentMessage(body)))).map(decodeAssignment);
  await share(failure === undefined ? {} : asError(failure, "HANDLER_FAILED"));
  if (members.position > 0) {
    const [assignment] = await share({});
    const { claims, training } = assignmentShape(assignment, `the assignment of the rows of ${raw.spec.name}`);
    raw.join(claims);
    return training;
  }
  const claimed = await raw.claim().catch((thrown: unknown) => asError(thrown, "HANDLER_FAILED"));
  await share(claimed instanceof WeighbridgeError ? claimed : { claims: claimed.claims, training: claimed.training.map(encodeTraining) });
  if (claimed instanceof WeighbridgeError) throw claimed;
  return claimed.training;
}
