// Goal: while a link is paused nothing that was read already is handled, nothing is lost, and a buffer that is full
// still takes its frames.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubLink } from "../testing/stub-link.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../wire/frame.ts";
import { FrameReader, READ_BUFFER_BYTES } from "../wire/frame-reader.ts";
import { PausableLink } from "./pausable-link.ts";

function frame(request: number, payloadBytes = 0): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES + paddedBytes(payloadBytes));
  const header = new FrameHeader().reset(Kind.REQUEST, 1);
  header.request = request;
  header.payloadBytes = payloadBytes;
  encodeHeader(header, new Uint32Array(bytes.buffer), 0);
  return bytes;
}

function stage() {
  const handled: number[] = [];
  let onFrame = (_request: number): void => {};
  const reader = new FrameReader(
    {
      destination: () => undefined,
      frame: ({ request }) => {
        handled.push(request);
        onFrame(request);
      },
    },
    new Uint8Array(READ_BUFFER_BYTES),
  );
  const inner = new StubLink();
  const link = new PausableLink(inner, reader, () => reader.goOn());
  const take = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; ) {
      const view = reader.view();
      assert.ok(view.length > 0, "FrameReader.R1");
      const part = bytes.subarray(at, at + view.length);
      view.set(part);
      reader.received(part.length);
      at += part.length;
    }
  };
  const pauseAt = (paused: number): void => {
    onFrame = (request) => {
      if (request === paused) link.pause();
    };
  };
  const set = (handler: (request: number) => void): void => {
    onFrame = handler;
  };
  return { handled, link, inner, take, pauseAt, onFrame: set };
}

const frames = (from: number, to: number, payloadBytes = 0): Uint8Array => {
  const list = Array.from({ length: to - from + 1 }, (_, i) => frame(from + i, payloadBytes));
  return Uint8Array.from(list.flatMap((bytes) => [...bytes]));
};

test("frames that came in one read with the one that paused the link wait until it resumes", () => {
  const { handled, link, inner, take, pauseAt } = stage();
  pauseAt(2);
  take(frames(1, 5));
  assert.deepEqual(handled, [1, 2]);
  assert.equal(inner.isPaused, true);
  take(frames(6, 7)); // was under way
  assert.deepEqual(handled, [1, 2]);
  link.resume();
  assert.deepEqual(handled, [1, 2, 3, 4, 5, 6, 7]);
  assert.equal(inner.isPaused, false);
});

test("what waits may pause the link again", () => {
  const { handled, link, take, pauseAt } = stage();
  pauseAt(2);
  take(frames(1, 6));
  pauseAt(4);
  link.resume();
  assert.deepEqual(handled, [1, 2, 3, 4]);
  link.resume();
  assert.deepEqual(handled, [1, 2, 3, 4, 5, 6]);
});

test("half a frame waits like whole ones", () => {
  const { handled, link, take, pauseAt } = stage();
  pauseAt(1);
  const bytes = frames(1, 3, 100);
  take(bytes.subarray(0, bytes.length - 50));
  link.resume();
  assert.deepEqual(handled, [1, 2]);
  take(bytes.subarray(bytes.length - 50));
  assert.deepEqual(handled, [1, 2, 3]);
});

for (const end of ["close", "destroy"] as const)
  test(`frames that came in one read with the one that made us ${end} the link are dropped (Connection.H4)`, () => {
    const { handled, link, take, onFrame } = stage();
    onFrame((request) => {
      if (request === 2) link[end]();
    });
    take(frames(1, 5));
    assert.deepEqual(handled, [1, 2]);
    take(frames(6, 7)); // was under way
    assert.deepEqual(handled, [1, 2]);
  });

test("a buffer that is full of frames goes on with them although the link is paused", () => {
  const { handled, take, pauseAt } = stage();
  pauseAt(1);
  const payloadBytes = 100_000;
  for (let request = 1; request <= 40; request++) take(frame(request, payloadBytes));
  assert.ok(handled.length < 40, "some wait");
  assert.ok(handled.length >= 40 - Math.ceil(READ_BUFFER_BYTES / payloadBytes), "no more than fit");
  assert.deepEqual(
    handled,
    Array.from({ length: handled.length }, (_, i) => i + 1),
  );
});
