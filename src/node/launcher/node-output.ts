// node-output — the output of a node's process, line by line: LineStream passes whole lines on, so that the lines of
// several processes on one terminal never mix; `tagLines` puts "[worker/0]" before each; ErrorTail keeps the last lines
// of standard error and picks the one that says why the process ended. Bounded: a line without an end is cut.

import { Transform, type TransformCallback } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { styleText } from "node:util";
import type { Role } from "../config/node-config.ts";
import { outputName } from "../output-name.ts";

const LINE_CHARS_MAX = 64 * 1024;

export class LineStream extends Transform {
  readonly #decoder = new StringDecoder("utf8");
  /** Gets a line without its end; a returned string is written with one, undefined drops the line. */
  readonly #change: (line: string) => string | undefined;
  #rest = "";

  constructor(change: (line: string) => string | undefined) {
    super();
    this.#change = change;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    done(null, this.#take(this.#decoder.write(chunk)));
  }

  override _flush(done: TransformCallback): void {
    const lines = this.#take(this.#decoder.end());
    done(null, lines + (this.#rest === "" ? "" : this.#changed([this.#rest])));
  }

  #take(text: string): string {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    while (this.#rest.length > LINE_CHARS_MAX) {
      lines.push(this.#rest.slice(0, LINE_CHARS_MAX));
      this.#rest = this.#rest.slice(LINE_CHARS_MAX);
    }
    return this.#changed(lines);
  }

  #changed(lines: readonly string[]): string {
    let text = "";
    for (const line of lines) {
      const changed = this.#change(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (changed !== undefined) text += `${changed}\n`;
    }
    return text;
  }
}

type Color = Parameters<typeof styleText>[0];

const COLORS: Readonly<Record<Role, readonly Color[]>> = {
  scheduler: ["magenta"],
  server: ["yellow", "yellowBright"],
  worker: ["cyan", "green", "blue", "cyanBright", "greenBright", "blueBright"],
};
/** At the head of a line from a process of several nodes (server-threads.ts). */
const THREAD_TAG = /^\[server\/(\d+)\] /;

export function nodeTag(role: Role, rank: number): string {
  return `[${outputName(role, rank)}]`;
}

/** Puts the tag before a line, in colour if `stream` is a terminal that supports it. */
export function tagLines(
  { name, role, ranks }: { readonly name: string; readonly role: Role; readonly ranks: readonly number[] },
  stream: NodeJS.WriteStream,
): (line: string) => string {
  const colored = (text: string, rank: number): string => {
    const colors = COLORS[role];
    return styleText(colors[rank % colors.length] ?? "white", text, { stream });
  };
  const [firstRank = 0] = ranks;
  const tag = colored(`[${name}]`, firstRank);
  if (ranks.length === 1) return (line) => `${tag} ${line}`;
  return (line) => {
    const rank = THREAD_TAG.exec(line)?.[1];
    return rank === undefined ? `${tag} ${line}` : line.replace(THREAD_TAG, `${colored(nodeTag(role, Number(rank)), Number(rank))} `);
  };
}

const LINES_MAX = 40;
const REASON_CHARS_MAX = 2000;
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
    this.#rest = (lines.pop() ?? "").slice(0, REASON_CHARS_MAX);
    const added = lines.map((line) => line.trimEnd().slice(0, REASON_CHARS_MAX)).filter((line) => line !== "");
    this.#lines = [...this.#lines, ...added].slice(-LINES_MAX);
  }

  /** The newest lines, without empty ones. */
  get lines(): readonly string[] {
    return this.#rest.trim() === "" ? this.#lines : [...this.#lines, this.#rest];
  }

  /** The line that best explains the end; undefined if nothing was written. */
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
