// What an incoming connection tells its link about the messages that come, and what becomes of those that wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimClock } from "../testing/sim-clock.ts";
import type { Link } from "../transport/transport.ts";
import { IncomingConnection, type IncomingHost } from "./incoming-connection.ts";
import { encodeMeta, metaBytesMax, PsMeta } from "./wire/ps-meta.ts";
import { encodeGreeting, encodeReady, writeFrameHeader } from "./wire/zmtp.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

const STREAMED_BYTES_MIN = 1000;

function frame(body: Uint8Array, isLast: boolean): Uint8Array {
  const bytes = new Uint8Array(9 + body.length);
  const at = writeFrameHeader(bytes, 0, body.length, isLast);
  bytes.set(body, at);
  return bytes.subarray(0, at + body.length);
}

/** A message with these many bytes of values. */
function message(valueBytes: number): Uint8Array {
  const meta = new PsMeta();
  const bytes = new Uint8Array(metaBytesMax(meta));
  const end = encodeMeta(meta, bytes, 0);
  return Buffer.concat([frame(bytes.subarray(0, end), false), frame(new Uint8Array(8), false), frame(new Uint8Array(valueBytes), true)]);
}

function stage(mayTake: () => boolean = () => true) {
  const told: boolean[] = [];
  const link: Link = {
    remote: "a node",
    write: (_chunks, flushed) => flushed(),
    pause: () => {},
    resume: () => {},
    close: () => {},
    destroy: () => {},
    setWakeful: (isWakeful) => told.push(isWakeful),
  };
  const counts = { messages: 0 };
  const parts: PartSink = {
    begin: (_index, byteCount) => (byteCount >= STREAMED_BYTES_MIN ? "stream" : "whole"),
    whole: () => {},
    view: () => new Uint8Array(STREAMED_BYTES_MIN),
    streamed: () => {},
  };
  const host: IncomingHost = {
    clock: new SimClock(),
    incarnation: undefined,
    opened: () => {},
    mayTake,
    longMessage: () => {},
    message: () => parts,
    messageArrived: () => {},
    messageEnded: () => {
      counts.messages++;
    },
    closedIncoming: () => {},
  };
  const incoming = new IncomingConnection(host, link, 1000);
  const receive = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; ) {
      const view = incoming.view();
      const piece = bytes.subarray(at, at + view.length);
      view.set(piece);
      incoming.received(piece.length);
      at += piece.length;
    }
  };
  receive(Buffer.concat([encodeGreeting("ps9"), encodeReady("DEALER", "ps9")]));
  return { told, counts, receive, incoming };
}

test("a link is wakeful while messages with long parts come, and only then", () => {
  const { told, counts, receive } = stage();
  for (const valueBytes of [0, 4, 0]) receive(message(valueBytes));
  assert.deepEqual(told, []);
  for (const valueBytes of [5000, 5000, 70_000]) receive(message(valueBytes));
  assert.deepEqual(told, [true]);
  for (const valueBytes of [0, 4]) receive(message(valueBytes));
  assert.deepEqual(told, [true, false]);
  assert.equal(counts.messages, 8);
});

test("messages that wait are taken once they may be, and not after their connection has ended", () => {
  for (const isEnded of [false, true]) {
    let isHeld = true;
    const { counts, receive, incoming } = stage(() => !isHeld);
    receive(message(4));
    isHeld = false;
    if (isEnded) incoming.closed(undefined);
    incoming.goOn();
    assert.equal(counts.messages, isEnded ? 0 : 1);
  }
});
