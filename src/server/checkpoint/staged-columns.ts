// staged-columns — rows of a table on their way between the table and a checkpoint: column after column in a span of
// the arena, where plug-ins may change them.

import type { Arena } from "../../kernel/arena.ts";
import { elementsAt, ROW_ELEMENTS } from "../../kernel/row-element.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import type { SavedColumns } from "../../store/row-types/ps-row-type.ts";
import { elementOf } from "../../store/row-types/row-type-spec.ts";
import { isSaved } from "../../store/snapshot/describe-parameter.ts";
import { type ColumnRecord, columnBytesPerRow, KEYS_COLUMN } from "../../store/snapshot/parameter-record.ts";
import type { TakenColumn } from "../../store/table-freeze.ts";

export type StagedColumn = TakenColumn & { readonly name: string };

/**
 * Where the columns of a table's rows lie in a row, counted from its values, and in a span of `rowsMax` rows, column
 * after column; those that are not saved take no room there.
 */
export function stagedColumns(columns: readonly ColumnRecord[], span: number, rowsMax: number): readonly StagedColumn[] {
  let [offset, address] = [0, span];
  return columns.map((column) => {
    const byteCount = columnBytesPerRow(column);
    const isKey = column.name === KEYS_COLUMN;
    const staged = { name: column.name, byteCount, address, offset: isKey ? -byteCount : offset };
    if (isSaved(column.name)) address += rowsMax * byteCount;
    if (!isKey) offset += byteCount;
    return staged;
  });
}

/** Staged rows of a table, as plug-ins get them: without keys. */
export function columnsInHand(arena: Arena, spec: TableSpec, columns: readonly StagedColumn[], count: number): SavedColumns {
  const element = elementOf(spec);
  const views = columns
    .filter(({ name }) => name !== KEYS_COLUMN)
    .map(
      ({ name, address, byteCount }) =>
        [name, elementsAt(element, arena.memory.buffer, address, (count * byteCount) / ROW_ELEMENTS[element].bytes)] as const,
    );
  return { count, columns: Object.fromEntries(views) };
}
