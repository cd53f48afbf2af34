// worker-circle — the workers that train the same values together (the hybrid mode): what they agree on before each step, and how they go on when one of them dies or
// one more comes.
//
//   agree ──► the same step at every worker ──► agree …          a member is gone: regroup ──► agree …
//
// Invariants:
//   W1. A step is made by all members or by none: those without samples take part with zeros.
//   W2. After `join` all members have the same values, slots and step counts: those of the lowest rank among the members that had trained before.
//   W3. Operations of the Collective begin in the same order at every member.

import type { WaitOptions } from "../base/deferred.ts";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Collective } from "../worker/collective.ts";
import { isPassing } from "./persistence.ts";
import type { ReducedRoute } from "./reduced-route.ts";

/** What a worker has for the next step. */
export type StepOffer = { readonly hasUnit: boolean; readonly isOver: boolean; readonly hasNext: boolean };

/** What all members know about the next step. */
export type StepAgreement = {
  /** At least one has a unit: all make a step. */
  readonly isStep: boolean;
  /** None has any left. */
  readonly isOver: boolean;
  /** All of them know their unit after this one. */
  readonly allHaveNext: boolean;
};

const ATTEMPTS_MAX = 16;
/** Somebody else's CLOSED is told by the failure of the Collective, and does not reject a `reform`. */
const OWN_END: ReadonlySet<ErrorCode> = new Set(["CLOSED", "FENCED", "SCHEDULER_UNREACHABLE", "DEADLINE"]);

export class WorkerCircle {
  readonly collective: Collective;
  readonly #wait: () => WaitOptions;
  /** Has made steps, or was given the values of one that had. */
  #isVeteran = false;

  constructor(collective: Collective, wait: () => WaitOptions) {
    this.collective = collective;
    this.#wait = wait;
  }

  /** Why nothing goes on until `regroup`, if so: a member is gone. */
  get isBroken(): boolean {
    return this.collective.failure !== undefined && !this.collective.isClosed;
  }

  /** Whether this failure is a member's end, and not this worker's own. */
  mayRecover(thrown: unknown): boolean {
    const isOwn = isWeighbridgeError(thrown) && OWN_END.has(thrown.code);
    return this.isBroken && !isOwn;
  }

  /** W1. Also finds out that somebody waits to join. */
  async agree({ hasUnit, isOver, hasNext }: StepOffer): Promise<StepAgreement & { readonly mustRegroup: boolean }> {
    const isAwaited = this.collective.newcomers.length > 0;
    const votes = Float32Array.of(Number(hasUnit), Number(isOver), Number(hasNext), Number(isAwaited));
    await this.collective.allReduce(votes, this.#wait());
    const { length: count } = this.collective.members;
    return { isStep: votes[0]! > 0, isOver: votes[1] === count, allHaveNext: votes[2] === count, mustRegroup: votes[3]! > 0 };
  }

  /** The next generation, with those that live. Rejects when none comes together. */
  async regroup(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.collective.reform(this.#wait());
        return;
      } catch (thrown) {
        if (!isPassing(thrown) || attempt >= ATTEMPTS_MAX) throw thrown;
      }
    }
  }

  /** W2 */
  async join(routes: readonly ReducedRoute[]): Promise<void> {
    const { members } = this.collective;
    const flag = Uint8Array.of(Number(this.#isVeteran));
    const flags = await this.collective.exchange(
      members.map(() => flag),
      this.#wait(),
    );
    const from = members[flags.findIndex(([isVeteran]) => isVeteran === 1)] ?? members[0];
    if (from === undefined) throw new WeighbridgeError("FENCED", "this worker is in no generation");
    const steps = Float32Array.from(routes, ({ updater }) => updater.step);
    await this.collective.broadcast(steps, from, this.#wait());
    for (const [i, { parameter, updater }] of routes.entries()) {
      await this.collective.broadcast(parameter.values, from, this.#wait());
      if (updater.slots.length > 0) await this.collective.broadcast(updater.slots, from, this.#wait());
      updater.step = steps[i]!;
    }
    this.#isVeteran = true;
  }
}
