// Goal: help fits the terminal it is read on, whatever its width, and loses no word on the way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { configFlags, wrapHelp } from "./command-parts.ts";

const TEXT = `
Every process runs the script, which learns
its role from the environment.

Exit codes:
  0    trained, tested and saved, whether or not it was reached
  130  Ctrl-C

Examples:
  $ weighbridge launch -s 2 -w 2 --worker-only -- train.ts --epochs 3`;

test("paragraphs and columns are filled to the width, and commands stay whole", () => {
  assert.equal(
    wrapHelp(TEXT, 30),
    `
Every process runs the script,
which learns its role from the
environment.

Exit codes:
  0    trained, tested and
       saved, whether or not
       it was reached
  130  Ctrl-C

Examples:
  $ weighbridge launch -s 2 -w 2 --worker-only -- train.ts --epochs 3`,
  );
});

test("at every width the words are the same, and only what has no space to break at is longer", () => {
  const words = (text: string): string[] => text.split(/\s+/);
  for (let width = 1; width <= 200; width++) {
    const wrapped = wrapHelp(TEXT, width);
    assert.deepEqual(words(wrapped), words(TEXT), `width ${width}`);
    const tooLong = wrapped.split("\n").filter((line) => line.length > width && !line.includes("$ ") && line.trim().includes(" "));
    assert.deepEqual(
      tooLong.filter((line) => !/^ +\S+ {2,}\S+$/.test(line)),
      [],
      `width ${width}`,
    );
  }
});

test("a range of workers is the count that the start waits for, and the most that there may be", () => {
  assert.deepEqual(configFlags({ workers: "2..8", rank: 1, verbose: true }), { workerCount: "2", workerCountMax: "8", rank: 1 });
  assert.deepEqual(configFlags({ workerCount: "2..5" }), { workerCount: "2", workerCountMax: "5" });
  assert.deepEqual(configFlags({ workerCount: "2", workerCountMax: "5" }), { workerCount: "2", workerCountMax: "5" });
  assert.deepEqual(configFlags({ workers: "3" }), { workerCount: "3" });
  assert.deepEqual(configFlags({ workers: "2..8..9" }), { workerCount: "2", workerCountMax: "8..9" }, "which loadConfig refuses");
});
