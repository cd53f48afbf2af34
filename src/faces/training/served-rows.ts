// served-rows — the rows of one step that this worker owns and somebody uses, itself included: what each member asked for, and all of it, each row once.
//
//   asked      keys of the first member, of the second, … by rank        a row may stand there several times
//   distinct   each of them once
//
// Invariants:
//   S1. The order of the members is that of their ranks: sums over it have the same bits everywhere.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { RowPlan, RowPlanner } from "../../worker/router/row-plan.ts";

const KEY_BYTES = 8;

export class ServedRows {
  readonly #arena: Arena;
  /** Of the keys asked for, one member after the other. */
  readonly #address: number;
  readonly #byteCount: number;
  /** Where each member's keys begin, and where the last one's end. */
  readonly #starts: readonly number[];
  readonly #plan: RowPlan | undefined;
  /** The distinct keys. */
  readonly keys: number;
  readonly keyCount: number;

  /** `asked` has the halves of the keys of each member. Throws ARENA_FULL. */
  constructor(planner: RowPlanner, asked: readonly Uint32Array[]) {
    const { arena } = planner;
    this.#arena = arena;
    const starts = [0];
    for (const halves of asked) starts.push((starts.at(-1) as number) + halves.length / 2);
    const total = starts.at(-1) as number;
    this.#starts = starts;
    this.#byteCount = Math.max(1, total) * KEY_BYTES;
    this.#address = arena.allocate(this.#byteCount);
    for (const [i, halves] of asked.entries()) arena.words.set(halves, this.keysOf(i).address >>> 2);
    const isDistinct = asked.filter(({ length }) => length > 0).length < 2;
    this.#plan = isDistinct ? undefined : planner.plan(new BigUint64Array(arena.memory.buffer, this.#address, total));
    this.keys = this.#plan?.keysAddress ?? this.#address;
    this.keyCount = this.#plan?.rowCount ?? total;
  }

  /** What the member at this position asked for. */
  keysOf(position: number): { readonly address: number; readonly keyCount: number } {
    const from = this.#starts[position] as number;
    return { address: this.#address + from * KEY_BYTES, keyCount: (this.#starts[position + 1] as number) - from };
  }

  /** Copies the keys at these places of what a member asked for. Throws BAD_REQUEST. */
  copyKeys(position: number, places: Uint32Array, out: number): void {
    const { address, keyCount } = this.keysOf(position);
    const { words } = this.#arena;
    for (let i = 0; i < places.length; i++) {
      const place = places[i] as number;
      if (place >= keyCount)
        throw new WeighbridgeError("BAD_REQUEST", `a worker gives a gradient for row ${place} of the ${keyCount} it asked for`);
      words[(out >>> 2) + 2 * i] = words[(address >>> 2) + 2 * place] as number;
      words[(out >>> 2) + 2 * i + 1] = words[(address >>> 2) + 2 * place + 1] as number;
    }
  }

  release(): void {
    this.#plan?.release();
    this.#arena.release(this.#address, this.#byteCount);
  }
}
