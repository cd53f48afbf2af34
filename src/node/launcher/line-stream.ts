// line-stream — turns a stream of bytes into whole lines, each changed by a function and written at once, so that the lines of several
// processes on one terminal never break into each other. Bounded: a line without an end is cut.

import { Transform, type TransformCallback } from "node:stream";
import { StringDecoder } from "node:string_decoder";

const LINE_CHARS_MAX = 64 * 1024;

export class LineStream extends Transform {
  readonly #decoder = new StringDecoder("utf8");
  /** Takes a line without its end; what it returns is written with one, undefined is left out. */
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
