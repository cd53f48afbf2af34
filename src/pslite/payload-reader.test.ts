// Goal: the channel gets what a node of ps-lite sent whole, where it wants it, however it comes in.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Channel } from "../peer/channel.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { PayloadReader } from "./payload-reader.ts";

const BUFFER_BYTES = 4096;

function stage(destination: (header: FrameHeader) => Uint8Array | undefined = () => undefined) {
  const frames: { readonly request: number; readonly payload: number[]; readonly memory: ArrayBufferLike }[] = [];
  const asked: number[] = [];
  const channel = {
    destination: (header: FrameHeader) => {
      asked.push(header.request);
      return destination(header);
    },
    frame: (header: FrameHeader, bytes: Uint8Array, at: number) => {
      const payload = [...bytes.subarray(at, at + header.payloadBytes)];
      frames.push({ request: header.request, payload, memory: bytes.buffer });
    },
  };
  const buffer = new Uint8Array(BUFFER_BYTES);
  const given: Uint8Array[] = [];
  const reader = new PayloadReader();
  reader.open(channel as unknown as Channel, { take: () => buffer, give: (each) => given.push(each) });
  return { reader, frames, asked, buffer, given };
}

function header(request: number, payloadBytes = 0): FrameHeader {
  const of = new FrameHeader().reset(Kind.REQUEST, FunctionId.KV_PUSH);
  of.request = request;
  of.payloadBytes = payloadBytes;
  return of;
}

const bytesOf = (count: number, first = 0): Uint8Array => Uint8Array.from({ length: count }, (_, i) => first + i);

test("keys and values lie side by side in the read buffer, or in the memory that our node names, which is asked for once", () => {
  const named = new Uint8Array(208);
  const { reader, frames, asked, buffer } = stage(({ request }) => (request === 2 ? named : undefined));
  reader.deliverCopy(header(1), bytesOf(8), bytesOf(20), 4, 4);
  reader.deliverCopy(header(2), bytesOf(8), bytesOf(200));
  assert.deepEqual([frames[0]?.payload, frames[0]?.memory], [[...bytesOf(8), 4, 5, 6, 7], buffer.buffer]);
  assert.deepEqual([frames[1]?.payload, frames[1]?.memory], [[...bytesOf(8), ...bytesOf(200)], named.buffer]);
  assert.deepEqual(asked, [2], "a short payload stays where it is");
});

test("a payload that comes in pieces is handed over once, after its last byte, and bytes behind it are nobody's", () => {
  const { reader, frames } = stage();
  reader.begin(header(3, 24), bytesOf(8));
  assert.ok(reader.isInside);
  reader.view(0).set(bytesOf(6, 8));
  assert.equal(reader.received(6), false);
  const view = reader.view(512);
  assert.equal(view.length, 10 + 512);
  view.set(bytesOf(12, 14));
  assert.equal(reader.received(10), true);
  assert.deepEqual(frames[0]?.payload, [...bytesOf(24)]);
  assert.equal(reader.isInside, false);
});

test("what is handed over while a payload comes in has memory of its own", () => {
  const { reader, frames, buffer } = stage();
  reader.begin(header(1, 16), bytesOf(8));
  reader.deliverCopy(header(2), bytesOf(8, 100));
  assert.notEqual(frames[0]?.memory, buffer.buffer);
  reader.view(0).set(bytesOf(8, 8));
  reader.received(8);
  assert.deepEqual(frames[1]?.payload, [...bytesOf(16)]);
});

test("memory that is taken away while a payload is read into it does not end the connection (PayloadReader.R3)", () => {
  const named = new Uint8Array(200);
  const { reader, frames } = stage(() => named);
  reader.begin(header(1, 200), bytesOf(8));
  structuredClone(named, { transfer: [named.buffer] });
  const view = reader.view(0);
  assert.equal(view.length, 192);
  assert.equal(reader.received(192), true);
  assert.equal(frames.length, 1);
});

test("without a link what comes is dropped, and the read buffer is given back", () => {
  const { reader, frames, given, buffer } = stage();
  reader.begin(header(1, 16), bytesOf(8));
  reader.close();
  assert.deepEqual([given, reader.isInside], [[buffer], false]);
  assert.ok(reader.view(0).length > 0);
  assert.equal(reader.received(8), false);
  reader.deliverCopy(header(2), bytesOf(8));
  assert.deepEqual(frames, []);
});
