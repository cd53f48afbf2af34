// server-exchange — what a step pushes to servers and pulls from them: the routes note it one by one, and it leaves as
// one call, with one promise and one deadline (docs/decisions/0100).
//
// Invariants:
//   ServerExchange.E1. What is noted leaves with `leave`, in the turn in which it was noted. Pulls leave after pushes.
//   ServerExchange.E2. One pull at a time lands in the values of a route: one that is noted while another one is under
//       way leaves when that has ended, however it ended.

import type { WaitOptions } from "../../base/deferred.ts";
import type { Parameter } from "../../nn/parameter.ts";
import { Tensor } from "../../worker/tensor.ts";

/** One parameter of the exchange. */
export type ExchangedParameter = {
  readonly parameter: Parameter;
  readonly tensor: Tensor;
  /** Of pushes and pulls; higher overtakes lower. */
  readonly priority: number;
  /** Until its gradient has been pushed; it may reject. */
  pushed: Promise<void>;
  /** Until its values have landed; one that failed stays, and undefined says that they are there. */
  pulled: Promise<void> | undefined;
  /** Whether values are under way. */
  isComing: boolean;
};

/** Those whose pulls leave together. */
type Follower = { readonly each: ExchangedParameter; readonly clocksAhead: number };

/** As Tensor's, for tests. */
export type TensorCalls = Pick<typeof Tensor, "pushTogether" | "pullTogether">;

export class ServerExchange {
  readonly #wait: () => WaitOptions;
  readonly #tensors: TensorCalls;
  #pushes: ExchangedParameter[] = [];
  #pulls: Follower[] = [];

  constructor(wait: () => WaitOptions, tensors: TensorCalls = Tensor) {
    this.#wait = wait;
    this.#tensors = tensors;
  }

  push(each: ExchangedParameter): void {
    this.#pushes.push(each);
  }

  pull(each: ExchangedParameter, clocksAhead: number): void {
    this.#pulls.push({ each, clocksAhead });
  }

  /** ServerExchange.E1 */
  leave(): void {
    const [pushes, pulls] = [this.#pushes, this.#pulls];
    [this.#pushes, this.#pulls] = [[], []];
    if (pushes.length > 0) this.#startPush(pushes);
    for (const clocksAhead of new Set(pulls.map((pull) => pull.clocksAhead)))
      this.#startPull(
        pulls.filter((pull) => pull.clocksAhead === clocksAhead).map(({ each }) => each),
        clocksAhead,
      );
  }

  #startPush(all: readonly ExchangedParameter[]): void {
    const pushes = all.map(({ tensor, parameter, priority }) => ({ tensor, gradient: parameter.gradient, priority }));
    const pushed = this.#tensors.pushTogether(pushes, this.#wait());
    pushed.catch(() => {}); // who waits for one of them hears of it
    for (const each of all) each.pushed = pushed;
  }

  #startPull(all: readonly ExchangedParameter[], clocksAhead: number): void {
    const before = all.flatMap(({ pulled }) => (pulled === undefined ? [] : [pulled]));
    // ServerExchange.E2
    const pulled = before.length === 0 ? this.#pulled(all, clocksAhead) : allDone(before).then(() => this.#pulled(all, clocksAhead));
    for (const each of all) each.pulled = pulled;
    pulled.then(
      () => {
        for (const each of all) if (each.pulled === pulled) each.pulled = undefined;
      },
      () => {}, // who waits for one of them hears of it
    );
  }

  async #pulled(all: readonly ExchangedParameter[], clocksAhead: number): Promise<void> {
    for (const each of all) each.isComing = true;
    const pulls = all.map(({ tensor, parameter, priority }) => ({ tensor, into: parameter.values, priority }));
    try {
      await this.#tensors.pullTogether(pulls, clocksAhead, this.#wait());
    } finally {
      for (const each of all) each.isComing = false;
    }
  }
}

/** Resolves when all have ended, however. */
async function allDone(promises: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(promises);
}
