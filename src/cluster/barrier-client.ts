// barrier-client — a node's own side of barriers: its round and its open entry. The scheduler decides (barrier.ts).
//
// Invariants:
//   BarrierClient.W1. A node has at most one entry open per (group, customer): a second caller waits for the same one.
//   BarrierClient.W2. A caller that stops waiting leaves the entry standing, since others may pass on it. If the
//       barrier was passed meanwhile, the next call returns at once; it does not enter the next round.
//   BarrierClient.W3. Only passing raises the round, so that a barrier that failed is entered again with the same one.

import type { Clock } from "../base/clock.ts";
import { type WaitOptions, waitFor } from "../base/deferred.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";

type Standing = { readonly passed: Promise<void>; waiterCount: number; isPassed: boolean };

export class BarrierClient {
  readonly #clock: Clock;
  readonly #enter: (request: BarrierRequest) => Promise<BarrierReply>;
  readonly #isLate: boolean;
  readonly #passed = new Map<string, BarrierRequest>();
  readonly #standings = new Map<string, Standing>();

  /** `isLate`: the job ran before this node came, so that it cannot know the rounds that are over. */
  constructor({ clock, enter, isLate }: { clock: Clock; enter: (request: BarrierRequest) => Promise<BarrierReply>; isLate: boolean }) {
    this.#clock = clock;
    this.#enter = enter;
    this.#isLate = isLate;
  }

  /** The last round that was passed of each barrier. */
  passed(): BarrierRequest[] {
    return [...this.#passed.values()];
  }

  /** `outlivesDeaths`: whether the entry stays when a member dies, if it is made now (BarrierClient.W1). */
  async pass(group: number, customer: number, wait: WaitOptions = {}, outlivesDeaths = false): Promise<void> {
    const name = `${group}/${customer}`;
    const standing = this.#standings.get(name) ?? this.#stand(name, { group, customer, ...(outlivesDeaths ? { outlivesDeaths } : {}) });
    standing.waiterCount++;
    try {
      await waitFor(standing.passed, `the barrier of group ${group}`, this.#clock, wait);
    } finally {
      standing.waiterCount--;
      if (standing.isPassed && standing.waiterCount === 0 && this.#standings.get(name) === standing) this.#standings.delete(name);
    }
  }

  #stand(name: string, barrier: Omit<BarrierRequest, "round">): Standing {
    const { group, customer } = barrier;
    const lastRound = this.#passed.get(name)?.round;
    const round = lastRound === undefined ? (this.#isLate ? 0 : 1) : lastRound + 1;
    const standing: Standing = {
      isPassed: false,
      waiterCount: 0,
      passed: this.#enter({ ...barrier, round }).then(
        (reply) => {
          standing.isPassed = true;
          this.#passed.set(name, { group, customer, round: reply.round });
        },
        (error: unknown) => {
          this.#standings.delete(name); // BarrierClient.W3
          throw error;
        },
      ),
    };
    standing.passed.catch(() => {}); // perhaps nobody waits any more (BarrierClient.W2); others get it from `pass`
    this.#standings.set(name, standing);
    return standing;
  }
}
