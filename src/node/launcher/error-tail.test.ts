// Which of the last lines of a process is taken for the reason of its end.

import assert from "node:assert/strict";
import test from "node:test";
import { ErrorTail } from "./error-tail.ts";

function reasonOf(...chunks: readonly string[]): string | undefined {
  const tail = new ErrorTail();
  for (const chunk of chunks) tail.add(Buffer.from(chunk));
  return tail.reason;
}

test("is the last line that says something", () => {
  assert.equal(reasonOf(), undefined);
  assert.equal(reasonOf("one\ntwo\n\n"), "two");
  assert.equal(reasonOf("one\ntw", "o"), "two");
});

test("is the error of a report that Node wrote, not its stack or its trailer", () => {
  const report = "file:///a.ts:3\nthrow new Error('boom');\n      ^\n\nError: boom\n    at file:///a.ts:3:62\n\nNode.js v24.21.0\n";
  assert.equal(reasonOf(report), "Error: boom");
  assert.equal(reasonOf("TypeError: x is not a function\n    at a (b:1:2) {\n  code: 'X',\n}\n"), "TypeError: x is not a function");
});

test("is the whole of a list of ours, in one line", () => {
  const list = "weighbridge: BAD_CONFIG: 2 problems:\n  1. rank: too high\n  2. port: taken\n";
  assert.equal(reasonOf("before\n", list), "weighbridge: BAD_CONFIG: 2 problems: 1. rank: too high 2. port: taken");
});

test("keeps a bounded number of bounded lines", () => {
  const tail = new ErrorTail();
  for (let i = 0; i < 1000; i++) tail.add(Buffer.from(`${i} ${"x".repeat(5000)}\n`));
  assert.equal(tail.lines.length, 40);
  assert.ok(tail.lines.every((line) => line.length <= 2000));
  assert.match(String(tail.reason), /^999 /);
});
