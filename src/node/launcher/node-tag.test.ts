// Who said it, before every line.

import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import test from "node:test";
import { tagLines } from "./node-tag.ts";

// Whoever runs the tests in a terminal forces colours on all of them; here the stream decides.
delete process.env.FORCE_COLOR;

const FILE = Object.assign(new PassThrough(), { isTTY: false }) as unknown as NodeJS.WriteStream;

test("puts the node before its lines, without colour where nobody could see it", () => {
  assert.equal(tagLines({ name: "worker 0", role: "worker", ranks: [0] }, FILE)("hello"), "[worker 0] hello");
  assert.equal(tagLines({ name: "scheduler", role: "scheduler", ranks: [0] }, FILE)(""), "[scheduler] ");
});

test("takes over the tags of a process of several nodes", () => {
  const tag = tagLines({ name: "server 2-3", role: "server", ranks: [2, 3] }, FILE);
  assert.equal(tag("[server 3] hello"), "[server 3] hello");
  assert.equal(tag("hello"), "[server 2-3] hello");
});

test("a line that only looks like a tag stays as it is", () => {
  assert.equal(tagLines({ name: "server 2", role: "server", ranks: [2] }, FILE)("[server 3] hello"), "[server 2] [server 3] hello");
});
