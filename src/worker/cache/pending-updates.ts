// pending-updates — a worker's own updates that no server has acknowledged: for each key the sum of its gradients and
// how many they are. It knows nothing of cached rows: what is pending stays so whether its row is cached, evicted or
// never was.
//
//   row     [ key u64 | gradients f32 × width | updates u32 ]
//
// Invariants:
//   PendingUpdates.P1. `add` adds all of its rows or, when the arena is full, none.
//   PendingUpdates.P2. Gradients leave only by `remove`, which is for those that a server has acknowledged, or that are
//       held until it is known whether it has them.

import { type Arena, arenaFull } from "../../kernel/arena.ts";
import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { CURSOR_BYTES, DONE, type Kernels, LIST_ROWS_MAX, ROW_KEY_BYTES } from "../../kernel/kernels.ts";
import { type RowKernels, simdRowKernels } from "../../kernel/row-kernels.ts";
import { resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { ArenaSpans } from "../arena-spans.ts";
import type { RowPlanner } from "../router/row-plan.ts";
import { LocalOptimizer } from "./local-optimizer.ts";

/** Updates of some rows, in memory of their own. */
export type TakenUpdates = { readonly keys: BigUint64Array; readonly gradients: Float32Array; readonly updates: Uint32Array };

export class PendingUpdates {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  readonly #rowKernels: RowKernels;
  readonly #width: number;
  readonly #table: number;
  readonly #adder: LocalOptimizer;

  /** In the planner's arena. Throws ARENA_FULL. */
  constructor({ arena, kernels, secret }: Pick<RowPlanner, "arena" | "kernels" | "secret">, width: number) {
    this.#arena = arena;
    this.#kernels = kernels;
    this.#rowKernels = simdRowKernels(arena);
    this.#width = width;
    this.#table = kernels.createTable({ payloadBytes: width * FLOAT_BYTES + WORD_BYTES, secret: BigInt(secret) });
    try {
      this.#adder = new LocalOptimizer(arena, resolveOptimizer({ type: "sum" }), width);
    } catch (thrown) {
      kernels.destroyTable(this.#table);
      throw thrown;
    }
  }

  get rowCount(): number {
    return this.#kernels.rowCount(this.#table);
  }

  /**
   * One more update for each of these keys, which differ; so many where `updates` lists how many. Returns the list that
   * `find` would write. Throws ARENA_FULL (PendingUpdates.P1).
   */
  add(keys: number, keyCount: number, gradients: number, memory: ArenaSpans, updates = 0): number {
    const list = memory.take(keyCount * WORD_BYTES);
    if (this.#kernels.findOrInsertRows(this.#table, keys, keyCount, list) !== DONE) {
      throw arenaFull(this.#arena, `pending updates of ${keyCount} rows`);
    }
    const { words } = this.#arena;
    for (let at = list >>> 2, end = at + keyCount; at < end; at++) words[at]! += ROW_KEY_BYTES;
    this.#adder.apply(list, keyCount, gradients);
    this.#rowKernels.addWords(list, keyCount, this.#width * FLOAT_BYTES, updates);
    return list;
  }

  /** Makes removed rows pending again, beside newer ones; returns how many. Throws ARENA_FULL, nothing changed. */
  putBack({ keys, gradients, updates }: TakenUpdates, memory: ArenaSpans): number {
    const [keysAt, gradientsAt, updatesAt] = [keys, gradients, updates].map(({ buffer, byteOffset, byteLength }) => {
      const address = memory.take(byteLength);
      this.#arena.bytes.set(new Uint8Array(buffer, byteOffset, byteLength), address);
      return address;
    }) as [number, number, number];
    this.add(keysAt, keys.length, gradientsAt, memory, updatesAt);
    return keys.length;
  }

  /** Lists where each key's gradients lie, 0 for none; returns how many have none. Valid until `add` or `remove`. */
  find(keys: number, keyCount: number, list: number): number {
    return this.#rowKernels.findValues(this.#table, keys, keyCount, this.#width * FLOAT_BYTES, list, 0);
  }

  /** How many updates the gradients at this address, from a list, sum up. */
  updatesAt(gradients: number): number {
    return this.#arena.words[(gradients >>> 2) + this.#width] as number;
  }

  /** Copies the gradients of listed rows, one after the other; a list without 0. */
  readGradients(list: number, rowCount: number, out: number): void {
    this.#rowKernels.readRows(list, rowCount, 0, this.#width * FLOAT_BYTES, out);
  }

  /** PendingUpdates.P2 */
  remove(keys: number, keyCount: number): void {
    this.#kernels.removeRows(this.#table, keys, keyCount);
  }

  /** Writes all keys at an address with room for `rowCount` of them. */
  copyKeys(out: number, memory: ArenaSpans): void {
    const cursor = memory.take(CURSOR_BYTES);
    const list = memory.take(LIST_ROWS_MAX * WORD_BYTES);
    this.#kernels.zero(cursor, CURSOR_BYTES);
    let to = out;
    for (let count = this.#kernels.listRows(this.#table, cursor, list); count >= 0; ) {
      this.#rowKernels.readRows(list, count, 0, KEY_BYTES, to);
      to += count * KEY_BYTES;
      count = this.#kernels.listRows(this.#table, cursor, list);
    }
  }

  close(): void {
    this.#kernels.destroyTable(this.#table);
    this.#adder.close();
  }
}
