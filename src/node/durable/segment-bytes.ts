// segment-bytes — the bytes of a segment of a durable log (segment-log.ts): its head, and batches of entries behind it.
// Pure.
//
//   offset   type      field         the head; little-endian
//        0   u8 × 16   "weighbridge log\n"
//       16   u32       version       FORMAT
//       20   u32       salt          of this segment: what it held before, under another salt, is no batch of it
//       24   f64       number        of the segment, one more than that of the one before it
//       32   f64       first         the number of its first entry
//       40   f64       byteCount     of the file, which never changes its size; left out in version 1
//       48   u32       crc           of the bytes before; in version 1 at 40
//
//   offset   type      field         a batch: what was written and synced together
//        0   u32       "WBLG"
//        4   u32       salt          of the segment
//        8   f64       first         the number of its first entry
//       16   u32       entryCount
//       20   u32       byteCount     of the entries
//       24   u32       crc           of the bytes before, and of the entries
//       28   u32       0
//       32             entries       server/replication/log-entry.ts
//
// A batch without entries is a mark: all before it is on the disk. The next batch is written over it. Its `first` is 0,
// or, where the log goes on in the next segment, the number of the first entry there.

import { crc32 } from "node:zlib";
import type { LogPage } from "../../server/replication/log-sink.ts";

export const SEGMENT_HEAD_BYTES = 64;
export const BATCH_HEAD_BYTES = 32;
/** Where batches may begin: entries are padded to multiples of this. */
export const BATCH_ALIGN = 8;

const FORMAT = 2;
const FORMAT_WITHOUT_SIZE = 1;
const TITLE = new TextEncoder().encode("weighbridge log\n");
const SIZE_AT = 40;
const HEAD_CRC_AT = 48;
const BATCH_MAGIC = 0x474c4257;
const BATCH_CRC_AT = 24;

export type SegmentHead = {
  readonly salt: number;
  readonly number: number;
  readonly first: number;
  /** The size of the file when it was made; 0: an earlier version has made it. */
  readonly byteCount: number;
};

export function encodeHead({ salt, number, first, byteCount }: SegmentHead): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_HEAD_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(TITLE);
  view.setUint32(16, FORMAT, true);
  view.setUint32(20, salt, true);
  view.setFloat64(24, number, true);
  view.setFloat64(32, first, true);
  view.setFloat64(SIZE_AT, byteCount, true);
  view.setUint32(HEAD_CRC_AT, crc32(bytes.subarray(0, HEAD_CRC_AT)), true);
  return bytes;
}

/** Undefined for what is no head, or one of another format. */
export function decodeHead(bytes: Uint8Array): SegmentHead | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < SEGMENT_HEAD_BYTES || !TITLE.every((byte, i) => bytes[i] === byte)) return undefined;
  const format = view.getUint32(16, true);
  if (format !== FORMAT && format !== FORMAT_WITHOUT_SIZE) return undefined;
  const crcAt = format === FORMAT ? HEAD_CRC_AT : SIZE_AT;
  if (view.getUint32(crcAt, true) !== crc32(bytes.subarray(0, crcAt))) return undefined;
  const byteCount = format === FORMAT ? view.getFloat64(SIZE_AT, true) : 0;
  return { salt: view.getUint32(20, true), number: view.getFloat64(24, true), first: view.getFloat64(32, true), byteCount };
}

/** The head of a batch of these pages, which follow each other. */
export function encodeBatchHead(salt: number, pages: readonly LogPage[]): Uint8Array {
  return encodeBatch(salt, pages[0]?.first ?? 0, pages);
}

/** `next`: the number of the first entry in the next segment, if the log goes on there. */
export function encodeMark(salt: number, next = 0): Uint8Array {
  return encodeBatch(salt, next, []);
}

function encodeBatch(salt: number, first: number, pages: readonly LogPage[]): Uint8Array {
  const bytes = new Uint8Array(BATCH_HEAD_BYTES);
  const view = new DataView(bytes.buffer);
  const last = pages.at(-1)?.last ?? first - 1;
  view.setUint32(0, BATCH_MAGIC, true);
  view.setUint32(4, salt, true);
  view.setFloat64(8, first, true);
  view.setUint32(16, last - first + 1, true);
  view.setUint32(20, bytesOf(pages), true);
  let crc = crc32(bytes.subarray(0, BATCH_CRC_AT));
  for (const { entries } of pages) crc = crc32(entries, crc);
  view.setUint32(BATCH_CRC_AT, crc, true);
  return bytes;
}

export function bytesOf(pages: readonly LogPage[]): number {
  return pages.reduce((sum, { entries }) => sum + entries.byteLength, 0);
}

type BatchHead = { readonly first: number; readonly entryCount: number; readonly byteCount: number };

/** Undefined where no batch of this segment begins. */
export function decodeBatchHead(bytes: Uint8Array, at: number, salt: number): BatchHead | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (at + BATCH_HEAD_BYTES > bytes.length || view.getUint32(at, true) !== BATCH_MAGIC || view.getUint32(at + 4, true) !== salt)
    return undefined;
  return { first: view.getFloat64(at + 8, true), entryCount: view.getUint32(at + 16, true), byteCount: view.getUint32(at + 20, true) };
}

/** Where a batch of this segment seems to begin in these bytes, which are aligned; -1: nowhere. */
export function findBatch(bytes: Uint8Array, salt: number): number {
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >> 2);
  for (let word = 0; word + 1 < words.length; word += BATCH_ALIGN >> 2)
    if (words[word] === BATCH_MAGIC && words[word + 1] === salt) return word << 2;
  return -1;
}

/** Whether these are the entries that this head was written for. */
export function isWhole(head: Uint8Array, entries: Uint8Array): boolean {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  return view.getUint32(BATCH_CRC_AT, true) === crc32(entries, crc32(head.subarray(0, BATCH_CRC_AT)));
}
