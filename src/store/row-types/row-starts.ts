// row-starts — what new rows of other types than f32 begin with: what their row type makes, or what the initializer
// draws, which is f32 widened. A row's key and the parameter alone decide it (TableStore.T3).

import type { Arena } from "../../kernel/arena.ts";
import { addRows } from "../../kernel/element-loops.ts";
import { elementsAt, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { Initializer } from "../initializers/initializer.ts";
import type { RowInitializer } from "../updaters/parameter-updater.ts";
import type { PsRowType } from "./ps-row-type.ts";

export type RowStartsOptions = {
  readonly arena: Arena;
  readonly initializer: Initializer;
  readonly element: RowElement;
  /** Elements of a row. */
  readonly width: number;
  /** What every row begins with, of a row type that says so. */
  readonly made?: RowArray | undefined;
};

export function rowStarts({ arena, initializer, element, width, made }: RowStartsOptions): RowInitializer {
  const { bytes, isFloat } = ROW_ELEMENTS[element];
  const elements = elementsAt(element, arena.memory.buffer, 0, arena.bytes.length / bytes) as Float64Array; // of its own kind
  const { spec, kernels, recipe } = initializer;
  const same = made ?? (spec.type === "constant" ? constantRow(element, width, spec.value) : undefined);
  const initializeRows = (_recipe: number, rows: number, keys: number, rowCount: number): void => {
    const startOf = (i: number): number => (arena.words[(rows >>> 2) + i] as number) / bytes;
    if (same !== undefined) {
      for (let i = 0; i < rowCount; i++) elements.set(same as Float64Array, startOf(i));
      return;
    }
    kernels.initializeRows(recipe, rows, keys, rowCount, width); // into the first half of each row
    if (!isFloat || element === "f32") return;
    for (let i = 0; i < rowCount; i++) {
      const start = startOf(i);
      for (let j = width - 1; j >= 0; j--) elements[start + j] = arena.floats[2 * start + j] as number;
    }
  };
  return { recipe, kernels: { initializeRows } };
}

function constantRow(element: RowElement, width: number, value: number): RowArray {
  if (element === "i64") return new BigInt64Array(width).fill(BigInt(value));
  return new ROW_ELEMENTS[element].Array(new ArrayBuffer(width * ROW_ELEMENTS[element].bytes)).fill(value as never);
}

/** Numbers side by side, which add up: integers wrap around. */
function numbers<E extends RowElement>(element: E): PsRowType<E> {
  return { kind: "rowType", name: element, version: 1, deterministic: true, element, elements: (dim) => dim, add: addRows, apply: addRows };
}

/** Behind the same interface as users' own. Kernels add, join and update rows of f32, and do the same. */
export const BUILT_IN_ROW_TYPES: { readonly [E in RowElement]: PsRowType<E> } = {
  f32: numbers("f32"),
  f64: numbers("f64"),
  i32: numbers("i32"),
  i64: numbers("i64"),
};
