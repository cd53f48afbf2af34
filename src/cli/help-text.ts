// help-text — what a command's help says after its options, in lines that fit the terminal as commander's own do. Not for the options themselves.

import type { AddHelpTextContext } from "commander";

const WIDTH = 80;
/** Wider lines are hard to read. */
const WIDTH_MAX = 140;

/** For `addHelpText("after", …)`. */
export function helpText(text: string): (context: AddHelpTextContext) => string {
  return ({ command, error }) => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    return wrapHelp(text, (error ? getErrHelpWidth : getOutHelpWidth)?.() ?? WIDTH);
  };
}

/**
 * Paragraphs are filled anew. A line that begins with spaces stands by itself; what it has too much goes on below its last column. Commands, after "$",
 * stay whole: they are there to be copied.
 */
export function wrapHelp(text: string, width: number): string {
  const lines = text.replaceAll(/(?<=\S)\n(?=[^\s])/g, " ").split("\n"); // a line break inside a paragraph is a space
  return lines.flatMap((line) => (/^ *\$ /.test(line) ? [line] : wrapLine(line, Math.min(width, WIDTH_MAX)))).join("\n");
}

function wrapLine(line: string, width: number): string[] {
  const { 0: head = "" } = /^ *(?:\S+ {2,})?/.exec(line) ?? [];
  const indent = line.startsWith(" ") ? head.length : 0;
  const lines: string[] = [];
  let current = line.slice(0, indent);
  for (const word of line.slice(indent).split(" ")) {
    const isFirst = current.length === indent;
    if (!isFirst && current.length + 1 + word.length > width) {
      lines.push(current);
      current = `${" ".repeat(indent)}${word}`;
    } else current += isFirst ? word : ` ${word}`;
  }
  return [...lines, current];
}
