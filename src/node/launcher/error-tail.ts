// error-tail — the last lines a process wrote to its standard error, and which of them tells best why it ended. Bounded.

import { StringDecoder } from "node:string_decoder";

const LINES_MAX = 40;
const LINE_CHARS_MAX = 2000;
/** Node ends the report of an uncaught error with its own version; the error itself stands above, with its stack in between. */
const NODE_TRAILER = /^Node\.js v\d/;
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

  /** The line that says most about the end; undefined when nothing was written. */
  get reason(): string | undefined {
    const lines = this.lines;
    const last = lines.at(-1);
    if (last === undefined || !NODE_TRAILER.test(last)) return last;
    return lines.findLast((line) => ERROR_LINE.test(line)) ?? lines.at(-2);
  }
}
