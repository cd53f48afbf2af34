// arena-watch — warns while a server's memory for parameters fills up, before new rows and parameters are refused
// (Arena.A4).
//
// Invariants:
//   ArenaWatch.W1. Each level is logged once when it is passed, and again only after the use fell well below it.

import type { Log } from "../base/log.ts";
import type { Arena } from "../kernel/arena.ts";

const LEVELS: readonly number[] = [0.8, 0.95];
/** A level counts as left once the use is this far below it. */
const LEFT_BELOW = 0.05;

export class ArenaWatch {
  readonly #arena: Arena;
  readonly #log: Log;
  readonly #bounds: readonly number[];
  /** How many levels were logged. */
  #logged = 0;
  /** Between these uses there is nothing to log. Nobody else writes them. */
  low = 0;
  high = 0;

  constructor(arena: Arena, log: Log) {
    this.#arena = arena;
    this.#log = log;
    this.#bounds = LEVELS.map((level) => level * arena.stateBytesMax);
    this.#aim();
  }

  /** The arena's use is `high` or above, or below `low`. */
  passed(used: number): void {
    const reached = this.#bounds.filter((bound) => used >= bound).length;
    if (reached > this.#logged) this.#warn(used);
    const left = LEFT_BELOW * this.#arena.stateBytesMax;
    // ArenaWatch.W1
    this.#logged = Math.max(reached, this.#bounds.filter((bound, level) => level < this.#logged && used >= bound - left).length);
    this.#aim();
  }

  #aim(): void {
    this.high = this.#bounds[this.#logged] ?? Number.POSITIVE_INFINITY;
    this.low = this.#logged === 0 ? 0 : (this.#bounds[this.#logged - 1] ?? 0) - LEFT_BELOW * this.#arena.stateBytesMax;
  }

  #warn(used: number): void {
    const { stateBytesMax } = this.#arena;
    const percent = Math.floor((100 * used) / stateBytesMax);
    this.#log.warn(`the memory for parameters is ${percent} % full; once it is full new rows and parameters are refused with ARENA_FULL`, {
      usedBytes: used,
      bytesMax: stateBytesMax,
      help: "reads, saves and updates of what is there go on; start with a larger --arena-bytes-max or more servers from a checkpoint",
    });
  }
}
