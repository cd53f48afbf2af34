// text-table — rows of cells as lines whose columns stand under each other. Pure.

export type TextRow = readonly string[];

export type TextTable = {
  readonly head: TextRow;
  readonly rows: readonly TextRow[];
  /** Heads of columns of numbers, which end together. */
  readonly rightAligned: ReadonlySet<string>;
};

/** "1 server", "2 servers". */
export function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function textTable({ head, rows, rightAligned }: TextTable): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number): string => {
    const width = widths[column] ?? 0;
    return rightAligned.has(head[column] ?? "") ? cell.padStart(width) : cell.padEnd(width);
  };
  return all.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}
