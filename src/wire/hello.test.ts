// Goal: two nodes are strangers exactly when what both say of their job differs.
//
// Goal: four bytes tell a frame of ours from another version's and from another program's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, PROTOCOL_VERSION } from "./frame.ts";
import { jobConflict, jobId, jobNameOf, quoteOpening, readOpening } from "./hello.ts";

test("a job is its name and its run, and the name can be read off", () => {
  assert.equal(jobId("train", "r1"), "train/r1");
  assert.deepEqual(["train/r1", "train", ""].map(jobNameOf), ["train", "train", ""]);
});

test("names that differ contradict each other, runs only where both are said, and what is not said contradicts nothing", () => {
  for (const [one, other, conflict] of [
    ["a", "b", "name"],
    ["a/1", "b/1", "name"],
    ["a/1", "b", "name"],
    ["a/1", "a/2", "run"],
    ["a/1", "a/1", undefined],
    ["a/1", "a", undefined],
    ["a", "a", undefined],
    ["", "a/1", undefined],
    ["", "", undefined],
  ] as const) {
    assert.equal(jobConflict(one, other), conflict, `${one} and ${other}`);
    assert.equal(jobConflict(other, one), conflict, `${other} and ${one}`);
  }
});

const text = (content: string): Uint8Array => new TextEncoder().encode(content);

test("a frame of ours is told by its first bytes", () => {
  const words = new Uint32Array(HEADER_BYTES / 4);
  encodeHeader(new FrameHeader().reset(Kind.HELLO, 0), words, 0);
  assert.deepEqual(readOpening(new Uint8Array(words.buffer, 0, 4)), { isOurs: true, version: PROTOCOL_VERSION });
});

test("a frame of another version tells that version", () => {
  assert.deepEqual(readOpening(Uint8Array.of(0x57, 0x42, 9, 1)), { isOurs: false, version: 9 });
});

test("what another program says is none of any version, and is quoted: its first line, or bytes", () => {
  for (const [bytes, quote] of [
    [text("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), '"HTTP/1.1 400 Bad Request"'],
    [text("SSH-2.0-OpenSSH_9.2"), '"SSH-2.0-OpenSSH_9.2"'],
    [text("x".repeat(100)), `"${"x".repeat(40)}"`],
    [Uint8Array.of(0x15, 3, 3, 0, 2, 2, 40), "the bytes 15 03 03 00"],
    [Uint8Array.of(0xff, 0, 0, 0), "the bytes ff 00 00 00"],
  ] as const) {
    assert.deepEqual(readOpening(bytes), { isOurs: false, version: undefined });
    assert.equal(quoteOpening(bytes), quote);
  }
});
