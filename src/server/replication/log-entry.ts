// log-entry — the bytes of an entry of a head's log: what a standby repeats (docs/decisions/0060).
//
//   offset   type   field        little-endian; entries follow each other, each a multiple of 8 bytes
//        0   u32    kind
//        4   u32    bodyBytes    of what follows, padded to a multiple of 8
//        8   u32    node         who sent the frame
//       12   u32    textBytes    of a body that is JSON, without its padding; otherwise 0
//       16   f64    incarnation  of that node
//       24          body         FRAME, THROWN, KV, READ_END: the header of a frame, and its payload; REFUSED, WORKERS,
//                                DIGEST, IDENTITY: JSON; FILL, PARTS, FILLED: JSON and arrays (packed-body.ts)
//
// Small frames of KV of one node that are alike and follow each other share one entry, and those of KV_AHEAD always do:
// its body is a run (wire/frame.ts). Each of them has a number of its own in the log.
//
//   NOTHING    the head refused the request after all: nothing was changed
//   REFUSED    which update that was, and why: its worker may not have heard of it
//   FRAME      a request of a function that changed something, or part of one, to be handled as it came
//   THROWN     the same of a user's function that threw: what it did until then is repeated (repeated-function.ts)
//   KV         the same of an application of the kv face
//   KV_AHEAD   a run of pushes of the kv face that the head had not handled when it sent them: it may refuse some, and
//              then the standby refuses the same ones (RunAhead.A2)
//   READ_END   the last frame of a read in several frames: the others are kept until its caller has the answer
//   WORKERS    which workers live, in which incarnations
//   DIGEST     what the state of some parts comes to, to be compared
//   FILL       the first entry for a standby that is filled: what is the head's and not a part's (fill-state.ts)
//   PARTS      the state of some parts as it is now, instead of what the standby has of them
//   FILLED     answers that the head keeps: the standby has everything now
//   IDENTITY   who a durable server is (log-sink.ts)
//   PLACEMENT  the head has adopted this placement (copy/parts-exchange.ts): JSON
//   ARRIVED    some of the parts that come with it, with what is not a part's where the server joins: JSON and arrays
//   HANDED_OVER  its parts are with their owners, of this epoch: JSON

import { badRequest, type WeighbridgeError } from "../../base/errors.ts";
import {
  continuesRun,
  encodeHeader,
  FrameHeader,
  HEADER_BYTES,
  HIGH_MASK,
  lengthenRun,
  MORE_SHIFT,
  paddedBytes,
  RUN_MORE_MAX,
  RUN_PAYLOAD_BYTES_MAX,
  stepRun,
} from "../../wire/frame.ts";
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
  THROWN: 11,
  PLACEMENT: 12,
  ARRIVED: 13,
  HANDED_OVER: 14,
  KV_AHEAD: 15,
} as const;
export type EntryKind = (typeof EntryKind)[keyof typeof EntryKind];

/** Where a frame's header has `more`. */
const MORE_BYTE = 20;
/** Payloads up to this size are copied by a loop: a view costs more. */
const SMALL_COPY_BYTES = 64;
const NOWHERE = -1;

/** How many bytes the entry of a frame takes at most. */
export function frameEntryBytes({ payloadBytes }: FrameHeader): number {
  return ENTRY_BYTES + HEADER_BYTES + paddedBytes(payloadBytes);
}

/** How many bytes the entry of a whole run takes. */
export function runEntryBytes({ payloadBytes, more }: FrameHeader): number {
  return ENTRY_BYTES + HEADER_BYTES + paddedBytes(payloadBytes) * (1 + more);
}

/** Copies bytes to this place in a page; throws nothing. */
export type CopyBytes = (page: EntryPage, to: number, bytes: Uint8Array, at: number, byteCount: number) => void;

/** Memory that entries are written to, in three views. */
export class EntryPage {
  readonly bytes: Uint8Array;
  readonly #words: Uint32Array;
  readonly #doubles: Float64Array;
  readonly #copy: CopyBytes;
  /** How much of it is written. */
  length = 0;
  /** How many entries, each frame of a run for itself. */
  count = 0;
  /** The entry that the next frame may join: where it begins, whose it is, and its last header. */
  #run = NOWHERE;
  #runNode = 0;
  #runIncarnation = 0;
  #runMore = 0;
  readonly #last = new FrameHeader();
  /** The last frame: where what it added begins. */
  #lastFrom = 0;

