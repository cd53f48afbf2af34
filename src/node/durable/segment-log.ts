// segment-log — a server's log in files of its own (docs/decisions/0071). segment-bytes.ts has their bytes,
// stored-log.ts reads them when the server comes back, state-lock.ts keeps other processes away.
//
//   <directory>/log-000000000007   a segment: batches of entries, one after the other; zeros behind them
//               spare-000000000003 a segment that is not needed any more, or not yet: the next ones are made of these
//               begun              a segment was made here
//               ended              the log is being removed
//               lock
//
//   write ──► gathered, while a batch is written and synced ──► the next batch, of all that came meanwhile ──► resolved
//
// A file that grows costs several times as much as one that has its size: a segment is filled with zeros before it is
// used, which costs as much as to write it. So what was a segment is used again, as many of them as a log has between
// two of its checkpoints, and where there is none, one is filled while the one before it is written.
//
// Invariants (with DurableLog.D1 and DurableLog.D2):
//   SegmentLog.W1. One batch is written at a time, and synced before the next one: only the last one can be unfinished.
//   SegmentLog.W2. A segment has its head, on the disk, before it has its name, and its name before its first batch.
//   SegmentLog.W3. While the disk is full nothing is acknowledged, and the batch is tried again; every other failure
//       ends the server.
//   SegmentLog.W4. What was found and repeated is on the disk before anything is written behind it: the process before
//       may have died between a write and its sync.
//   SegmentLog.W5. When nothing was written for MARK_MS, and when the log is closed, a mark behind the last batch says
//       that it was synced: one that is damaged is not taken for one that is unfinished.
//   SegmentLog.W6. A segment never changes its size, which its head has. One that is full ends with a mark that names
//       the first entry of the next one, written between the name of that one and its first batch.
//   SegmentLog.W7. Before the files of a log are removed one by one, a file of no bytes says that it has ended: what a
//       process leaves that is killed meanwhile is no damaged log, and the next one removes the rest.
//   SegmentLog.W8. Before its first batch is acknowledged a log has a file that says that it has begun. A directory
//       with that file and without a segment has lost them.

import { randomInt } from "node:crypto";
import { open } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { DurableLog, LogPage } from "../../server/replication/log-sink.ts";
import { type FileLayer, type OpenFile, openFile, realFiles, reasonText } from "../checkpoint/file-layer.ts";
import { DiskRetry } from "../state/disk-retry.ts";
import { stateIo, writeAll } from "../state/state-io.ts";
import { StateLock, type StateLockOptions } from "../state/state-lock.ts";
import * as layout from "./segment-bytes.ts";
import { BEGUN_FILE, findLog, readLog, type StoredSegment } from "./stored-log.ts";

const SEGMENT_BYTES = 64 * 1024 * 1024;
const SPARE_NAME: RegExp = /^spare-\d{12}$/u;
/** Its name is all it has. */
export const ENDED_FILE = "ended";
const SPARES_MAX = 16;
/** Batches up to this size are written by one call. */
const GATHERED_BYTES = 1024 * 1024;
const MARK_MS = 100;
/** How long this process may write before it looks again whether it still has the lock. */
const LOCK_CHECK_MS = 500;
const RETRY_WORDS = {
  full: "the server cannot write its log, and acknowledges nothing until it can",
  again: "the server writes its log again",
};
const UNMARKED_WORDS =
  "the log ends without its mark: its process was killed within 100 ms of a write, or what followed on the disk is lost";
const FIX = "start the server again when that is mended";
const LOCK_WORDS = { holder: "server", fix: "stop that one first, or name another directory (--durable)", diskFix: FIX };

/**
 * Files opened to read and write, and synced without what only says when they were changed. Segments have their size
 * from the start, so a sync writes their bytes alone.
 */
export const durableFiles: FileLayer = {
  ...realFiles,
  create: async (path) => openFile(await open(path, "wx+"), "datasync"),
  open: async (path) => openFile(await open(path, "r+"), "datasync"),
};

export type SegmentLogOptions = Pick<StateLockOptions, "directory" | "clock" | "self" | "isGone"> & {
  readonly log: Log;
  readonly layer?: FileLayer;
  readonly segmentBytes?: number;
  /** Whether a log without any state that is whole has nothing to repeat, rather than being damaged. */
  readonly mayBeUnfinished?: boolean;
};

