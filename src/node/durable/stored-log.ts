// stored-log — reads the segments that a durable log left (segment-log.ts): checks all of them, finds where to begin,
// and hands out the entries from there on.
//
// A segment ends where no whole batch begins, or with a mark. In the last one that is the end of the log: a batch that
// was not synced may be there in part, and was acknowledged to nobody.
//
//   what the files have                                        then
//   a segment is shorter than it was made                      STATE_CORRUPT
//   a segment is missing, and a later or an earlier one there  STATE_CORRUPT
//   all segments are missing, and a log has begun here         STATE_CORRUPT
//   damaged or zero bytes, and a whole batch or mark behind    STATE_CORRUPT
//   the last segment ends without a mark                       one line at warn: the byte, and the last entry there
//   no segment, and no log has begun                           as a server that begins
//
// A process that was killed within MARK_MS of a write (segment-log.ts) leaves no mark. Bytes that were lost from some
// place up to the end of the last segment look the same, mark included: the line is all there is to see of that.
//
// Invariants:
//   StoredLog.S1. Only what follows the last whole batch is dropped. A batch that is damaged while a later one, or a
//       mark, is there, a number that is missing, a head that cannot be read: STATE_CORRUPT, with path and offset.
//   StoredLog.S2. Files do not shrink, and the mark of a full segment names the next one: a file that was cut, and a
//       last segment that was removed, are STATE_CORRUPT. So is a directory in which a log has begun (SegmentLog.W8),
//       and that has no segment.

import { join } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { EntryKind, readEntries } from "../../server/replication/log-entry.ts";
import type { LogPage } from "../../server/replication/log-sink.ts";
import { type FileLayer, type OpenFile, readUpTo } from "../checkpoint/file-layer.ts";
import * as layout from "./segment-bytes.ts";

/** Says by its name alone that a log has begun in its directory. */
export const BEGUN_FILE = "begun";
const SEGMENT_NAME: RegExp = /^log-(\d{12})$/u;
/** How much is read at once. */
const READ_BYTES = 1024 * 1024;

export type StoredSegment = layout.SegmentHead & {
  readonly path: string;
  /** Where its last whole batch ends, and the number of its last entry. */
  readonly end: number;
  readonly last: number;
  /** Whether a mark is there. */
  readonly isMarked: boolean;
  /** The number of the first entry in the next segment, if the mark names one; else 0. */
  readonly next: number;
};

type Found = { readonly segments: readonly StoredSegment[]; readonly start: number };

/**
 * The segments of a directory, in order, and the number of the entry to begin with: none, if no state in it is whole,
 * and it may be unfinished. Throws STATE_CORRUPT.
 */
export async function findLog(layer: FileLayer, directory: string, mayBeUnfinished = false): Promise<Found> {
  const all = await layer.list(directory);
  const names = all.filter((name) => SEGMENT_NAME.test(name));
  if (names.length === 0 && all.includes(BEGUN_FILE))
    throw new WeighbridgeError("STATE_CORRUPT", `the log in ${directory} has lost all of its segments`);
  const segments: StoredSegment[] = [];
  let [fill, start] = [0, 0];
  const note = ({ first, entries }: LogPage): void => {
    let number = first;
    for (const { kind, count } of readEntries(entries)) {
      if (number === 1 && !mayBeUnfinished) start = 1;
      if (kind === EntryKind.FILL) fill = number - 1; // DurableLog.D3
      if (kind === EntryKind.FILLED) start = fill;
      number += count;
    }
  };
  for (const name of names.sort()) {
    const path = join(directory, name);
    const before = segments.at(-1);
    const segment = await readSegment(layer, path, note);
    const isNext = before === undefined || (segment.number === before.number + 1 && segment.first === before.last + 1);
    if (!isNext) throw corrupt(before.path, before.end, `it ends with entry ${before.last}, but ${name} begins with ${segment.first}`);
    segments.push(segment);
  }
  const [first, final] = [segments[0], segments.at(-1)];
  // StoredLog.S2
  if (final !== undefined && final.next > 0)
    throw corrupt(final.path, final.end, `entry ${final.next} follows it, in a segment that is missing`);
  const isUnfinished = first !== undefined && start === 0 && first.last >= first.first;
  if (isUnfinished && mayBeUnfinished) return { segments, start: Infinity };
  if (isUnfinished) throw corrupt(first.path, 0, `it begins with entry ${first.first}, and no state that is whole`);
  return { segments, start };
}

