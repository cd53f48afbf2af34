// error-tail — the last lines a process wrote to its standard error, and which of them tells best why it ended. Bounded.

import { StringDecoder } from "node:string_decoder";

const LINES_MAX = 40;
const LINE_CHARS_MAX = 2000;
/** What follows an error that was printed whole: its stack, its fields, and Node's own version. */
const TRAILER = /^(?:Node\.js v\d|\s+at |\s+\S+: .*,?$|\}|\s+\})/;
const OUR_LINE = /^(?:\[[^\]]*\] )?weighbridge: [A-Z_]+: /;
const INDENTED = /^\s/;
const ERROR_LINE = /^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception)\b/;

export class ErrorTail {
  readonly #decoder = new StringDecoder("utf8");
  #lines: string[] = [];
  #rest = "";

  add(chunk: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, LINE_CHARS_MAX);
    const told = lines.map((line) => line.trimEnd().slice(0, LINE_CHARS_MAX)).filter((line) => line !== "");
    this.#lines = [...this.#lines, ...told].slice(-LINES_MAX);
  }

  /** The newest lines, without empty ones. */
  get lines(): readonly string[] {
    return this.#rest.trim() === "" ? this.#lines : [...this.#lines, this.#rest];
  }

  /** What says most about the end, in one line; undefined when nothing was written. */
  get reason(): string | undefined {
    const lines = this.lines;
    const last = lines.at(-1);
    const ours = lines.findLastIndex((line) => OUR_LINE.test(line));
    if (ours >= 0 && lines.slice(ours + 1).every((line) => INDENTED.test(line))) {
      return lines
        .slice(ours)
        .map((line) => line.trim())
        .join(" "); // A list of problems follows its headline.
    }
    if (last === undefined || !TRAILER.test(last)) return last;
    return lines.findLast((line) => ERROR_LINE.test(line)) ?? lines.findLast((line) => !TRAILER.test(line)) ?? last;
  }
}
