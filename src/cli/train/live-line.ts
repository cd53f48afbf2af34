// live-line — the last line of a terminal, which keeps itself up to date, below lines that stay. Where there is no
// terminal, there are only lines that stay.
//
// Invariants:
//   LiveLine.L1. The live line is narrower than the terminal: it never wraps when it is drawn.
//   LiveLine.L2. A terminal that became narrower has wrapped it: all of it is wiped, and drawn for the new width.
//   LiveLine.L3. Lines that stay are written above it, whole, and it follows in the same write.

/** Of a terminal that does not say how wide it is. */
export const COLUMNS_DEFAULT = 80;
const WIPE_ROW = "\r\x1b[2K";
const ROW_ABOVE = "\x1b[1A\x1b[2K";

/** How a line looks on a terminal of this width: its text, and how many characters of it are seen. */
export type Drawing = (columns: number) => { readonly text: string; readonly chars: number };

export class LiveLine implements Disposable {
  readonly isLive: boolean;
  readonly #out: NodeJS.WriteStream;
  readonly #onResize = (): void => this.#write("");
  #drawing: Drawing | undefined;
  /** Of the line as it was drawn last. */
  #chars = 0;

  /** `term` is the terminal's name: a dumb one cannot write over what it wrote. */
  constructor(out: NodeJS.WriteStream, term: string | undefined = process.env.TERM) {
    this.#out = out;
    this.isLive = out.isTTY && term !== "dumb";
    if (this.isLive) out.on("resize", this.#onResize);
  }

  /** A line that stays. */
  print(line: string): void {
    this.#write(`${line}\n`);
  }

  /** Replaces the live line; undefined: there is none. */
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
    const columns = this.#out.columns || COLUMNS_DEFAULT;
    const rows = Math.max(1, Math.ceil(this.#chars / columns)); // L2
    const { text, chars } = this.#drawing?.(columns) ?? { text: "", chars: 0 };
    this.#chars = chars;
    this.#out.write(`${WIPE_ROW}${ROW_ABOVE.repeat(rows - 1)}${staying}${text}`); // L3
  }
}