type Waiting = LogPage & { readonly resolve: (last: number) => void; readonly reject: (error: WeighbridgeError) => void };
type Segment = Pick<StoredSegment, "path" | "number" | "salt" | "byteCount"> & { last: number };

export class SegmentLog implements DurableLog {
  readonly name = "the disk";
  onFailed: (error: WeighbridgeError) => void = () => {};
  readonly #options: SegmentLogOptions;
  readonly #layer: FileLayer;
  readonly #clock: Clock;
  readonly #lock: StateLock;
  #isAcquired = false;
  readonly #retry: DiskRetry;
  readonly #gathered = new Uint8Array(GATHERED_BYTES);
  /** Those that are needed, in order; the last one is written to. */
  readonly #segments: Segment[] = [];
  /** Files that the next segments are made of. */
  readonly #spares: string[] = [];
  /** While a spare is filled. */
  #filling: Promise<void> | undefined;
  #file: OpenFile | undefined;
  #end = 0;
  #queue: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #trimTo = 0;
  #checkedAtMs = -Infinity;
  #failure: WeighbridgeError | undefined;
  #cancelMark: CancelTimer = () => {};

  constructor(options: SegmentLogOptions) {
    const { directory, clock, log, layer = durableFiles } = options;
    this.#options = options;
    this.#layer = layer;
    this.#clock = clock;
    this.#lock = new StateLock({ ...options, directory, layer, words: LOCK_WORDS });
    this.#retry = new DiskRetry({ clock, log, words: RETRY_WORDS, fields: { directory } });
  }

  /** Keeps other processes out, before `open` or with it. May be tried again. Throws STATE_HELD, STATE_IO. */
  async acquire(): Promise<void> {
    const { directory } = this.#options;
    try {
      await this.#layer.makeDirectory(directory);
      for (const above of [dirname(directory), dirname(dirname(directory))]) await this.#layer.syncDirectory(above);
      await this.#lock.acquire();
      this.#isAcquired = true;
    } catch (thrown) {
      throw stateIo(`cannot use ${directory}`, thrown, FIX);
    }
  }

