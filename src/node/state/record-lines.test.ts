// record-lines.test — Goal: what was written is read back; an unfinished end is dropped; anything else that is not what
// was written is refused by name.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { StateRecord } from "../../scheduler/scheduler-state.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { batchLine, endLine, headLine, readLines } from "./record-lines.ts";

const START: StateRecord = { version: 1, kind: "start", job: "mnist/1 \n ü", term: 4, serverCount: 2, workerCount: 3 };
const HIGHEST: StateRecord = { version: 1, kind: "highest", number: 9 };
const TEXT = `${headLine()}${batchLine(1, [START])}${batchLine(2, [HIGHEST, HIGHEST])}`;

test("records are read back in order, as they were written", () => {
  assert.deepEqual(readLines(TEXT, "records"), { records: [START, HIGHEST, HIGHEST], unfinishedBytes: 0 });
});

test("a file that is cut in its last line has all the lines before it (RecordLines.L1, RecordLines.L2)", () => {
  const before = `${headLine()}${batchLine(1, [START])}`;
  for (let end = before.length + 1; end < TEXT.length; end++) {
    const { records, unfinishedBytes } = readLines(TEXT.slice(0, end), "records");
    assert.deepEqual([records, unfinishedBytes], [[START], end - before.length]);
  }
});

test("a job that has ended has no records", () => {
  assert.deepEqual(readLines(TEXT + endLine(3), "records"), { records: [], unfinishedBytes: 0 });
});

test("a byte that changed in a whole line is refused, with the line (RecordLines.L2)", () => {
  for (let i = 0; i < TEXT.length; i++) {
    if (TEXT[i] === "\n") continue;
    const changed = `${TEXT.slice(0, i)}${TEXT[i] === "x" ? "y" : "x"}${TEXT.slice(i + 1)}`;
    const line = TEXT.slice(0, i).split("\n").length;
    assert.throws(() => readLines(changed, "/s/records"), throwsCode("STATE_CORRUPT", new RegExp(`^line ${line} of /s/records`)));
  }
});

test("a line that is missing, doubled or in another's place is refused", () => {
  const [head = "", first = "", second = ""] = TEXT.split("\n").map((line) => `${line}\n`);
  for (const text of [head + second, head + first + first, head + second + first, first + second, "", "\n"])
    assert.throws(() => readLines(text, "records"), throwsCode("STATE_CORRUPT", /move it away/), JSON.stringify(text));
});

test("a file of a later version, or of something else, is refused and not guessed", () => {
  const later = headLine().replace('"version":1', '"version":2');
  assert.throws(() => readLines(later, "records"), throwsCode("STATE_CORRUPT"), "its checksum is another one");
  assert.throws(() => readLines("hello\n", "records"), throwsCode("STATE_CORRUPT", /line 1 .*checksum/));
});
