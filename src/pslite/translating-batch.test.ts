// Goal: calls and answers reach the conversation whole and in order, and memory is let go when it has left.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PagePool } from "../peer/frame-batch.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import type { Conversation } from "./conversation.ts";
import { type OutgoingFrame, TranslatingBatch } from "./translating-batch.ts";

function stage(isLinked = true) {
  const sent: { readonly request: number; readonly payload: number[] }[] = [];
  const chunks = [Uint8Array.of(1)];
  let releases = 0;
  const conversation = {
    isLinked,
    outgoing: { batch: { take: () => ({ chunks, release: () => releases++ }) } },
    send: (frame: OutgoingFrame) => sent.push({ request: frame.header.request, payload: [...frame.payload()] }),
  };
  const batch = new TranslatingBatch(conversation as unknown as Conversation, new PagePool());
  return { batch, sent, chunks, releases: () => releases };
}

function header(request: number, payloadBytes: number): FrameHeader {
  const of = new FrameHeader().reset(Kind.REQUEST, FunctionId.KV_PUSH);
  of.request = request;
  of.payloadBytes = payloadBytes;
  return of;
}

test("a frame is handed over when its payload is there: inline and attached, in order (TranslatingBatch.T1)", () => {
  const { batch, sent } = stage();
  const reused = header(1, 10);
  let at = batch.begin(reused, 8);
  for (let i = 0; i < 8; i++) batch.page.bytes[at + i] = i;
  batch.attach(Uint8Array.of(8, 9));
  batch.pad();
  assert.deepEqual(sent, [], "not before it is written");
  reused.request = 2;
  reused.payloadBytes = 1;
  at = batch.begin(reused, 1);
  batch.page.bytes[at] = 77;
  batch.begin(header(3, 0), 0);
  assert.deepEqual(sent, [
    { request: 1, payload: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] },
    { request: 2, payload: [77] },
    { request: 3, payload: [] },
  ]);
});

test("what was taken are the messages that were made, and what is held is released when they have left", () => {
  const { batch, sent, chunks, releases } = stage();
  let released = 0;
  batch.begin(header(1, 3), 0);
  batch.attach(Uint8Array.of(1, 2, 3));
  batch.hold({ release: () => released++ });
  const taken = batch.take();
  assert.deepEqual([sent.length, taken.chunks, batch.byteCount], [1, chunks, 0]);
  assert.ok(taken.byteCount >= 3);
  assert.deepEqual([released, releases()], [0, 0]);
  taken.flushed();
  assert.deepEqual([released, releases()], [1, 1]);
});

test("a frame that was written when the link is gone goes nowhere", () => {
  const { batch, sent } = stage(false);
  batch.begin(header(1, 3), 0);
  batch.attach(Uint8Array.of(1, 2, 3));
  batch.take().flushed();
  assert.deepEqual(sent, []);
});