  async open(repeat: (page: LogPage) => void): Promise<void> {
    const { directory } = this.#options;
    try {
      if (!this.#isAcquired) await this.acquire();
      if ((await this.#layer.list(directory)).includes(ENDED_FILE)) await this.#removeAll(); // SegmentLog.W7
      const found = await findLog(this.#layer, directory, this.#options.mayBeUnfinished);
      await readLog(this.#layer, found, repeat);
      this.#segments.push(...found.segments);
      const names = await this.#layer.list(directory);
      this.#spares.push(...names.filter((name) => SPARE_NAME.test(name)).map((name) => join(directory, name)));
      this.#trimTo = found.start;
      const last = found.segments.at(-1);
      if (last === undefined) return;
      if (!last.isMarked && found.start < Infinity)
        this.#options.log.warn(UNMARKED_WORDS, { path: last.path, byte: last.end, entry: last.last });
      this.#file = await this.#layer.open(last.path);
      this.#end = last.end;
      await this.#file.sync(); // SegmentLog.W4
      await this.#noteBegun();
      await this.#layer.syncDirectory(directory);
    } catch (thrown) {
      await this.close();
      throw stateIo(`cannot use ${directory}`, thrown, FIX);
    }
  }

  write(page: LogPage): Promise<number> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...page, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  trim(position: number): void {
    this.#trimTo = position;
  }

  async remove(): Promise<void> {
    if (!this.#isAcquired) return; // it is another process's
    await this.#stop();
    const { directory, log } = this.#options;
    try {
      // SegmentLog.W7. A full disk takes no name; then this process is not to be killed before it is done.
      await this.#layer.create(join(directory, ENDED_FILE)).then(
        async (file) => await file.close(),
        () => {},
      );
      await this.#layer.syncDirectory(directory);
      await this.#removeAll();
    } catch (thrown) {
      log.warn("the log of a job that has ended could not be removed", { directory, reason: reasonText(thrown) });
    }
    await this.#lock.release().catch(() => {}); // an old lock harms nobody
    await this.#layer.remove(directory).catch(() => {}); // nor an empty directory
  }

  /** Everything but the lock, which is released afterwards; what says that the log has ended comes last. */
  async #removeAll(): Promise<void> {
    const { directory } = this.#options;
    const names = (await this.#layer.list(directory)).filter((name) => name !== "lock" && name !== ENDED_FILE);
    for (const name of [...names, ENDED_FILE]) await this.#layer.remove(join(directory, name));
  }

  async close(): Promise<void> {
    await this.#stop();
    await this.#lock.release().catch(() => {}); // the next owner sees that this process is gone
  }

  async #stop(): Promise<void> {
    const isFirst = this.#failure === undefined;
    this.#failure ??= new WeighbridgeError("CLOSED", "the server was closed");
    this.#cancelMark();
    this.#retry.close();
    await this.#writing;
    await this.#filling;
    if (isFirst) await this.#mark().catch(() => {}); // without it the log is as after a kill
    await this.#file?.close().catch(() => {}); // what was synced stays so
    this.#file = undefined;
  }

  // Batches.

  /** SegmentLog.W1 */
  async #writeAll(): Promise<void> {
    while (this.#queue.length > 0 && this.#failure === undefined) {
      const pages = this.#queue.splice(0);
      try {
        await this.#attempt(() => this.#writeBatch(pages));
        const last = pages.at(-1)?.last ?? 0;
        for (const { resolve } of pages) resolve(last);
        await this.#attempt(() => this.#dropOld());
      } catch (thrown) {
        this.#fail(thrown, pages);
      }
    }
    if (this.#failure !== undefined) for (const { reject } of this.#queue.splice(0)) reject(this.#failure);
    this.#writing = undefined;
    this.#cancelMark();
    if (this.#failure === undefined) this.#cancelMark = this.#clock.after(MARK_MS, () => this.#markIdle());
  }

  #markIdle(): void {
    this.#writing ??= this.#mark().then(
      () => this.#marked(),
      (thrown: unknown) => {
        this.#fail(thrown, []);
        this.#marked();
      },
    );
  }

  /** Goes on with what came meanwhile. */
  #marked(): void {
    this.#writing = this.#queue.length > 0 ? this.#writeAll() : undefined;
  }

  /** SegmentLog.W5 */
  async #mark(): Promise<void> {
    const [file, segment] = [this.#file, this.#segments.at(-1)];
    if (file === undefined || segment === undefined) return;
    await this.#lock.check();
    await writeAll(file, layout.encodeMark(segment.salt), this.#end);
    await file.sync();
  }

  async #writeBatch(pages: readonly LogPage[]): Promise<void> {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#checkedAtMs >= LOCK_CHECK_MS) {
      await this.#lock.check();
      this.#checkedAtMs = nowMs;
    }
    const byteCount = layout.BATCH_HEAD_BYTES + layout.bytesOf(pages);
    const { file, segment } = await this.#segmentFor(byteCount, pages[0]?.first ?? 0);
    const pieces = [layout.encodeBatchHead(segment.salt, pages), ...pages.map(({ entries }) => entries)];
    let at = this.#end;
    for (const piece of byteCount <= GATHERED_BYTES ? [this.#gather(pieces)] : pieces) at = await writeAll(file, piece, at);
    await file.sync();
    this.#end = at;
    segment.last = pages.at(-1)?.last ?? segment.last;
    if (this.#spares.length === 0 && this.#end > segment.byteCount / 2) this.#filling ??= this.#fillSpare(segment.number + 1);
  }

  #gather(pieces: readonly Uint8Array[]): Uint8Array {
    let byteCount = 0;
    for (const piece of pieces) {
      this.#gathered.set(piece, byteCount);
      byteCount += piece.byteLength;
    }
    return this.#gathered.subarray(0, byteCount);
  }

  // Segments.

  /** The segment that has room for a batch of this size. */
  async #segmentFor(byteCount: number, first: number): Promise<{ readonly file: OpenFile; readonly segment: Segment }> {
    const current = this.#segments.at(-1);
    if (this.#file !== undefined && current !== undefined && this.#end + byteCount + layout.BATCH_HEAD_BYTES <= current.byteCount)
      return { file: this.#file, segment: current };
    await this.#filling;
    const { directory, segmentBytes = SEGMENT_BYTES } = this.#options;
    const number = (current?.number ?? 0) + 1;
    const spare = this.#spares.at(-1) ?? join(directory, fileName("spare", number));
    const file = await this.#openSpare(spare, Math.max(segmentBytes, layout.SEGMENT_HEAD_BYTES + byteCount + layout.BATCH_HEAD_BYTES));
    const head = { salt: randomInt(1, 2 ** 32), number, first, byteCount: await file.size() };
    const path = join(directory, fileName("log", number));
    try {
      await writeAll(file, layout.encodeHead(head), 0);
      await file.sync();
      await this.#layer.rename(spare, path); // SegmentLog.W2
      if (this.#spares.at(-1) === spare) this.#spares.pop();
      if (current === undefined) await this.#noteBegun();
      await this.#layer.syncDirectory(directory);
      if (this.#file !== undefined && current !== undefined) {
        await writeAll(this.#file, layout.encodeMark(current.salt, first), this.#end); // SegmentLog.W6
        await this.#file.sync();
      }
    } catch (thrown) {
      await file.close().catch(() => {}); // it is made again
      throw thrown;
    }
    await this.#file?.close();
    this.#file = file;
    this.#end = layout.SEGMENT_HEAD_BYTES;
    const segment = { ...head, path, last: first - 1 };
    this.#segments.push(segment);
    return { file, segment };
  }

  /** SegmentLog.W8 */
  async #noteBegun(): Promise<void> {
    const { directory } = this.#options;
    if ((await this.#layer.list(directory)).includes(BEGUN_FILE)) return;
    await (await this.#layer.create(join(directory, BEGUN_FILE))).close();
  }

  /** Fills the file that the segment of this number is made of. Never throws: it is made when it is needed. */
  async #fillSpare(number: number): Promise<void> {
    const { directory, segmentBytes = SEGMENT_BYTES } = this.#options;
    const path = join(directory, fileName("spare", number));
    try {
      await (await this.#openSpare(path, segmentBytes)).close();
      this.#spares.unshift(path);
    } catch (thrown) {
      this.#options.log.debug("a file for the log is not made ahead", { path, reason: reasonText(thrown) });
    }
    this.#filling = undefined;
  }

  /** What was a segment, or a file of zeros, of at least this size. */
  async #openSpare(path: string, byteCount: number): Promise<OpenFile> {
    const before = await this.#layer.open(path).catch(() => undefined); // there is none
    if (before !== undefined && (await before.size()) >= byteCount) return before;
    await before?.close();
    await this.#layer.remove(path);
    const file = await this.#layer.create(path);
    try {
      const zeros = new Uint8Array(Math.min(byteCount, GATHERED_BYTES));
      for (let at = 0; at < byteCount; ) at = await writeAll(file, zeros.subarray(0, byteCount - at), at);
      await file.sync();
      return file;
    } catch (thrown) {
      await file.close().catch(() => {}); // it is made again
      throw thrown;
    }
  }

  /** Segments whose entries are not needed are spares. */
  async #dropOld(): Promise<void> {
    const { directory } = this.#options;
    for (let [oldest, next] = this.#segments; oldest !== undefined && next !== undefined; [oldest, next] = this.#segments) {
      if (oldest.last >= this.#trimTo) return;
      const spare = join(directory, fileName("spare", oldest.number));
      if (this.#spares.length < SPARES_MAX) await this.#layer.rename(oldest.path, spare);
      else await this.#layer.remove(oldest.path);
      await this.#layer.syncDirectory(directory); // before it is written to: until then it is the log's first segment
      if (this.#spares.length < SPARES_MAX) this.#spares.push(spare);
      this.#segments.shift();
    }
  }

  // Failures.

  /** SegmentLog.W3 */
  async #attempt(step: () => Promise<void>): Promise<void> {
    try {
      await this.#retry.run(step);
    } catch (thrown) {
      throw this.#failure ?? thrown;
    }
  }

  #fail(thrown: unknown, pages: readonly Waiting[]): void {
    const isFirst = this.#failure === undefined;
    const { directory } = this.#options;
    const error = isWeighbridgeError(thrown) ? thrown : stateIo(`cannot write the log in ${directory}`, thrown, FIX);
    this.#failure ??= error;
    for (const { reject } of pages) reject(error);
    if (isFirst) this.onFailed(error);
  }
}

function fileName(kind: "log" | "spare", number: number): string {
  return `${kind}-${String(number).padStart(12, "0")}`;
}
