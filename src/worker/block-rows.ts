// block-rows — the rows of a tensor that one call names, each once and by its block. Rows that ascend already are sent
// as they are, from and to the caller's own arrays. For others a plan (router/row-plan.ts) sums gradients to match, and
// brings pulled rows back to where the caller named them.
//
//   caller's rows ─► ascending, each once ─► cut where a block ends ─► groups
//
// Invariants:
//   BlockRows.B1. Every row is sent once, as RowPlan.R1 says.
//   BlockRows.B2. A row that the tensor does not have is refused before anything is sent. Rows are exact up to 2^53.
//   BlockRows.B3. Sums and the rows of answers lie in spans of the worker's arena, whose owner keeps them until no call
//       is open: memory that is new for every call would cost more page faults than its rows take to travel.

import { showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import type { ArenaSpans } from "./arena-spans.ts";
import { listLength } from "./key-lists.ts";
import type { RowPlan, RowPlanner } from "./router/row-plan.ts";

/** Rows of a tensor, as a caller may name them. */
export type RowList = Uint32Array | Int32Array | BigUint64Array | readonly number[];

/** The rows of one block: their indexes in it, and their positions among all unique rows of the call. */
export type RowGroup = { readonly block: number; readonly rows: Uint32Array; readonly from: number; readonly to: number };

/** What the rows of a tensor are planned with; `spans`: what the plan takes of the planner's arena (BlockRows.B3). */
export type RowPlanning = { readonly planner: RowPlanner; readonly spans: ArenaSpans };

const WORD_VALUES = 2 ** 32;

export class BlockRows {
  /** By ascending block. */
  readonly groups: readonly RowGroup[];
  /** Rows that travel. */
  readonly rowCount: number;
  /** Undefined when every row stands where it is sent. */
  readonly #plan: RowPlan | undefined;

  /** Throws OUT_OF_RANGE (BlockRows.B2), ARENA_FULL; UNSUPPORTED for a tensor whose rows are longer than a block. */
  constructor(rows: RowList, shape: TensorShape, name: string, { planner, spans }: RowPlanning) {
    if (!shape.hasRows) throw unsupported(`${name} has rows of ${shape.width} elements, too long for calls by row: push and pull it whole`);
    const given = checkedRows(rows, shape, name);
    this.#plan = ascends(given) ? undefined : planner.plan(keysOf(given), true, spans);
    const unique = this.#plan === undefined ? given : rowsOf(this.#plan);
    this.rowCount = unique.length;
    this.groups = groupsOf(unique, shape);
  }

  /** Gradients for each unique row: the caller's own array if nothing had to be done. Throws ARENA_FULL. */
  gradients(values: Float32Array, width: number, merge?: MergeNumber): Float32Array {
    return this.#plan?.gradients(values, width, merge) ?? values;
  }

  /**
   * Where the unique rows land, one after the other; `deliver` brings them to the caller's array. Throws ARENA_FULL.
   */
  landing(into: Float32Array, width: number): Float32Array {
    return this.#plan?.landing(into, width) ?? into;
  }

  /** Brings the rows that have landed to wherever the caller named them in `into`. Throws ARENA_FULL. */
  deliver(landed: Float32Array, into: Float32Array, width: number): void {
    this.#plan?.deliver(landed, into, width);
  }
}

/** BlockRows.B2 */
function checkedRows(rows: RowList, { rowCount }: TensorShape, name: string): Float64Array {
  const length = listLength(rows, name);
  const checked = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const given: unknown = rows[i];
    const row = typeof given === "bigint" ? Number(given) : given;
    if (!(typeof row === "number" && row >= 0 && row < rowCount && Number.isInteger(row))) {
      throw new WeighbridgeError("OUT_OF_RANGE", `${name} has rows 0 to ${rowCount - 1}; there is no row ${showValue(given)}`);
    }
    checked[i] = row;
  }
  return checked;
}

function ascends(rows: Float64Array): boolean {
  for (let i = 1; i < rows.length; i++) if ((rows[i] as number) <= (rows[i - 1] as number)) return false;
  return true;
}

/** The same rows as keys of a plan. */
function keysOf(rows: Float64Array): BigUint64Array {
  const words = new Uint32Array(2 * rows.length);
  for (let i = 0; i < rows.length; i++) {
    words[2 * i] = rows[i] as number; // modulo 2^32
    words[2 * i + 1] = (rows[i] as number) / WORD_VALUES;
  }
  return new BigUint64Array(words.buffer);
}

/** The rows of a plan: all of them are one part. */
function rowsOf({ parts }: RowPlan): Float64Array {
  const { buffer, byteOffset, length } = parts[0]?.keys ?? new BigUint64Array(0);
  const words = new Uint32Array(buffer, byteOffset, 2 * length);
  const rows = new Float64Array(length);
  for (let i = 0; i < length; i++) rows[i] = (words[2 * i] as number) + (words[2 * i + 1] as number) * WORD_VALUES;
  return rows;
}

function groupsOf(rows: Float64Array, shape: TensorShape): RowGroup[] {
  const groups: RowGroup[] = [];
  for (let from = 0; from < rows.length; ) {
    const block = shape.blockOfRow(rows[from] as number);
    const first = block * shape.rowsPerBlock;
    let to = from;
    while (to < rows.length && (rows[to] as number) < first + shape.rowsPerBlock) to++;
    const within = new Uint32Array(to - from);
    for (let i = from; i < to; i++) within[i - from] = (rows[i] as number) - first;
    groups.push({ block, rows: within, from, to });
    from = to;
  }
  return groups;
}