/** Gives `repeat` the entries of these segments from this one on. */
export async function readLog(layer: FileLayer, { segments, start }: Found, repeat: (page: LogPage) => void): Promise<void> {
  for (const { path, last } of segments) {
    if (last < start) continue;
    await readSegment(layer, path, (page) => {
      if (page.last >= start) repeat(from(page, start));
    });
  }
}

/** The entries of a page from this number on. */
function from({ first, last, entries }: LogPage, start: number): LogPage {
  if (first >= start) return { first, last, entries };
  let number = first;
  for (const { at, bodyBytes, count } of readEntries(entries)) {
    number += count;
    if (number === start) return { first: start, last, entries: entries.subarray(at + bodyBytes) };
  }
  return { first, last, entries };
}

/** Calls `found` with the entries of each batch, which are its own until the next one. Throws STATE_CORRUPT. */
async function readSegment(layer: FileLayer, path: string, found: (page: LogPage) => void): Promise<StoredSegment> {
  const file = await layer.open(path);
  try {
    const byteCount = await file.size();
    const head = layout.decodeHead(await read(file, 0, Math.min(byteCount, layout.SEGMENT_HEAD_BYTES)));
    if (head === undefined) throw corrupt(path, 0, "it does not begin as a log of this version does");
    // StoredLog.S2
    if (byteCount < head.byteCount) throw corrupt(path, byteCount, `it was made with ${head.byteCount} bytes, and has ${byteCount}`);
    let [end, last, isMarked, next] = [layout.SEGMENT_HEAD_BYTES, head.first - 1, false, 0];
    /** What was read, from this position on. */
    let [ahead, aheadAt]: [Uint8Array, number] = [new Uint8Array(0), end];
    const bytesAt = async (position: number, count: number): Promise<Uint8Array> => {
      if (position + count > aheadAt + ahead.length) {
        aheadAt = position;
        ahead = await read(file, position, Math.min(Math.max(count, READ_BYTES), byteCount - position));
      }
      return ahead.subarray(position - aheadAt, position - aheadAt + count);
    };
    for (;;) {
      const batch = layout.decodeBatchHead(await bytesAt(end, layout.BATCH_HEAD_BYTES), 0, head.salt);
      if (batch === undefined || end + layout.BATCH_HEAD_BYTES + batch.byteCount > byteCount) break;
      const bytes = await bytesAt(end, layout.BATCH_HEAD_BYTES + batch.byteCount);
      const entries = bytes.subarray(layout.BATCH_HEAD_BYTES);
      if (!layout.isWhole(bytes, entries)) break;
      isMarked = batch.entryCount === 0;
      if (isMarked) next = batch.first;
      if (isMarked) break;
      if (batch.first !== last + 1) throw corrupt(path, end, `entry ${batch.first} follows entry ${last}`);
      last += batch.entryCount;
      found({ first: batch.first, last, entries });
      end += layout.BATCH_HEAD_BYTES + batch.byteCount;
    }
    await checkTail(file, { path, end, byteCount, salt: head.salt });
    return { ...head, byteCount, path, end, last, isMarked, next };
  } finally {
    await file.close();
  }
}

type Tail = { readonly path: string; readonly end: number; readonly byteCount: number; readonly salt: number };

/** StoredLog.S1. One batch is written at a time: where a later one begins, the one at `end` was synced. */
async function checkTail(file: OpenFile, { path, end, byteCount, salt }: Tail): Promise<void> {
  for (let at = end + layout.BATCH_ALIGN; at < byteCount; at += READ_BYTES) {
    const found = layout.findBatch(await read(file, at, Math.min(READ_BYTES, byteCount - at)), salt);
    if (found >= 0) throw corrupt(path, end, `a batch of entries is damaged; the next one is at ${at + found}`);
  }
}

async function read(file: OpenFile, position: number, byteCount: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(byteCount);
  await readUpTo(file, bytes, position);
  return bytes;
}

function corrupt(path: string, offset: number, why: string): WeighbridgeError {
  return new WeighbridgeError("STATE_CORRUPT", `${path} is damaged at byte ${offset}: ${why}`);
}
