// live-line — a status line at the bottom of a terminal, redrawn in place, below permanent lines. Without a terminal
// there are only permanent lines.
//
// Invariants:
//   LiveLine.L1. The live line is narrower than the terminal, so that it never wraps when it is drawn.
//   LiveLine.L2. A terminal that became narrower has wrapped it: all rows of it are erased, and it is drawn for the new
//       width.
//   LiveLine.L3. Permanent lines are written above it, whole, and the live line follows in the same write.

import { columnsOf } from "../terminal-text.ts";

const WIPE_ROW = "\r\x1b[2K";
const ROW_ABOVE = "\x1b[1A\x1b[2K";

/** A line on a terminal of this width: its text, and how many of its characters are visible. */
export type Drawing = (columns: number) => { readonly text: string; readonly chars: number };

export class LiveLine implements Disposable {
  readonly isLive: boolean;
  readonly #out: NodeJS.WriteStream;
  readonly #onResize = (): void => this.#write("");
  #drawing: Drawing | undefined;
  /** Visible characters of the line as it was drawn last. */
  #chars = 0;

  /** `term` is the terminal's type: a dumb one cannot overwrite a line. */
  constructor(out: NodeJS.WriteStream, term: string | undefined = process.env.TERM) {
    this.#out = out;
    this.isLive = out.isTTY && term !== "dumb";
    if (this.isLive) out.on("resize", this.#onResize);
  }

  /** Prints a permanent line. */
  print(line: string): void {
    this.#write(`${line}\n`);
  }

  /** Replaces the live line; undefined removes it. */
  draw(drawing: Drawing | undefined): void {
    this.#drawing = drawing;
    if (this.isLive) this.#write("");
  }

  [Symbol.dispose](): void {
    this.draw(undefined);
    this.#out.off("resize", this.#onResize);
  }

  #write(staying: string): void {
    if (!this.isLive) {
      this.#out.write(staying);
      return;
    }
    const columns = columnsOf(this.#out);
    const rows = Math.max(1, Math.ceil(this.#chars / columns)); // LiveLine.L2
    const { text, chars } = this.#drawing?.(columns) ?? { text: "", chars: 0 };
    this.#chars = chars;
    this.#out.write(`${WIPE_ROW}${ROW_ABOVE.repeat(rows - 1)}${staying}${text}`); // LiveLine.L3
  }
}
