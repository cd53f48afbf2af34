// fold-line — breaks a line between words, and after commas, where a terminal would break it anywhere. Pure.

import { stripVTControlCharacters } from "node:util";

/** Lines of at most `columns` characters that are seen, unless a word is longer; those after the first begin with `indent` more spaces than it does. */
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
