// test-progress — shows how far `npm test` is: in a terminal one line that changes, elsewhere (a log, CI) a line every
// LINE_SECONDS, and in both each test that fails, as soon as it does. It counts the event test:complete, which comes
// when a test ends: test:pass, test:fail and test:summary come in the order of the files, behind the slowest of them.

import { relative } from "node:path";
import type { Skip } from "./skipped-tests.ts";

/** How often a log gets a line. */
export const LINE_SECONDS = 15;
const CLEAR_LINE = "\r\u001B[2K";
const COLUMNS_DEFAULT = 80;

/** What is read of an event of node:test. */
export type TestEvent = {
  readonly type: string;
  readonly data: {
    readonly name?: string;
    readonly file?: string;
    readonly skip?: string | boolean;
    readonly todo?: string | boolean;
    readonly details?: { readonly type?: string; readonly passed?: boolean; readonly error?: { readonly failureType?: string } };
  };
};

export type TestProgressOptions = {
  readonly out: { readonly isTTY?: boolean; readonly columns?: number; write(text: string): unknown };
  /** How many test files there are behind each file that Node runs. */
  readonly filesOf: ReadonlyMap<string, number>;
};

export class TestProgress {
  readonly #out: TestProgressOptions["out"];
  readonly #filesOf: ReadonlyMap<string, number>;
  readonly #fileCount: number;
  #filesDone = 0;
  #passed = 0;
  #failed = 0;
  #nextLineAt = LINE_SECONDS;
  /** What was skipped. */
  readonly skips: Skip[] = [];

  constructor({ out, filesOf }: TestProgressOptions) {
    this.#out = out;
    this.#filesOf = filesOf;
    this.#fileCount = [...filesOf.values()].reduce((sum, count) => sum + count, 0);
  }

  take({ type, data }: TestEvent): void {
    if (type !== "test:complete") return;
    const { name = "", file, skip = false, todo = false, details } = data;
    const files = this.#filesOf.get(name); // a file is a test of that name, too
    this.#filesDone += files ?? 0;
    const isSuite = details?.type === "suite";
    if (skip !== false) this.skips.push({ reason: skip, isSuite });
    else if (details?.passed === true) this.#passed += isSuite || files !== undefined ? 0 : 1;
    else if (todo === false && details?.error?.failureType !== "subtestsFailed") {
      // a test that fails because one below it did is told by that one
      this.#failed++;
      this.#print(`✖ ${name}${file === undefined || file === name ? "" : ` (${relative("", file)})`}`);
    }
  }

  /** Time has passed since the start. */
  tick(seconds: number): void {
    if (this.#out.isTTY === true) {
      const { columns = COLUMNS_DEFAULT } = this.#out;
      this.#out.write(`${CLEAR_LINE}${this.#text(seconds).slice(0, columns - 1)}`);
    } else if (seconds >= this.#nextLineAt) {
      while (this.#nextLineAt <= seconds) this.#nextLineAt += LINE_SECONDS;
      this.#out.write(`${this.#text(seconds)}\n`);
    }
  }

  /** What follows begins on a line of its own. */
  end(): void {
    if (this.#out.isTTY === true) this.#out.write(CLEAR_LINE);
  }

  #print(line: string): void {
    this.#out.write(`${this.#out.isTTY === true ? CLEAR_LINE : ""}${line}\n`);
  }

  #text(seconds: number): string {
    const failed = this.#failed === 0 ? "" : `, ${this.#failed} failed`;
    return `weighbridge: ${this.#filesDone} of ${this.#fileCount} test files, ${this.#passed} tests passed${failed}, ${Math.round(seconds)} s`;
  }
}