  /** `bytes` are the page's alone, from a multiple of 8 on. */
  constructor(bytes: Uint8Array, copy: CopyBytes = copyBytes) {
    const { buffer, byteOffset, byteLength } = bytes;
    this.bytes = bytes;
    this.#words = new Uint32Array(buffer, byteOffset, byteLength >> 2);
    this.#doubles = new Float64Array(buffer, byteOffset, byteLength >> 3);
    this.#copy = copy;
  }

  get room(): number {
    return this.bytes.length - this.length;
  }

  clear(): void {
    this.length = 0;
    this.count = 0;
    this.#run = NOWHERE;
  }

  /** A frame of this node, whose payload is `bytes` from `at` on. */
  addFrame(kind: EntryKind, node: number, incarnation: number, header: FrameHeader, bytes: Uint8Array, at: number): void {
    const { payloadBytes } = header;
    this.#lastFrom = this.length;
    let to = this.length;
    if (this.#joins(kind, node, incarnation, header)) {
      this.#lengthen(paddedBytes(payloadBytes));
    } else {
      const entry = this.#add(kind, node, incarnation, HEADER_BYTES + paddedBytes(payloadBytes), 0);
      to = entry + ENTRY_BYTES + HEADER_BYTES;
      encodeHeader(header, this.#words, (entry + ENTRY_BYTES) >> 2);
      if (header.more !== 0) this.#more(entry, 0); // it came in a run, which may end earlier here
      if (kind === EntryKind.KV && payloadBytes <= RUN_PAYLOAD_BYTES_MAX) this.#begin(entry, node, incarnation, header);
    }
    const target = this.bytes;
    if (payloadBytes <= SMALL_COPY_BYTES) for (let i = 0; i < payloadBytes; i++) target[to + i] = bytes[at + i] as number;
    else this.#copy(this, to, bytes, at, payloadBytes);
  }

  /** The run that begins with this frame of this node, whose payloads are `bytes` from `at` on. */
  addRun(node: number, incarnation: number, header: FrameHeader, bytes: Uint8Array, at: number): void {
    const byteCount = paddedBytes(header.payloadBytes) * (1 + header.more);
    const entry = this.#add(EntryKind.KV_AHEAD, node, incarnation, HEADER_BYTES + byteCount, 0);
    encodeHeader(header, this.#words, (entry + ENTRY_BYTES) >> 2);
    this.#copy(this, entry + ENTRY_BYTES + HEADER_BYTES, bytes, at, byteCount);
    this.count += header.more;
  }

  #joins(kind: EntryKind, node: number, incarnation: number, header: FrameHeader): boolean {
    return (
      this.#run !== NOWHERE &&
      this.#runMore < RUN_MORE_MAX &&
      kind === EntryKind.KV &&
      node === this.#runNode &&
      incarnation === this.#runIncarnation &&
      continuesRun(this.#last, header)
    );
  }

  /** The next frame may join this one. */
  #begin(entry: number, node: number, incarnation: number, header: FrameHeader): void {
    this.#run = entry;
    this.#runNode = node;
    this.#runIncarnation = incarnation;
    this.#runMore = 0;
    this.#last.copyFrom(header);
    this.#last.more = 0;
  }

  /** So many further frames belong to the entry. */
  #more(entry: number, more: number): void {
    const at = (entry + ENTRY_BYTES + MORE_BYTE) >> 2;
    this.#words[at] = ((this.#words[at] as number) & HIGH_MASK) | (more << MORE_SHIFT);
  }

  /** One more frame, of so many bytes, belongs to the run. */
  #lengthen(byteCount: number): void {
    const words = this.#words;
    const entry = this.#run >> 2;
    this.#runMore++;
    lengthenRun(words, entry + ENTRY_BYTES / 4);
    stepRun(this.#last);
    (words[entry + 1] as number) += byteCount;
    this.length += byteCount;
    this.count++;
  }

  addText(kind: EntryKind, text: Uint8Array): void {
    const entry = this.#add(kind, 0, 0, paddedBytes(text.length), text.length);
    this.bytes.set(text, entry + ENTRY_BYTES);
  }

  addPacked(kind: EntryKind, body: PackedBody): void {
    const entry = this.#add(kind, 0, 0, body.byteCount, body.text.length);
    writePacked(body, this.bytes, entry + ENTRY_BYTES);
  }

