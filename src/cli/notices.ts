// notices — what the command tells a person on standard error, one line each. A terminal gets it folded between words;
// a command at its end stays on one line, so that it can be copied.

import { columnsOf, foldLine } from "./terminal-text.ts";

/** It finds the job from the directory in which the job was started. */
export const STATUS_COMMAND = "npx weighbridge status";
const INDENT = 2;
/** At the end of a notice: "…; name it: weighbridge stop weighbridge://…". */
const COMMAND = /(?<=: )(?:npx )?weighbridge [a-z]+ .*$/;

export function printNotice(text: string): void {
  process.stderr.write(`${noticeText(`weighbridge: ${text}`, columnsOf(process.stderr))}\n`);
}

/** `columns`: of the terminal; Infinity if there is none. */
export function noticeText(text: string, columns: number): string {
  return text
    .split("\n")
    .flatMap((line) => noticeLines(line, columns))
    .join("\n");
}

function noticeLines(line: string, columns: number): string[] {
  const folded = foldLine(line, { columns, indent: INDENT });
  const [command = ""] = COMMAND.exec(line) ?? [];
  if (folded.length === 1 || command === "") return folded;
  return [...foldLine(line.slice(0, -command.length).trimEnd(), { columns, indent: INDENT }), " ".repeat(INDENT) + command];
}
