// row-starts — what new rows of other types than f32 begin with: what their row type makes, or what the initializer
// draws, which is f32 widened. A row's key and the parameter alone decide it (TableStore.T3).

import type { Arena } from "../../kernel/arena.ts";
import { elementsAt, fillElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { Initializer } from "../initializers/initializer.ts";
import type { RowInitializer } from "../updaters/parameter-updater.ts";

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
  // Of its own kind.
  const elements = elementsAt(element, arena.memory.buffer, 0, arena.bytes.length / bytes) as Float64Array;
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
  const row = elementsAt(element, new ArrayBuffer(width * ROW_ELEMENTS[element].bytes), 0, width);
  fillElements(row, value);
  return row;
}
