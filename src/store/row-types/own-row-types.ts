// own-row-types — f32, f64, i32 and i64 as row types, behind the same interface as users' own. Rows of f32 are added,
// joined and updated by kernels, which do the same.

import { addRows } from "../../kernel/element-loops.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import type { PsRowType } from "./ps-row-type.ts";

/** Numbers side by side, which add up: integers wrap around. */
function numbers<E extends RowElement>(element: E): PsRowType<E> {
  return { kind: "rowType", name: element, version: 1, deterministic: true, element, elements: (dim) => dim, add: addRows, apply: addRows };
}

export const OWN_ROW_TYPES: { readonly [E in RowElement]: PsRowType<E> } = {
  f32: numbers("f32"),
  f64: numbers("f64"),
  i32: numbers("i32"),
  i64: numbers("i64"),
};
