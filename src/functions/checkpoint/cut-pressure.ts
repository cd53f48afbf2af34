// cut-pressure — slows pushes down while a server that is full is being saved. What changes during a cut is kept twice until it is written, in the
// arena's reserve alone when there is no other room; pushes that are faster than the disk would use it up, and the checkpoint would be given up.
// A push is applied at once, as ever. Only its acknowledgement waits, and with it whoever awaits it.
//
// Invariants:
//   P1. An acknowledgement waits DELAY_MS at most, and not beyond the cut: slow pushes cannot stop a cut whose next request is behind them.
//   P2. Nothing waits while there is room outside the reserve for what a cut keeps.

import type { Clock } from "../../base/clock.ts";
import { Deferred } from "../../base/deferred.ts";
import type { Arena } from "../../kernel/arena.ts";

const DELAY_MS = 100;
/** From this share of the reserve on pushes are slowed down. */
const PRESSED_SHARE = 1 / 8;

export class CutPressure {
  readonly #arena: Arena;
  readonly #clock: Clock;
  #relief: Deferred<void> | undefined;

  constructor(arena: Arena, clock: Clock) {
    this.#arena = arena;
    this.#clock = clock;
  }

  /** What an acknowledgement waits for while a cut keeps so many bytes twice; undefined when it need not (P2). */
  wait(keptBytes: number): Promise<void> | undefined {
    const { reserveBytes, stateBytesMax, stateUsedBytes } = this.#arena;
    if (keptBytes < reserveBytes * PRESSED_SHARE || stateBytesMax - stateUsedBytes > reserveBytes) return undefined;
    if (this.#relief !== undefined) return this.#relief.promise;
    const relief = new Deferred<void>();
    this.#relief = relief;
    const cancel = this.#clock.after(DELAY_MS, () => this.end()); // P1
    relief.promise.then(cancel, cancel);
    return relief.promise;
  }

  /** The cut is over. */
  end(): void {
    this.#relief?.resolve();
    this.#relief = undefined;
  }
}
