// Whole lines out of pieces.

import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import test from "node:test";
import { ErrorTail, LineStream, tagLines } from "./node-output.ts";

async function linesOf(
  chunks: readonly (string | Buffer)[],
  change = (line: string): string | undefined => `> ${line}`,
): Promise<string[]> {
  const stream = new LineStream(change);
  const written: string[] = [];
  stream.on("data", (chunk: Buffer) => written.push(chunk.toString()));
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  await new Promise((resolve) => stream.once("end", resolve));
  return written.filter((text) => text !== "");
}

test("gives whole lines on, several at once", async () => {
  assert.deepEqual(await linesOf(["a", "b\nc\nd", "\n"]), ["> ab\n> c\n", "> d\n"]);
});

test("ends the last line when the stream ends", async () => {
  assert.deepEqual(await linesOf(["a\nb"]), ["> a\n", "> b\n"]);
  assert.deepEqual(await linesOf([]), []);
});

test("keeps characters whole that arrive in two pieces, and drops carriage returns", async () => {
  const bytes = Buffer.from("aé\r\n");
  assert.deepEqual(await linesOf([bytes.subarray(0, 2), bytes.subarray(2)]), ["> aé\n"]);
});

test("leaves out what the change leaves out, and keeps empty lines", async () => {
  assert.deepEqual(await linesOf(["a\n\nb\n"], (line) => (line === "a" ? undefined : line)), ["\nb\n"]);
});

test("cuts a line without an end, so that it does not grow for ever", async () => {
  const [first = "", second = ""] = await linesOf(["x".repeat(64 * 1024 + 10)]);
  assert.equal(first.length, 2 + 64 * 1024 + 1);
  assert.equal(second, `> ${"x".repeat(10)}\n`);
});

// Whoever runs the tests in a terminal forces colours on all of them; here the stream decides.
delete process.env.FORCE_COLOR;

const FILE = Object.assign(new PassThrough(), { isTTY: false }) as unknown as NodeJS.WriteStream;

test("puts the node before its lines, without colour where nobody could see it", () => {
  assert.equal(tagLines({ name: "worker/0", role: "worker", ranks: [0] }, FILE)("hello"), "[worker/0] hello");
  assert.equal(tagLines({ name: "scheduler", role: "scheduler", ranks: [0] }, FILE)(""), "[scheduler] ");
});

test("takes over the tags of a process of several nodes", () => {
  const tag = tagLines({ name: "server/2-3", role: "server", ranks: [2, 3] }, FILE);
  assert.equal(tag("[server/3] hello"), "[server/3] hello");
  assert.equal(tag("hello"), "[server/2-3] hello");
});

test("a line that only looks like a tag stays as it is", () => {
  assert.equal(tagLines({ name: "server/2", role: "server", ranks: [2] }, FILE)("[server/3] hello"), "[server/2] [server/3] hello");
});

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
