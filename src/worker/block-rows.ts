// block-rows — the rows of a tensor that one call names, each once and by its block: gradients summed to match, pulled
// rows brought back to where the caller named them. Rows that ascend already need none of that and travel from and to
// the caller's own arrays.
//
//   caller's rows ─► sorted, equal ones side by side ─► unique rows, cut where a block ends ─► groups
//
// Invariants:
//   BlockRows.B1. Every row is sent once; the gradients of its occurrences were added in the order of the list. Of
//       values (assign, min, max) the last, the least or the greatest is sent.
//   BlockRows.B2. A row that the tensor does not have is refused before anything is sent. Rows are exact up to 2^53.
//   BlockRows.B3. Sums and the rows of answers lie in spans of the worker's arena, whose owner keeps them until no call
//       is open: memory that is new for every call would cost more page faults than its rows take to travel.

import { showValue, WeighbridgeError } from "../base/errors.ts";
import type { MergeNumber } from "../kernel/duplicate-kernels.ts";
import { OPTIMIZER } from "../kernel/optimizer-kernels.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import type { ArenaSpans } from "./arena-spans.ts";
import { listLength } from "./key-lists.ts";

/** Rows of a tensor, as a caller may name them. */
export type RowList = Uint32Array | Int32Array | BigUint64Array | readonly number[];

/** The rows of one block: their indexes in it, and their positions among all unique rows of the call. */
export type RowGroup = { readonly block: number; readonly rows: Uint32Array; readonly from: number; readonly to: number };

const EXACT_MAX = 2 ** 53;
const VIEW_WIDTH_MIN = 64;

export class BlockRows {
  /** By ascending block. */
  readonly groups: readonly RowGroup[];
  /** Rows that travel. */
  readonly rowCount: number;
  /** The caller's positions, those of one row side by side; undefined when every row stands where it is sent. */
  readonly #positions: Uint32Array | undefined;
  /** Where the positions of each row begin, and at the end their number. */
  readonly #starts: Uint32Array;
  /** BlockRows.B3 */
  readonly #spans: ArenaSpans;

  /** Throws OUT_OF_RANGE (BlockRows.B2); UNSUPPORTED for a tensor whose rows are longer than a block. */
  constructor(rows: RowList, shape: TensorShape, name: string, spans: ArenaSpans) {
    this.#spans = spans;
    if (!shape.hasRows) {
      const text = `${name} has rows of ${shape.width} elements, too long for calls by row: push and pull it whole`;
      throw new WeighbridgeError("UNSUPPORTED", text);
    }
    const given = checkedRows(rows, shape, name);
    this.#positions = ascends(given) ? undefined : sortedPositions(given);
    this.#starts = new Uint32Array(given.length + 1);
    const unique = this.#positions === undefined ? given : uniqueRows(given, this.#positions, this.#starts);
    this.rowCount = unique.length;
    this.groups = groupsOf(unique, shape);
  }

  /** Whether the caller's arrays can be sent and filled as they are. */
  get isAsGiven(): boolean {
    return this.#positions === undefined;
  }

