// Goal: the line at the bottom of a terminal never wraps, leaves nothing behind and never writes over what stays, also
// when the terminal changes its width.

import assert from "node:assert/strict";
import { Writable } from "node:stream";
import { test } from "node:test";
import { type Drawing, LiveLine } from "./live-line.ts";

const ESC = "\u001b";

type Row = { text: string /** The terminal wrapped the row before into it. */; continues: boolean };

/**
 * What a terminal shows that wraps what is too long, and does so anew when its width changes. It knows the escapes of a
 * LiveLine, and no others.
 */
class SmallTerminal extends Writable {
  readonly isTTY = true;
  columns: number;
  #rows: Row[] = [{ text: "", continues: false }];
  #row = 0;
  #column = 0;

  constructor(columns: number) {
    super();
    this.columns = columns;
  }

  /** The cursor is at the end of what was written, before and after. */
  resize(columns: number): void {
    const lines: string[] = [];
    for (const { text, continues } of this.#rows.slice(0, this.#row + 1)) lines.push(continues ? lines.pop() + text : text);
    this.columns = columns;
    this.#rows = [{ text: "", continues: false }];
    [this.#row, this.#column] = [0, 0];
    for (const [index, line] of lines.entries()) {
      if (index > 0) this.#take("\n");
      if (line !== "") this.#take(line);
    }
    this.emit("resize");
  }

  /** What is seen, without empty rows at the end. */
  get shown(): string {
    return this.#rows
      .map(({ text }) => text)
      .join("\n")
      .trimEnd();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    const tokens = chunk.toString().split(new RegExp(`(${ESC}\\[1A|${ESC}\\[2K|\r|\n)`));
    for (const token of tokens) this.#take(token);
    done();
  }

  #take(token: string): void {
    if (token === "\r") this.#column = 0;
    else if (token === "\n") this.#down(false);
    else if (token === `${ESC}[1A`) this.#row = Math.max(0, this.#row - 1);
    else if (token === `${ESC}[2K`) this.#rows[this.#row] = { text: "", continues: false };
    else for (const letter of token) this.#put(letter);
  }

  #put(letter: string): void {
    if (this.#column === this.columns) this.#down(true);
    const row = this.#rows[this.#row]!;
    row.text = row.text.slice(0, this.#column).padEnd(this.#column) + letter + row.text.slice(this.#column + 1);
    this.#column++;
  }

  #down(continues: boolean): void {
    this.#row++;
    this.#column = 0;
    if (this.#row === this.#rows.length) this.#rows.push({ text: "", continues });
    else this.#rows[this.#row]!.continues = continues;
  }
}

function lineOn(terminal: SmallTerminal, term = "xterm"): LiveLine {
  return new LiveLine(terminal as unknown as NodeJS.WriteStream, term);
}

/** Fills the terminal up to its last column. */
const full: Drawing = (columns) => ({ text: "=".repeat(columns - 1), chars: columns - 1 });

test("lines that stay are above it, and it is below all of them at once", () => {
  const terminal = new SmallTerminal(20);
  using line = lineOn(terminal);
  line.draw(() => ({ text: "1 of 3", chars: 6 }));
  line.print("first");
  assert.equal(terminal.shown, "first\n1 of 3");
  line.draw(() => ({ text: "2", chars: 1 }));
  line.print("second");
  assert.equal(terminal.shown, "first\nsecond\n2");
});

test("a terminal that becomes narrower or wider shows it once, in its new width, and what stays as it was", () => {
  const terminal = new SmallTerminal(40);
  using line = lineOn(terminal);
  line.print("first");
  line.draw(full);
  for (const columns of [30, 13, 7, 25, 40, 11]) {
    terminal.resize(columns);
    assert.equal(terminal.shown, `first\n${"=".repeat(columns - 1)}`, `at ${columns} columns`);
  }
  line.print("second");
  assert.equal(terminal.shown, "first\nsecond\n==========");
});

test("at the end nothing is left of it, and the terminal's width is nobody's business any more", () => {
  const terminal = new SmallTerminal(20);
  const line = lineOn(terminal);
  line.print("first");
  line.draw(full);
  line[Symbol.dispose]();
  assert.equal(terminal.shown, "first");
  assert.equal(terminal.listenerCount("resize"), 0);
});

test("a terminal that does not know its width has 80 columns", () => {
  const terminal = new SmallTerminal(0);
  using line = lineOn(terminal);
  const asked: number[] = [];
  line.draw((columns) => {
    asked.push(columns);
    return { text: "", chars: 0 };
  });
  assert.deepEqual(asked, [80]);
});

test("a dumb terminal gets lines that stay, and nothing else", () => {
  const terminal = new SmallTerminal(20);
  using line = lineOn(terminal, "dumb");
  assert.equal(line.isLive, false);
  line.draw(full);
  line.print("first");
  assert.equal(terminal.shown, "first");
});
