// built-in-row-types — the row types that every server has, behind the same interface as users' own (ps-row-type.ts):
// numbers side by side, sparse rows by column and by weight, and rows of products (docs/decisions/0057-table-rows.md).

import { addRows } from "../../kernel/element-loops.ts";
import { ELEMENT_NAMES, type RowElement, rowNumber } from "../../kernel/row-element.ts";
import { ColumnUpdates, columnRowType, eachSpan, type RowPlace, type UpdateOf } from "./column-updates.ts";
import type { PsRowType } from "./ps-row-type.ts";
import { SparseRows, sparseElements } from "./sparse-rows.ts";

type RowTypeOfEach = { readonly [E in RowElement]: PsRowType<E> };

/** Numbers side by side, which add up; integers wrap around. Kernels do the same with rows of f32. */
function numbers<E extends RowElement>(dtype: E): PsRowType<E> {
  return { kind: "rowType", name: dtype, version: 1, deterministic: true, dtype, elements: (dim) => dim, add: addRows, apply: addRows };
}

function identityOf<E extends RowElement>(
  kind: string,
  dtype: E,
): { readonly name: string; readonly version: number; readonly deterministic: boolean; readonly dtype: E } {
  return { name: `${kind}.${dtype}`, version: 1, deterministic: true, dtype };
}

/** Rows stand by column or by weight, updates by column. */
function sparseRows<E extends RowElement>(kind: string, element: E, order: "column" | "weight"): PsRowType<E> {
  const [rows, updates] = [new SparseRows(element, order), new SparseRows(element)];
  const zero = rowNumber(element, 0) as never;
  const assign = (row: RowPlace<E>, given: RowPlace<E>): void => {
    updates.checkUpdate(given);
    row.cells.fill(zero, row.start, row.start + row.length);
    rows.add(row, given);
  };
  return {
    ...identityOf(kind, element),
    kind: "rowType",
    elements: (dim) => sparseElements(element, dim),
    add: (sums, more) => eachSpan(sums, more, (sum, update) => updates.add(sum, update)),
    apply: (targets, pushed) => eachSpan(targets, pushed, (row, update) => rows.add(row, update)),
    decode: (targets, given) => eachSpan(targets, given, assign),
  };
}

/** Updates are factors; integers wrap around. */
export function factorUpdates<E extends RowElement>(element: E): ColumnUpdates<E> {
  return new ColumnUpdates({
    element,
    neutral: rowNumber(element, 1),
    apply: multiplyColumn,
    addUpdates: (a, b) => productOf(element, a, b),
  });
}

/** What a factor does to a column. */
export function multiplyColumn<E extends RowElement>({ cells, start }: RowPlace<E>, column: number, factor: UpdateOf<E>): void {
  const at = start + column;
  cells[at] = (
    cells instanceof Int32Array ? Math.imul(cells[at] as number, factor as number) : (cells[at] as number) * (factor as number)
  ) as never;
}

function productOf<E extends RowElement>(element: E, a: UpdateOf<E>, b: UpdateOf<E>): UpdateOf<E> {
  return (element === "i32" ? Math.imul(a as number, b as number) : (a as number) * (b as number)) as UpdateOf<E>;
}

/** Rows begin with 1 in every column. */
function products<E extends RowElement>(element: E): PsRowType<E> {
  const one = rowNumber(element, 1) as never;
  return columnRowType({
    ...identityOf("multiplicative", element),
    updates: factorUpdates(element),
    elements: (dim) => dim,
    zero: ({ cells, start, length }) => cells.fill(one, start, start + length),
  });
}

function ofEach(make: <E extends RowElement>(element: E) => PsRowType<E>): RowTypeOfEach {
  return Object.fromEntries(ELEMENT_NAMES.map((element) => [element, make(element)])) as unknown as RowTypeOfEach;
}

export const PLAIN_ROW_TYPES: RowTypeOfEach = ofEach(numbers);

export const TABLE_ROW_TYPES: Readonly<Record<"sparse" | "sorted" | "multiplicative", RowTypeOfEach>> = {
  sparse: ofEach((element) => sparseRows("sparse", element, "column")),
  sorted: ofEach((element) => sparseRows("sorted", element, "weight")),
  multiplicative: ofEach(products),
};

const BY_NAME: ReadonlyMap<string, PsRowType> = new Map(
  Object.values(TABLE_ROW_TYPES).flatMap((types) => Object.values(types).map((type) => [type.name, type as unknown as PsRowType])),
);

/** One of TABLE_ROW_TYPES by its name. */
export function tableRowTypeOf(name: string): PsRowType | undefined {
  return BY_NAME.get(name);
}