  /**
   * Gradients for each unique row: the caller's own array if nothing had to be done (BlockRows.B1). Throws ARENA_FULL.
   */
  gradients(values: Float32Array, width: number, merge?: MergeNumber): Float32Array {
    if (this.#positions === undefined) return values;
    const sums = this.#spans.takeFloats(this.rowCount * width);
    const occurrences = { positions: this.#positions, starts: this.#starts, width };
    if (merge === undefined) sumRows(values, occurrences, sums);
    else mergeRows(values, occurrences, sums, MERGES[merge]);
    return sums;
  }

  /**
   * Where the unique rows land, one after the other; `deliver` brings them to the caller's array. Throws ARENA_FULL.
   */
  landing(into: Float32Array, width: number): Float32Array {
    return this.#positions === undefined ? into : this.#spans.takeFloats(this.rowCount * width);
  }

  /** Brings the rows of a group, one after the other in `rows`, to wherever the caller named them in `into`. */
  deliver({ from, to }: RowGroup, rows: Float32Array, into: Float32Array, width: number): void {
    const positions = this.#positions;
    if (positions === undefined) return;
    for (let row = from; row < to; row++) {
      const end = this.#starts[row + 1] as number;
      for (let i = this.#starts[row] as number; i < end; i++)
        copyRow(rows, (row - from) * width, width, into, (positions[i] as number) * width);
    }
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

/** The positions of the list by their rows, and of equal rows by themselves. */
function sortedPositions(rows: Float64Array): Uint32Array {
  const { length } = rows;
  let rowMax = 0;
  for (const row of rows) if (row > rowMax) rowMax = row;
  if ((rowMax + 1) * length > EXACT_MAX) {
    return Uint32Array.from(rows, (_, i) => i).sort((a, b) => (rows[a] as number) - (rows[b] as number) || a - b);
  }
  const pairs = new Float64Array(length); // row and position in one number: sorting numbers needs no callback
  for (let i = 0; i < length; i++) pairs[i] = (rows[i] as number) * length + i;
  pairs.sort();
  const positions = new Uint32Array(length);
  for (let i = 0; i < length; i++) positions[i] = (pairs[i] as number) % length;
  return positions;
}

/** The rows without repetitions; fills `starts`. */
function uniqueRows(rows: Float64Array, positions: Uint32Array, starts: Uint32Array): Float64Array {
  const unique = new Float64Array(positions.length);
  let count = 0;
  for (let i = 0; i < positions.length; i++) {
    const row = rows[positions[i] as number] as number;
    if (count > 0 && row === unique[count - 1]) continue;
    unique[count] = row;
    starts[count++] = i;
  }
  starts[count] = positions.length;
  return unique.subarray(0, count);
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

const MERGES: Readonly<Record<MergeNumber, (one: number, other: number) => number>> = {
  [OPTIMIZER.assign]: (_, last) => last,
  [OPTIMIZER.min]: Math.min,
  [OPTIMIZER.max]: Math.max,
};

/** Where the rows of one call stand: the positions of row r are those from starts[r] on. */
type Occurrences = { readonly positions: Uint32Array; readonly starts: Uint32Array; readonly width: number };

/** sums[r] = the sum of the rows at the positions of r, in their order. */
function sumRows(values: Float32Array, { positions, starts, width }: Occurrences, sums: Float32Array): void {
  for (let to = 0, row = 0; to < sums.length; to += width, row++) {
    const end = starts[row + 1] as number;
    for (let i = starts[row] as number, isFirst = true; i < end; i++, isFirst = false) {
      const from = (positions[i] as number) * width;
      if (isFirst) copyRow(values, from, width, sums, to);
      else for (let j = 0; j < width; j++) sums[to + j] = (sums[to + j] as number) + (values[from + j] as number);
    }
  }
}

/** As `sumRows`, with another way to make one of two. */
function mergeRows(
  values: Float32Array,
  { positions, starts, width }: Occurrences,
  merged: Float32Array,
  merge: (one: number, other: number) => number,
): void {
  for (let to = 0, row = 0; to < merged.length; to += width, row++) {
    const [start, end] = [starts[row] as number, starts[row + 1] as number];
    copyRow(values, (positions[start] as number) * width, width, merged, to);
    for (let i = start + 1; i < end; i++) {
      const from = (positions[i] as number) * width;
      for (let j = 0; j < width; j++) merged[to + j] = merge(merged[to + j] as number, values[from + j] as number);
    }
  }
}

/** Long rows are worth a view each, short ones are not. */
function copyRow(source: Float32Array, from: number, width: number, target: Float32Array, to: number): void {
  if (width >= VIEW_WIDTH_MIN) target.set(source.subarray(from, from + width), to);
  else for (let j = 0; j < width; j++) target[to + j] = source[from + j] as number;
}
