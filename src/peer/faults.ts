// faults — a seeded fault injector for one channel: it drops, repeats, swaps and delays whole frames after the
// handshake, so that tests and users can watch exactly-once hold. `PS_DROP_MSG=10` of ps-lite is `{ dropPercent: 10 }`.

import type { Clock } from "../base/clock.ts";
import { Random } from "../base/random.ts";

/** Which frames are lost, doubled and swapped. */
export type FaultOptions = {
  /** How many of a hundred frames are dropped. */
  readonly dropPercent: number;
  /** How many of a hundred frames are sent twice. */
  readonly duplicatePercent: number;
  /** Frames held back until another one has passed. */
  readonly reorderPercent: number;
  /** How long a held frame waits if no other follows. */
  readonly delayMs: number;
  /** One seed, one sequence of faults. */
  readonly seed: number;
};

/** One frame on its way. */
export type Passing = {
  /** Writes it. Called once at most, twice if it may be repeated. */
  readonly emit: () => void;
  /** It will never be written. */
  readonly discard: () => void;
  /** False when its memory is free to be used again once it was written. */
  readonly isRepeatable: boolean;
};

export class Faults {
  readonly #options: FaultOptions;
  readonly #random: Random;
  readonly #clock: Clock;
  #held: Passing[] = [];
  readonly #onDropped: () => void;

  /** Calls `onDropped` for every frame that is lost. */
  constructor(options: FaultOptions, clock: Clock, salt: number, onDropped: () => void = () => {}) {
    this.#options = options;
    this.#onDropped = onDropped;
    this.#random = new Random((options.seed ^ Math.imul(salt + 1, 0x9e3779b1)) >>> 0);
    this.#clock = clock;
  }

  /** Lets the frame through never, once, twice, or later. */
  pass(frame: Passing): void {
    const { dropPercent, duplicatePercent, reorderPercent, delayMs } = this.#options;
    const roll = this.#random.fraction() * 100;
    if (roll < dropPercent) {
      this.#onDropped();
      frame.discard();
      return;
    }
    if (roll < dropPercent + reorderPercent) {
      this.#held.push(frame);
      this.#clock.after(this.#random.fraction() * delayMs, () => this.#letGo());
      return;
    }
    frame.emit();
    if (roll < dropPercent + reorderPercent + duplicatePercent && frame.isRepeatable) frame.emit();
    this.#letGo();
  }

  /** The link is gone, and with it what was held. */
  reset(): void {
    for (const frame of this.#held.splice(0)) frame.discard();
  }

  #letGo(): void {
    for (const frame of this.#held.splice(0)) frame.emit();
  }
}
