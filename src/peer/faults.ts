// faults — a seeded tormentor for one channel: loses, repeats, swaps and delays whole frames after the handshake, so that tests and users
// can watch exactly-once hold. `PS_DROP_MSG=10` of ps-lite is `{ dropPercent: 10 }`. Off, it costs one comparison per frame.

import type { Clock } from "../base/clock.ts";
import { Random } from "../base/random.ts";

export type FaultOptions = {
  readonly dropPercent: number;
  readonly duplicatePercent: number;
  /** Frames held back until another one has passed. */
  readonly reorderPercent: number;
  /** Up to this long a held frame waits when no other comes. */
  readonly delayMs: number;
  readonly seed: number;
};

export class Faults {
  readonly #options: FaultOptions;
  readonly #random: Random;
  readonly #clock: Clock;
  #held: (() => void)[] = [];
  dropped = 0;

  constructor(options: FaultOptions, clock: Clock, salt: number) {
    this.#options = options;
    this.#random = new Random((options.seed ^ Math.imul(salt + 1, 0x9e3779b1)) >>> 0);
    this.#clock = clock;
  }

  /** Lets `emit` through never, once, twice, or later. */
  pass(emit: () => void): void {
    const { dropPercent, duplicatePercent, reorderPercent, delayMs } = this.#options;
    const roll = this.#random.fraction() * 100;
    if (roll < dropPercent) {
      this.dropped++;
      return;
    }
    if (roll < dropPercent + reorderPercent) {
      this.#held.push(emit);
      this.#clock.after(this.#random.fraction() * delayMs, () => this.#letGo());
      return;
    }
    emit();
    if (roll < dropPercent + reorderPercent + duplicatePercent) emit();
    this.#letGo();
  }

  /** The link is gone, and with it what was held. */
  reset(): void {
    this.#held = [];
  }

  #letGo(): void {
    const held = this.#held;
    this.#held = [];
    for (const emit of held) emit();
  }
}
