// collective-service — answers workers that reduce among themselves. collective-generations.ts decides who is in which.

import { Deferred } from "../base/deferred.ts";
import { badRequest, WeighbridgeError } from "../base/errors.ts";
import type { GatherRequest } from "../wire/collective-frame.ts";
import type { Generation, Member } from "../wire/generation.ts";
import { roleOf } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import { CollectiveGenerations, type SettledRequest } from "./collective-generations.ts";

/** Far beyond what a job can reach, and all numbers after it still fit a frame. */
const GENERATION_MAX = 2 ** 31;

/** Who is there, and who of them is about to leave the job. */
type Nodes = { readonly nodes: readonly RosterEntry[]; readonly leaving: ReadonlySet<number> };

export class CollectiveService {
  readonly #generations = new CollectiveGenerations<Deferred<Generation>>();

  /** Generations up to this one are over. */
  get ended(): number {
    return this.#generations.ended;
  }

  /** The newest generation's number, and who waits for the next. */
  get standing(): Generation {
    return { generation: this.#generations.generation, members: this.#generations.standing() };
  }

  /** A worker comes, or comes again; answered with the generation that it is in. */
  enter(worker: Member & { readonly generation: number }, there: Nodes): Promise<Generation> {
    const caller = new Deferred<Generation>();
    this.#settle(this.#generations.enter({ ...worker, caller }));
    this.review(there);
    return caller.promise;
  }

  /** A worker takes part in no further one. `review` then decides what follows, once the roster knows it, too. */
  leave(node: number): void {
    this.#settle(this.#generations.leave(node));
  }

  died(node: number): void {
    this.#generations.died(node);
  }

  /** What a node reports after a restart of the scheduler. */
  recall(gathered: Generation | undefined, endedGeneration: number | undefined): void {
    this.#generations.recall(gathered, endedGeneration);
  }

  /** The roster has changed, or who is about to leave. */
  review({ nodes, leaving }: Nodes): void {
    this.#settle(this.#generations.review(nodes, leaving));
  }

  #settle(settled: readonly SettledRequest<Deferred<Generation>>[]): void {
    for (const { caller, outcome } of settled) {
      if (outcome instanceof WeighbridgeError) caller.reject(outcome);
      else caller.resolve(outcome);
    }
  }
}

/** Throws BAD_REQUEST for an illegal request. */
export function checkGather(
  { id, name }: { readonly id: number; readonly name: string },
  { step, address, generation }: GatherRequest,
): void {
  if (roleOf(id) !== "worker" || (step === "enter" && address === ""))
    throw badRequest(`workers that listen reduce among themselves, and ${name} is none`);
  if (generation > GENERATION_MAX) throw badRequest(`${name} cannot have been in generation ${generation}`);
}
