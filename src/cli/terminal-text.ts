// terminal-text — text for a terminal: tables, wrapped lines, numbers and bars. Widths are in columns (text-width.ts).

import { cutText, padEnd, padStart, widthOf } from "./text-width.ts";

export type TextRow = readonly string[];

export type TextTable = {
  readonly head: TextRow;
  readonly rows: readonly TextRow[];
  /** Heads of the columns to align on the right. */
  readonly rightAligned: ReadonlySet<string>;
  /** Of the terminal; left out: there is none that would break lines. */
  readonly columns?: number | undefined;
  /**
   * The first column has names, which are cut down to CUT_COLUMNS_MIN where lines would not fit, before other cells are
   * broken; then so are words that are too long.
   */
  readonly mayCut?: boolean;
};

const CUT_COLUMNS_MIN = 8;

/** Where a line may be broken: behind spaces and commas. */
const BREAK = /(?<=[ ,])(?! )/;

/** Of a terminal that does not tell its width. */
export const COLUMNS_DEFAULT = 80;

/** Of standard output. */
export function terminalColumns(): number {
  return columnsOf(process.stdout);
}

/** Infinity if no terminal breaks lines: the output that scripts read never wraps. */
export function columnsOf({ isTTY, columns }: { readonly isTTY: boolean; readonly columns: number }): number {
  return isTTY ? columns || COLUMNS_DEFAULT : Infinity;
}

/** "1 server", "2 servers". */
export function countText(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * At most `columns` wide, unless words are longer: cells are broken between words into several lines, those of the
 * widest columns first. The first column stays whole, and so do numbers.
 */
export function textTable({ head, rows, rightAligned, columns = Infinity, mayCut = false }: TextTable): string {
  const all = [head, ...rows];
  const isRight = head.map((name) => rightAligned.has(name));
  const widths = columnWidths({ all, isRight, columns, mayCut });
  return all.flatMap((row) => rowLines(row, { widths, isRight, mayCut })).join("\n");
}

type Widths = {
  readonly all: readonly TextRow[];
  readonly isRight: readonly boolean[];
  readonly columns: number;
  readonly mayCut: boolean;
};

function columnWidths({ all, isRight, columns, mayCut }: Widths): number[] {
  const widest = (column: number, widthIn: (cell: string) => number): number => Math.max(...all.map((row) => widthIn(row[column] ?? "")));
  const whole = isRight.map((_, column) => widest(column, widthOf));
  const words = whole.map((width, column) => (column === 0 || isRight[column] ? width : widest(column, longestWord)));
  const cut = (widths: readonly number[], isCut: (column: number) => boolean): number[] =>
    widths.map((width, column) => (isCut(column) ? Math.min(width, CUT_COLUMNS_MIN) : width));
  const isName = (column: number): boolean => column === 0;
  const steps = mayCut ? [cut(whole, isName), cut(words, isName), cut(words, (column) => !isRight[column])] : [words];
  return steps.reduce((widths, least) => shrunk(widths, least, columns), whole);
}

/** One column of the widest at a time, until the line fits or all are as narrow as they may be. */
function shrunk(from: readonly number[], least: readonly number[], columns: number): number[] {
  const widths = [...from];
  for (let excess = sum(widths) + GAP.length * (widths.length - 1) - columns; excess > 0; excess--) {
    const slack = widths.map((width, column) => (width > (least[column] ?? 0) ? width : 0));
    const widestColumn = slack.indexOf(Math.max(...slack));
    if (slack[widestColumn] === 0) break;
    widths[widestColumn]!--;
  }
  return widths;
}

type RowLayout = { readonly widths: readonly number[]; readonly isRight: readonly boolean[]; readonly mayCut: boolean };

function rowLines(row: TextRow, { widths, isRight, mayCut }: RowLayout): string[] {
  const cells = widths.map((width, column) => {
    const cell = row[column] ?? "";
    const lines = mayCut && column === 0 ? [cell] : foldLine(cell, { columns: width, indent: 0 });
    return mayCut ? lines.map((line) => cutText(line, width)) : lines;
  });
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, line) =>
    cells
      .map((lines, column) => (isRight[column] ? padStart : padEnd)(lines[line] ?? "", widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

const GAP = "  ";

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

function longestWord(cell: string): number {
  return Math.max(...cell.split(BREAK).map((word) => widthOf(word.trimEnd())));
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
  for (const piece of line.trimStart().split(BREAK)) {
    if (current.trim() !== "" && widthOf((current + piece).trimEnd()) > columns) {
      lines.push(current.trimEnd());
      current = margin + " ".repeat(indent);
    }
    current += piece;
  }
  return [...lines, current.trimEnd()];
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
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => widthOf(row[column] ?? ""))));
  const pad = (cell: string, column: number): string => (column === 0 ? padEnd(cell, widths[0] ?? 0) : padStart(cell, widths[column] ?? 0));
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