  /** Makes the frame that was added last an entry of nothing. */
  dropLast(): void {
    const words = this.#words;
    const from = this.#lastFrom;
    if (this.#run !== NOWHERE && this.#run !== from) {
      this.#more(this.#run, this.#runMore - 1);
      (words[(this.#run >> 2) + 1] as number) -= this.length - from;
    }
    this.length = from;
    this.count--;
    this.#add(EntryKind.NOTHING, 0, 0, 0, 0);
  }

  /** The handler of the frame that was added last threw, and is to be repeated. */
  markThrown(): void {
    this.#words[this.#lastFrom >> 2] = EntryKind.THROWN;
    this.#run = NOWHERE;
  }

  #add(kind: EntryKind, node: number, incarnation: number, bodyBytes: number, textBytes: number): number {
    this.#run = NOWHERE;
    const entry = this.length;
    const word = entry >> 2;
    this.#words[word] = kind;
    this.#words[word + 1] = bodyBytes;
    this.#words[word + 2] = node;
    this.#words[word + 3] = textBytes;
    this.#doubles[(entry + 16) >> 3] = incarnation;
    this.length = entry + ENTRY_BYTES + bodyBytes;
    this.count++;
    return entry;
  }
}

function copyBytes({ bytes: target }: EntryPage, to: number, bytes: Uint8Array, at: number, byteCount: number): void {
  target.set(bytes.subarray(at, at + byteCount), to);
}

/**
 * An entry as a standby reads it; `at` is where its body begins in `bytes`, `count` how many numbers of the log it has.
 * Reused for the next one.
 */
export type ReadEntry = {
  kind: number;
  count: number;
  at: number;
  bodyBytes: number;
  textBytes: number;
  node: number;
  incarnation: number;
};

/** The body of an entry that is JSON. */
export function textOf({ at, textBytes }: Readonly<ReadEntry>, entries: Uint8Array): Uint8Array {
  return entries.slice(at, at + textBytes);
}

/** Reads entries one by one, and is the one that was read. */
export class EntryReader implements ReadEntry {
  kind = 0;
  count = 1;
  at = 0;
  bodyBytes = 0;
  textBytes = 0;
  node = 0;
  incarnation = 0;
  /** A link reads into the same buffer again and again: a view for each LOG would cost more than its entries. */
  #bytes: Uint8Array = new Uint8Array(0);
  #view = new DataView(this.#bytes.buffer);
  #from = 0;
  #next = 0;
  #end = 0;

  /** Goes to the first of the entries in `byteCount` bytes from `from` on. */
  begin(bytes: Uint8Array, from: number, byteCount: number): void {
    if (bytes !== this.#bytes) {
      this.#bytes = bytes;
      this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.#from = from;
    this.#next = from;
    this.#end = from + byteCount;
  }

  /** False: that was the last one. Throws BAD_REQUEST where they do not add up. */
  next(): boolean {
    const view = this.#view;
    const at = this.#next;
    const end = this.#end;
    if (at === end) return false;
    if (end - at < ENTRY_BYTES) throw this.#cut();
    this.kind = view.getUint32(at, true);
    this.bodyBytes = view.getUint32(at + 4, true);
    this.node = view.getUint32(at + 8, true);
    this.textBytes = view.getUint32(at + 12, true);
    this.incarnation = view.getFloat64(at + 16, true);
    this.at = at + ENTRY_BYTES;
    if (this.bodyBytes % 8 !== 0 || this.textBytes > this.bodyBytes || this.at + this.bodyBytes > end) throw this.#cut();
    this.#next = this.at + this.bodyBytes;
    const mayBeRun = (this.kind === EntryKind.KV || this.kind === EntryKind.KV_AHEAD) && this.bodyBytes >= HEADER_BYTES;
    this.count = mayBeRun ? 1 + (view.getUint32(this.at + MORE_BYTE, true) >>> MORE_SHIFT) : 1;
    return true;
  }

  /** How many numbers of the log all of them have; the next one is the first again. Throws as `next`. */
  countAll(): number {
    let count = 0;
    while (this.next()) count += this.count;
    this.#next = this.#from;
    return count;
  }

  #cut(): WeighbridgeError {
    const [at, byteCount] = [this.#next, this.#end].map((each) => each - this.#from);
    return badRequest(`the entry at byte ${at} of a log of ${byteCount} bytes does not fit it`);
  }
}

/** The entries of a page, one by one, in the same object. Throws as EntryReader.next. */
export function* readEntries(entries: Uint8Array): Iterable<Readonly<ReadEntry>> {
  const reader = new EntryReader();
  reader.begin(entries, 0, entries.length);
  while (reader.next()) yield reader;
}
