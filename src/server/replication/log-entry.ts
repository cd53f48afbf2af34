// log-entry — the bytes of an entry of a head's log: what a standby repeats (docs/decisions/0060).
//
//   offset   type   field        little-endian; entries follow each other, each a multiple of 8 bytes
//        0   u32    kind
//        4   u32    bodyBytes    of what follows, padded to a multiple of 8
//        8   u32    node         who sent the frame
//       12   u32    textBytes    of a body that is JSON, without its padding; otherwise 0
//       16   f64    incarnation  of that node
//       24          body         FRAME, KV, READ_END: the header of a frame, and its payload; REFUSED, WORKERS, DIGEST,
//                                IDENTITY: JSON; FILL, PARTS, FILLED: JSON and arrays (packed-body.ts)
//
//   NOTHING    the head refused the request after all: nothing was changed
//   REFUSED    which update that was, and why: its worker may not have heard of it
//   FRAME      a request of a function that changed something, or part of one, to be handled as it came
//   KV         the same of an application of the kv face
//   READ_END   the last frame of a read in several frames: the others are kept until its caller has the answer
//   WORKERS    which workers live, in which incarnations
//   DIGEST     what the state of some parts comes to, to be compared
//   FILL       the first entry for a standby that is filled: what is the head's and not a part's (fill-state.ts)
//   PARTS      the state of some parts as it is now, instead of what the standby has of them
//   FILLED     answers that the head keeps: the standby has everything now
//   IDENTITY   who a durable server is (durable-log.ts)

import { WeighbridgeError } from "../../base/errors.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { encodeHeader, HEADER_BYTES, paddedBytes } from "../../wire/frame.ts";
import { type PackedBody, writePacked } from "./packed-body.ts";

export const ENTRY_BYTES = 24;

export const EntryKind = {
  NOTHING: 0,
  FRAME: 1,
  READ_END: 2,
  WORKERS: 3,
  DIGEST: 4,
  KV: 5,
  FILL: 6,
  PARTS: 7,
  FILLED: 8,
  REFUSED: 9,
  IDENTITY: 10,
} as const;
export type EntryKind = (typeof EntryKind)[keyof typeof EntryKind];

export type EntrySource = { readonly node: number; readonly incarnation: number };

/** How many bytes the entry of a frame takes. */
export function frameEntryBytes({ payloadBytes }: FrameHeader): number {
  return ENTRY_BYTES + HEADER_BYTES + paddedBytes(payloadBytes);
}

/** Memory that entries are written to, in three views. */
export class EntryPage {
  readonly bytes: Uint8Array;
  readonly #words: Uint32Array;
  readonly #view: DataView;
  /** How much of it is written. */
  length = 0;
  /** How many entries. */
  count = 0;

  constructor(byteCount: number) {
    const buffer = new ArrayBuffer(byteCount);
    this.bytes = new Uint8Array(buffer);
    this.#words = new Uint32Array(buffer);
    this.#view = new DataView(buffer);
  }

  get room(): number {
    return this.bytes.length - this.length;
  }

  clear(): void {
    this.length = 0;
    this.count = 0;
  }

  /** A frame, whose payload is `bytes` from `at` on. Returns where the entry begins. */
  addFrame(kind: EntryKind, source: EntrySource, header: FrameHeader, bytes: Uint8Array, at: number): number {
    const { payloadBytes } = header;
    const entry = this.#add(kind, source, HEADER_BYTES + paddedBytes(payloadBytes), 0);
    const frame = entry + ENTRY_BYTES;
    encodeHeader(header, this.#words, frame >> 2);
    this.bytes.set(bytes.subarray(at, at + payloadBytes), frame + HEADER_BYTES);
    return entry;
  }

  addText(kind: EntryKind, text: Uint8Array): void {
    const entry = this.#add(kind, { node: 0, incarnation: 0 }, paddedBytes(text.length), text.length);
    this.bytes.set(text, entry + ENTRY_BYTES);
  }

  addPacked(kind: EntryKind, body: PackedBody): void {
    const entry = this.#add(kind, { node: 0, incarnation: 0 }, body.byteCount, body.text.length);
    writePacked(body, this.bytes, entry + ENTRY_BYTES);
  }

  /** Makes the last entry one of nothing. */
  dropLast(entry: number): void {
    this.#words[entry >> 2] = EntryKind.NOTHING;
    this.#words[(entry >> 2) + 1] = 0;
    this.length = entry + ENTRY_BYTES;
  }

  #add(kind: EntryKind, { node, incarnation }: EntrySource, bodyBytes: number, textBytes: number): number {
    const entry = this.length;
    const word = entry >> 2;
    this.#words[word] = kind;
    this.#words[word + 1] = bodyBytes;
    this.#words[word + 2] = node;
    this.#words[word + 3] = textBytes;
    this.#view.setFloat64(entry + 16, incarnation, true);
    this.length = entry + ENTRY_BYTES + bodyBytes;
    this.count++;
    return entry;
  }
}

/** An entry as a standby reads it; `at` is where its body begins in `bytes`. Reused for the next one. */
export type ReadEntry = { kind: number; at: number; bodyBytes: number; textBytes: number; node: number; incarnation: number };

/** The entries of a LOG, one by one, in the same object. Throws BAD_REQUEST where they do not add up. */
export function* readEntries(entries: Uint8Array): Iterable<Readonly<ReadEntry>> {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const entry: ReadEntry = { kind: 0, at: 0, bodyBytes: 0, textBytes: 0, node: 0, incarnation: 0 };
  for (let at = 0; at < entries.length; at = entry.at + entry.bodyBytes) {
    if (entries.length - at < ENTRY_BYTES) throw cut(at, entries.length);
    entry.kind = view.getUint32(at, true);
    entry.bodyBytes = view.getUint32(at + 4, true);
    entry.node = view.getUint32(at + 8, true);
    entry.textBytes = view.getUint32(at + 12, true);
    entry.incarnation = view.getFloat64(at + 16, true);
    entry.at = at + ENTRY_BYTES;
    if (entry.bodyBytes % 8 !== 0 || entry.textBytes > entry.bodyBytes || entry.at + entry.bodyBytes > entries.length)
      throw cut(at, entries.length);
    yield entry;
  }
}

function cut(at: number, byteCount: number): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", `the entry at byte ${at} of a log of ${byteCount} bytes does not fit it`);
}
