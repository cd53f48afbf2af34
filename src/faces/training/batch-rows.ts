// batch-rows — the rows of one batch as this worker needs them: its ids, each distinct one once and by the worker that owns it, and the slots in which they lie
// when they have come.
//
//   ids ─► those that name rows ─► distinct, by owner: row 0, 1, 2 … ─► a slot for each row ─► a slot for each id
//
// Invariants:
//   A1. Rows of one owner stand side by side, owners by rank.

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { RowPlan, RowPlanner } from "../../worker/router/row-plan.ts";
import { NO_SLOT } from "./row-source.ts";

const WORD_BYTES = 4;

/** The rows from `from` up to `to`, of one owner. */
export type BatchRowsPart = { readonly from: number; readonly to: number };

export class BatchRows {
  readonly ids: Float64Array;
  /** Ids that name rows, repeated ones included. */
  readonly namedCount: number;
  readonly rowCount: number;
  /** One for each member, some perhaps empty. */
  readonly parts: readonly BatchRowsPart[];
  /** The slot of each row; to be set when they have come. */
  readonly rowSlots: Int32Array;
  readonly #arena: Arena;
  readonly #plan: RowPlan | undefined;

  /** Rows are below `rowCountMax`. Plans with the members' placement. Throws ARENA_FULL. */
  constructor(planner: RowPlanner, ids: ArrayLike<number>, rowCountMax: number) {
    this.#arena = planner.arena;
    this.ids = new Float64Array(ids);
    const halves = new Uint32Array(2 * ids.length);
    let count = 0;
    for (let i = 0; i < this.ids.length; i++) {
      const id = this.ids[i] as number;
      if (!isRow(id, rowCountMax)) continue;
      halves[2 * count] = id; // modulo 2^32
      halves[2 * count + 1] = id / 2 ** 32;
      count++;
    }
    this.namedCount = count;
    this.#plan = count === 0 ? undefined : planner.plan(new BigUint64Array(halves.buffer, 0, count));
    this.rowCount = this.#plan?.rowCount ?? 0;
    this.parts = partsOf(this.#plan, planner);
    this.rowSlots = new Int32Array(this.rowCount).fill(NO_SLOT);
  }

  /** Whether a batch is this one. */
  isOf(ids: ArrayLike<number>): boolean {
    if (ids.length !== this.ids.length) return false;
    for (let i = 0; i < ids.length; i++) if (!Object.is(ids[i], this.ids[i])) return false;
    return true;
  }

  /** Where the keys of the rows lie in the arena, until `release`. */
  get keysAddress(): number {
    return this.#plan?.keysAddress ?? 0;
  }

  /** The keys of an owner's rows, as low and high halves. */
  keysOf({ from, to }: BatchRowsPart): Uint32Array {
    const at = this.keysAddress >>> 2;
    return this.#arena.words.subarray(at + 2 * from, at + 2 * to) as Uint32Array;
  }

  /** The slot of each id, once those of the rows are set. */
  idSlots(rowCountMax: number): Int32Array {
    const slots = new Int32Array(this.ids.length).fill(NO_SLOT);
    const plan = this.#plan;
    if (plan === undefined) return slots;
    const list = this.#arena.allocate(this.rowCount * WORD_BYTES);
    new Int32Array(this.#arena.memory.buffer, list, this.rowCount).set(this.rowSlots);
    const named = new Int32Array(this.#arena.memory.buffer, plan.wordsForCaller(list), this.namedCount);
    if (this.namedCount === slots.length) slots.set(named);
    else {
      let at = 0;
      for (let i = 0; i < slots.length; i++) if (isRow(this.ids[i] as number, rowCountMax)) slots[i] = named[at++] as number;
    }
    this.#arena.release(list, this.rowCount * WORD_BYTES);
    return slots;
  }

  /** Gives the plan's memory back: of the keys only the slots remain. */
  release(): void {
    this.#plan?.release();
  }
}

function isRow(id: number, rowCountMax: number): boolean {
  return id >= 0 && id < rowCountMax && Number.isInteger(id);
}

function partsOf(plan: RowPlan | undefined, { ranks }: RowPlanner): BatchRowsPart[] {
  let at = 0;
  return ranks.map((rank) => {
    const part = plan?.parts.find(({ server }) => server === rank);
    assert(part === undefined || part.from === at, "A1");
    const from = at;
    at += part?.keys.length ?? 0;
    return { from, to: at };
  });
}
