// row-joins — makes one update of several for the same row, for rows that no SIMD kernel adds: those of other elements
// than f32, and of users' row types. As `sumDuplicates` of duplicate-kernels.ts; one call adds a list of pairs.

import { reasonAndSite, WeighbridgeError } from "../base/errors.ts";
import type { Arena } from "./arena.ts";
import type { MergeNumber, RowJoin } from "./duplicate-kernels.ts";
import { copyRows, takeGreater, takeLesser } from "./element-loops.ts";
import { OPTIMIZER } from "./optimizer-kernels.ts";
import { elementsAt, ROW_ELEMENTS, type RowElement, type RowSpans } from "./row-element.ts";

type RowJoinOptions = {
  readonly arena: Arena;
  readonly element: RowElement;
  /** Elements of a row. */
  readonly width: number;
  /** For updates that are values. */
  readonly merge: MergeNumber | undefined;
  /** What others are: a row type, which may be a user's own. */
  readonly rowType: { readonly name: string; add(sums: RowSpans, updates: RowSpans): void };
};

const MERGES: Readonly<Record<MergeNumber, (sums: RowSpans, updates: RowSpans) => void>> = {
  [OPTIMIZER.assign]: copyRows, // the last counts
  [OPTIMIZER.min]: takeLesser,
  [OPTIMIZER.max]: takeGreater,
};

/** Throws HANDLER_FAILED where the row type does; what was to be joined is then of no use. */
export function rowJoin({ arena, element, width, merge, rowType }: RowJoinOptions): RowJoin {
  const { bytes } = ROW_ELEMENTS[element];
  const elements = elementsAt(element, arena.memory.buffer, 0, arena.bytes.length / bytes);
  const add = merge === undefined ? (sums: RowSpans, updates: RowSpans): void => guarded(rowType, sums, updates) : MERGES[merge];
  return ({ rows, keyCount, indexes, rowsTo, known, out }) => {
    const { words } = arena;
    const [sums, updates, first] = [new Uint32Array(keyCount), new Uint32Array(keyCount), new Uint32Array(keyCount)];
    const [source, target] = [rows / bytes, out / bytes];
    const rowAt = (i: number): number => words[((rowsTo === 0 ? indexes : rowsTo) >>> 2) + i] as number;
    let [count, next] = [0, known];
    for (let i = 0; i < keyCount; i++) {
      const index = words[(indexes >>> 2) + i] as number;
      if (index === next) first[next++ - known] = i;
      else {
        sums[count] = index < known ? target + rowAt(i) * width : source + (first[index - known] as number) * width;
        updates[count++] = source + i * width;
      }
    }
    if (count > 0) add({ count, width, elements, starts: sums }, { count, width, elements, starts: updates });
    for (let unique = 0; unique < next - known; unique++) {
      const i = first[unique] as number;
      const from = source + i * width;
      elements.copyWithin(target + rowAt(i) * width, from, from + width);
    }
    return next;
  };
}

function guarded(rowType: RowJoinOptions["rowType"], sums: RowSpans, updates: RowSpans): void {
  try {
    rowType.add(sums, updates);
  } catch (thrown) {
    throw new WeighbridgeError("HANDLER_FAILED", `row type ${JSON.stringify(rowType.name)} cannot add updates: ${reasonAndSite(thrown)}`, {
      cause: thrown,
    });
  }
}
