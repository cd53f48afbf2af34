// collective-generations — the generations of workers that reduce among themselves: decides who is in the next one,
// when it forms, and when one is over. Pure: the roster in, answers out.
//
// Invariants:
//   CollectiveGenerations.G1. A generation has a higher number than every one before it, also over a restart of the
//       scheduler: the workers report the numbers.
//   CollectiveGenerations.G2. The first one waits for every live worker. Later ones wait for the live ones that listen:
//       never for one that was restarted and has not come yet. When all members of a generation that live have left it,
//       and one of them comes again, all of them do, except for one that is about to leave the job.
//   CollectiveGenerations.G3. A worker whose answer was lost with a scheduler gets the same one, while that generation
//       is not over.
//   CollectiveGenerations.G4. A generation is over once a member is dead, was restarted, or wants to be in the next one
//       or in none. Everybody learns that, also a member that was declared dead and does not know it.

import { WeighbridgeError } from "../base/errors.ts";
import type { Generation, Member } from "../wire/generation.ts";
import { nameOf } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";

type Standing<T> = Member & {
  /** The newest generation that it was in. */
  readonly generation: number;
  readonly caller: T;
};

const NOBODY: ReadonlySet<number> = new Set();

export type SettledRequest<T> = { readonly caller: T; readonly outcome: Generation | WeighbridgeError };

export class CollectiveGenerations<T> {
  readonly #standing = new Map<number, Standing<T>>();
  #formed: Generation = { generation: 0, members: [] };
  /** Members of `#formed` that have left it. */
  readonly #left = new Set<number>();
  #newest = 0;
  #ended = 0;

  /** The newest generation's number; 0 before the first. */
  get generation(): number {
    return this.#newest;
  }

  /** Generations up to this one are over (CollectiveGenerations.G4). */
  get ended(): number {
    return this.#ended;
  }

  /** Who waits, by rank. */
  standing(): Member[] {
    return [...this.#standing.values()].map(({ node, incarnation }) => ({ node, incarnation })).sort((a, b) => a.node - b.node);
  }

  /** A worker comes, or comes again. `review` then decides what follows. */
  enter(worker: Standing<T>): SettledRequest<T>[] {
    const earlier = this.#dismiss(worker.node);
    this.#standing.set(worker.node, worker);
    this.#newest = Math.max(this.#newest, worker.generation);
    this.#ended = Math.max(this.#ended, worker.generation); // CollectiveGenerations.G4
    return earlier;
  }

  /** A worker wants to be in no further generation. */
  leave(node: number): SettledRequest<T>[] {
    this.died(node);
    if (this.#formed.members.some((member) => member.node === node)) this.#left.add(node);
    return this.#dismiss(node);
  }

  /**
   * A node reports its generation to a restarted scheduler, and by its roster which ones are over
   * (CollectiveGenerations.G1, CollectiveGenerations.G3).
   */
  recall(formed: Generation | undefined, ended = 0): void {
    const { generation } = formed ?? this.#formed;
    this.#newest = Math.max(this.#newest, generation, ended);
    this.#ended = Math.max(this.#ended, generation - 1, ended);
    if (formed === undefined || generation <= this.#formed.generation) return;
    this.#formed = formed;
    this.#left.clear();
  }

  died(node: number): void {
    // CollectiveGenerations.G4
    if (this.#formed.members.some((member) => member.node === node)) this.#ended = Math.max(this.#ended, this.#formed.generation);
  }

  /** Who can be answered, by the nodes that are there; `leaving` are those that are about to leave the job. */
  review(nodes: readonly RosterEntry[], leaving: ReadonlySet<number> = NOBODY): SettledRequest<T>[] {
    const workers = nodes.filter(({ role }) => role === "worker");
    const settled: SettledRequest<T>[] = [];
    for (const { node, incarnation, state } of workers) {
      const isFormer = this.#formed.members.some((member) => member.node === node && member.incarnation < incarnation);
      if (isFormer || state !== "alive") this.died(node);
      if ((this.#standing.get(node)?.incarnation ?? incarnation) < incarnation || state === "left") settled.push(...this.#dismiss(node));
    }
    // CollectiveGenerations.G2
    const doReturn = !workers.some((worker) => this.#isIn(worker)) && [...this.#standing.keys()].some((node) => this.#left.has(node));
    const mayReturn = ({ node }: RosterEntry): boolean => doReturn && this.#left.has(node) && !leaving.has(node);
    const needed = workers.filter(
      (worker) => worker.state === "alive" && (this.#newest === 0 || worker.address !== "" || mayReturn(worker)),
    );
    if (this.#ended < this.#formed.generation) settled.push(...this.#tellAgain());
    if (needed.length === 0 || !needed.every(({ node }) => this.#standing.has(node))) return settled;
    return [...settled, ...this.#form(needed)];
  }

  /** Whether a worker lives and has not left the newest generation. */
  #isIn({ node, incarnation, state }: RosterEntry): boolean {
    const isMember = this.#formed.members.some((member) => member.node === node && member.incarnation === incarnation);
    return isMember && state === "alive" && !this.#left.has(node);
  }

  /** CollectiveGenerations.G3 */
  #tellAgain(): SettledRequest<T>[] {
    return this.#formed.members.flatMap(({ node, incarnation }) => {
      const worker = this.#standing.get(node);
      if (worker === undefined || worker.incarnation !== incarnation || worker.generation >= this.#formed.generation) return [];
      this.#standing.delete(node);
      return [{ caller: worker.caller, outcome: this.#formed }];
    });
  }

  #form(entries: readonly RosterEntry[]): SettledRequest<T>[] {
    const members = entries.map(({ node, incarnation }) => ({ node, incarnation })).sort((a, b) => a.node - b.node);
    this.#ended = Math.max(this.#ended, this.#newest);
    this.#newest++; // CollectiveGenerations.G1
    this.#formed = { generation: this.#newest, members };
    this.#left.clear();
    return members.flatMap(({ node }) => {
      const worker = this.#standing.get(node);
      this.#standing.delete(node);
      return worker === undefined ? [] : [{ caller: worker.caller, outcome: this.#formed }];
    });
  }

  #dismiss(node: number): SettledRequest<T>[] {
    const worker = this.#standing.get(node);
    if (worker === undefined) return [];
    this.#standing.delete(node);
    const message = `${nameOf(node)} came again, or left, while it waited for other workers`;
    return [{ caller: worker.caller, outcome: new WeighbridgeError("ABORTED", message, { retryable: true }) }];
  }
}
