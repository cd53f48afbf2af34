// file-store — a scheduler's records in a directory of their own. record-lines.ts has their text, state-lock.ts keeps
// other schedulers away.
//
//   <state directory>/<job>@<port>/records         what the scheduler decided
//                                  records.aside   of an earlier run, whose nodes did not come back
//                                  records.new     while `records` is written anew
//                                  lock
//
// Invariants:
//   FileStore.F1. `append` and `replace` resolve when the disk has the records, and the directory their name.
//   FileStore.F2. Whatever fails, `records` holds what was durable before, and at most an unfinished line behind it.
//   FileStore.F3. While the disk is full the scheduler decides nothing, and tries again; every other failure ends it.
//   FileStore.F4. A job that has ended leaves nothing, except a state that was set aside.

import { dirname, join } from "node:path";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { StateRecord } from "../../scheduler/scheduler-state.ts";
import type { StateStore } from "../../scheduler/state-store.ts";
import { type FileLayer, type OpenFile, realFiles } from "../checkpoint/file-layer.ts";
import { DiskRetry } from "./disk-retry.ts";
import { batchLine, endLine, headLine, type RecordFile, readLines } from "./record-lines.ts";
import { readText, stateIo, writeAll } from "./state-io.ts";
import { StateLock, type StateLockOptions } from "./state-lock.ts";

const RECORDS_FILE = "records";
const RETRY_WORDS = {
  full: "the scheduler cannot write its state, and decides nothing until it can",
  again: "the scheduler's state is written again",
};

export type FileStoreOptions = Pick<StateLockOptions, "directory" | "clock" | "self" | "isGone"> & {
  readonly log: Log;
  readonly layer?: FileLayer;
};

export class FileStore implements StateStore {
  onLost: (error: WeighbridgeError) => void = () => {};
  readonly standbys: readonly string[] = [];
  readonly location: string;
  readonly #options: FileStoreOptions;
  readonly #layer: FileLayer;
  readonly #retry: DiskRetry;
  readonly #lock: StateLock;
  #file: OpenFile | undefined;
  /** Where the next line goes, and its number. */
  #end = { position: 0, line: 0 };
  #isHeld = false;
  #isClosed = false;

  constructor(options: FileStoreOptions) {
    const { directory, clock, log, layer = realFiles } = options;
    this.#options = options;
    this.#layer = layer;
    this.location = join(directory, RECORDS_FILE);
    this.#retry = new DiskRetry({ clock, log, words: RETRY_WORDS, fields: { state: this.location } });
    this.#lock = new StateLock({ ...options, layer });
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  async open(): Promise<readonly StateRecord[]> {
    const { directory, log } = this.#options;
    try {
      await this.#layer.makeDirectory(directory);
      // FileStore.F1: they may be new, with the state directory above them
      for (const above of [dirname(directory), dirname(dirname(directory))]) await this.#layer.syncDirectory(above);
    } catch (thrown) {
      throw stateIo(`cannot make ${directory}`, thrown);
    }
    await this.#lock.acquire();
    this.#isHeld = true;
    try {
      const { records, unfinishedBytes } = await this.#read();
      if (unfinishedBytes > 0)
        log.warn("the last line of the scheduler's state is unfinished and was told to nobody", {
          state: this.location,
          bytes: unfinishedBytes,
        });
      return records;
    } catch (thrown) {
      await this.close();
      throw thrown;
    }
  }

  async append(records: readonly StateRecord[]): Promise<void> {
    await this.#attempt(async () => {
      await this.#lock.check();
      await this.#writeLine(batchLine(this.#end.line, records)); // FileStore.F1
    });
  }

  async replace(records: readonly StateRecord[], { keepsOld }: { readonly keepsOld: boolean }): Promise<void> {
    const { directory } = this.#options;
    const next = `${this.location}.new`;
    await this.#attempt(async () => {
      await this.#lock.check();
      await this.#layer.remove(next);
      const before = this.#file;
      const end = this.#end;
      try {
        this.#file = await this.#layer.create(next);
        this.#end = { position: 0, line: 0 };
        await this.#writeLine(`${headLine()}${batchLine(1, records)}`, 2);
        if (keepsOld) await this.#keepOld();
        await this.#layer.rename(next, this.location);
        await this.#layer.syncDirectory(directory); // FileStore.F1
      } catch (thrown) {
        if (this.#file !== before) await this.#file?.close().catch(() => {}); // it is written anew
        this.#file = before;
        this.#end = end;
        throw thrown;
      }
      await before?.close();
    });
  }

  async clear(): Promise<void> {
    await this.#attempt(async () => {
      await this.#lock.check();
      // If it cannot be removed below, the mark says that it is over.
      await this.#writeLine(endLine(this.#end.line));
      await this.#layer.remove(this.location); // FileStore.F4
    });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isHeld = false;
    this.#retry.close();
    await this.#file?.close().catch(() => {}); // what was durable stays so
    await this.#lock.release();
    const { directory } = this.#options;
    const left = await this.#layer.list(directory).catch(() => undefined);
    if (left?.length === 0) await this.#layer.remove(directory).catch(() => {}); // an empty directory harms nobody
  }

  async #keepOld(): Promise<void> {
    try {
      await this.#layer.rename(this.location, `${this.location}.aside`);
    } catch (thrown) {
      if ((thrown as { readonly code?: string }).code !== "ENOENT") throw thrown;
    }
  }

  async #read(): Promise<RecordFile> {
    const text = await readText(this.#layer, this.location);
    return text === undefined ? { records: [], unfinishedBytes: 0 } : readLines(text, this.location);
  }

  /** Writes behind what is there, over what an earlier try left (FileStore.F2). */
  async #writeLine(text: string, lineCount = 1): Promise<void> {
    const file = this.#file;
    if (file === undefined) return; // nothing was written, so nothing is to be ended
    const position = await writeAll(file, new TextEncoder().encode(text), this.#end.position);
    await file.sync();
    this.#end = { position, line: this.#end.line + lineCount };
  }

  /** FileStore.F3 */
  async #attempt(step: () => Promise<void>): Promise<void> {
    try {
      await this.#retry.run(step);
    } catch (thrown) {
      throw this.#isClosed ? new WeighbridgeError("CLOSED", "the scheduler was closed", { cause: thrown }) : this.#lose(thrown);
    }
  }

  #lose(thrown: unknown): WeighbridgeError {
    const error = isWeighbridgeError(thrown) ? thrown : stateIo(`cannot write ${this.location}`, thrown);
    const isFirst = this.#isHeld;
    this.#isHeld = false;
    if (isFirst) this.onLost(error);
    return error;
  }
}
