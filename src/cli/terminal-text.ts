// terminal-text — text for a terminal: tables, wrapped lines, numbers and bars. Pure.

import { stripVTControlCharacters } from "node:util";

export type TextRow = readonly string[];

export type TextTable = {
  readonly head: TextRow;
  readonly rows: readonly TextRow[];
  /** Heads of the columns to align on the right. */
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

/**
 * Lines of at most `columns` visible characters, unless a word is longer; lines after the first are indented by
 * `indent` more spaces.
 */
export function foldLine(line: string, { columns, indent }: { readonly columns: number; readonly indent: number }): string[] {
  if (widthOf(line) <= columns) return [line];
  const margin = " ".repeat(line.length - line.trimStart().length);
  const lines: string[] = [];
  let current = margin;
  for (const piece of line.trimStart().split(/(?<=[ ,])(?! )/)) {
    if (current.trim() !== "" && widthOf((current + piece).trimEnd()) > columns) {
      lines.push(current.trimEnd());
      current = margin + " ".repeat(indent);
    }
    current += piece;
  }
  return [...lines, current.trimEnd()];
}

function widthOf(text: string): number {
  return stripVTControlCharacters(text).length;
}

const FULL = "━";
const HALF = "╸";
const EMPTY = "─";

/** 12345 as "12,345". */
export function number(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ","); // toLocaleString takes 30 ms the first time
}

/** Three digits and a prefix: 12345678 as "12.3 M"; a unit may follow. */
export function compactNumber(value: number): string {
  const prefixes = ["", "k", "M", "G", "T"];
  let scaled = value;
  let prefix = 0;
  for (; scaled >= 999.5 && prefix < prefixes.length - 1; prefix++) scaled /= 1000;
  return `${prefix === 0 ? scaled : scaled.toPrecision(3)} ${prefixes[prefix]}`;
}

export function percent(share: number | undefined, digits = 1): string {
  return share === undefined ? "-" : `${(share * 100).toFixed(digits)} %`;
}

export function barText(share: number, width: number): string {
  const halves = Math.round(Math.min(1, Math.max(0, share)) * width * 2);
  const full = FULL.repeat(halves >> 1) + (halves % 2 === 1 ? HALF : "");
  return full + EMPTY.repeat(width - full.length);
}

/** Rows of cells as lines; the first column is aligned on the left, the others on the right. */
export function columnsText(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const pad = (cell: string, column: number): string => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0));
  return rows.map((row) => row.map(pad).join("   "));
}

export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
