// The entries of a log as they are written and read: runs, refusals, and bytes that do not add up.

import assert from "node:assert/strict";
import { test } from "node:test";
import { throwsCode } from "../../testing/throws-code.ts";
import { FrameHeader, HEADER_BYTES, Kind } from "../../wire/frame.ts";
import { decodeHeader } from "../../wire/frame-reader.ts";
import { EntryKind, EntryPage, readEntries } from "./log-entry.ts";

const NODE = 9;

/** A push as a worker sends many of them. */
function push(request: number, payloadBytes = 12): FrameHeader {
  const header = new FrameHeader().reset(Kind.REQUEST, 3);
  return Object.assign(header, { request, stamp: request + 100, arg0: 1, arg3: request + 7, payloadBytes });
}

/** What a page has, as a standby reads it. */
function read(page: EntryPage): { kind: number; count: number; request: number; firstBytes: number[] }[] {
  const bytes = page.bytes.subarray(0, page.length);
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
  const found: ReturnType<typeof read> = [];
  for (const { kind, count, at, bodyBytes } of readEntries(bytes)) {
    const header = new FrameHeader();
    if (bodyBytes >= HEADER_BYTES) decodeHeader(words, at >> 2, header);
    const firstBytes =
      bodyBytes > HEADER_BYTES ? [...bytes.subarray(at + HEADER_BYTES, at + bodyBytes)].filter((_, i) => i % 16 === 0) : [];
    found.push({ kind, count, request: header.request, firstBytes });
  }
  return found;
}

function add(page: EntryPage, header: FrameHeader, { incarnation = 1, node = NODE, kind = EntryKind.KV as EntryKind } = {}): void {
  page.addFrame(kind, node, incarnation, header, new Uint8Array(header.payloadBytes).fill(header.request), 0);
}

const KV = EntryKind.KV;

test("small frames of one node that are alike share an entry, and each has its number", () => {
  const page = new EntryPage(new Uint8Array(4096));
  for (const request of [1, 2, 3]) add(page, push(request));
  add(page, push(4), { incarnation: 2 });
  add(page, push(6), { incarnation: 2 });
  add(page, push(7), { node: 8, incarnation: 2 });
  add(page, push(8), { node: 8, incarnation: 2, kind: EntryKind.FRAME });
  assert.equal(page.count, 7);
  assert.deepEqual(read(page), [
    { kind: KV, count: 3, request: 1, firstBytes: [1, 2, 3] },
    { kind: KV, count: 1, request: 4, firstBytes: [4] },
    { kind: KV, count: 1, request: 6, firstBytes: [6] },
    { kind: KV, count: 1, request: 7, firstBytes: [7] },
    { kind: EntryKind.FRAME, count: 1, request: 8, firstBytes: [8] },
  ]);
});

test("a frame that came in a run of others begins its own", () => {
  const page = new EntryPage(new Uint8Array(4096));
  add(page, Object.assign(push(1), { more: 5 }));
  add(page, Object.assign(push(2), { more: 4 }));
  assert.deepEqual(
    read(page).map(({ count }) => count),
    [2],
  );
});

test("what is too large for a run, and what follows a page that was cleared, stands alone", () => {
  const page = new EntryPage(new Uint8Array(4096));
  for (const request of [1, 2]) add(page, push(request, 136));
  assert.deepEqual(
    read(page).map(({ count }) => count),
    [1, 1],
  );
  page.clear();
  add(page, push(1));
  page.clear();
  add(page, push(2));
  assert.deepEqual(read(page), [{ kind: KV, count: 1, request: 2, firstBytes: [2] }]);
});

test("a frame that was refused is an entry of nothing, in a run and alone, and nothing joins over it", () => {
  const page = new EntryPage(new Uint8Array(4096));
  for (const request of [1, 2, 3]) add(page, push(request));
  page.dropLast();
  add(page, push(4));
  page.dropLast();
  add(page, push(5));
  assert.equal(page.count, 5);
  const nothing = { kind: EntryKind.NOTHING, count: 1, request: 0, firstBytes: [] };
  assert.deepEqual(read(page), [
    { kind: KV, count: 2, request: 1, firstBytes: [1, 2] },
    nothing,
    nothing,
    { kind: KV, count: 1, request: 5, firstBytes: [5] },
  ]);
});

test("a frame whose handler threw keeps its body", () => {
  const page = new EntryPage(new Uint8Array(4096));
  add(page, push(1), { kind: EntryKind.FRAME });
  page.markThrown();
  add(page, push(2), { kind: EntryKind.FRAME });
  assert.deepEqual(
    read(page).map(({ kind, request }) => [kind, request]),
    [
      [EntryKind.THROWN, 1],
      [EntryKind.FRAME, 2],
    ],
  );
});

test("entries that do not add up are refused with BAD_REQUEST", () => {
  const page = new EntryPage(new Uint8Array(4096));
  add(page, push(1));
  for (let length = 1; length < page.length; length++)
    assert.throws(() => [...readEntries(page.bytes.slice(0, length))], throwsCode("BAD_REQUEST"));
});
