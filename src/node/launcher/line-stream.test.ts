// Whole lines out of pieces.

import assert from "node:assert/strict";
import test from "node:test";
import { LineStream } from "./line-stream.ts";

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
