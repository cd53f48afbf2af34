// state-lock — lets one scheduler use a state directory: a file `lock` with the name of its holder, which the holder
// rewrites every second. No lock of the operating system: Node has none, and those of network disks are not to be
// relied on.
//
//   {"id":"…","host":"node-7","pid":4711,"startedAt":"…","beat":12}
//
// A lock is taken over at once if its process on this machine is gone, and otherwise when its `beat` stands still for
// SILENT_MS: no clocks are compared.
//
// Invariants:
//   StateLock.L1. A scheduler that finds its lock replaced writes nothing more: `check` comes before every write.
//   StateLock.L2. Of two that take over one lock at the same moment the last one has it; the other one finds out before
//       it has written anything.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { CancelTimer, Clock } from "../../base/clock.ts";
import { sleep } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { FileLayer, OpenFile } from "../checkpoint/file-layer.ts";
import { readText, stateIo, writeAll } from "./state-io.ts";

const LOCK_FILE = "lock";
const BEAT_MS = 1000;
/** A holder elsewhere that lets this much time pass has ended, or finds out that it was replaced (StateLock.L1). */
const SILENT_MS = 5000;
/** So that of two that take over at once each sees the other. */
const SETTLE_MS = 50;

export type LockHolder = { readonly id: string; readonly host: string; readonly pid: number; readonly startedAt: string };

export type StateLockOptions = {
  readonly directory: string;
  readonly layer: FileLayer;
  readonly clock: Clock;
  /** For tests; otherwise this process. */
  readonly self?: LockHolder;
  /** For messages: what a holder is, and what to do about one; what to do when the disk has failed. */
  readonly words?: { readonly holder: string; readonly fix: string; readonly diskFix: string };
  /** Whether the process of this holder, on this machine, has ended. */
  readonly isGone?: (holder: LockHolder) => boolean;
};

export class StateLock {
  readonly #options: StateLockOptions;
  readonly #path: string;
  readonly #self: LockHolder;
  #file: OpenFile | undefined;
  #beat = 0;
  #cancelTimer: CancelTimer = () => {};
  #isReleased = false;

  constructor(options: StateLockOptions) {
    this.#options = options;
    this.#path = join(options.directory, LOCK_FILE);
    this.#self = options.self ?? thisProcess();
  }

  /** Throws STATE_HELD naming the holder, STATE_IO. */
  async acquire(): Promise<void> {
    const { layer } = this.#options;
    try {
      this.#file = await layer.create(this.#path);
      await this.#write();
    } catch (thrown) {
      if (this.#file !== undefined) await layer.remove(this.#path); // it has no name in it
      if ((thrown as { readonly code?: string }).code !== "EEXIST") throw stateIo(`cannot write ${this.#path}`, thrown, this.#diskFix);
      await this.#takeOver();
    }
    this.#next();
  }

  /** Throws STATE_HELD if another one has taken the lock over (StateLock.L1), STATE_IO if its file is gone. */
  async check(): Promise<void> {
    const text = await this.#read();
    if (text === undefined) throw stateIo(`cannot use ${this.#options.directory}`, new Error("its lock was removed"), this.#diskFix);
    if (!this.#isOwn(text)) throw held(this.#options, holderOf(text));
  }

  async release(): Promise<void> {
    this.#isReleased = true;
    this.#cancelTimer();
    await this.#file?.close().catch(() => {}); // the file is of no use any more
    this.#file = undefined;
    if (this.#isOwn((await this.#read()) ?? "")) await this.#options.layer.remove(this.#path);
  }

  /** A beat may be half written: the id comes first, and stays. */
  #isOwn(text: string): boolean {
    return text.startsWith(`{"id":${JSON.stringify(this.#self.id)}`);
  }

  async #takeOver(): Promise<void> {
    const { clock, layer, isGone = isProcessGone } = this.#options;
    const before = (await this.#read()) ?? "";
    const holder = holderOf(before);
    const isHere = holder?.host === this.#self.host;
    if (holder !== undefined && isHere && !isGone(holder)) throw held(this.#options, holder);
    if (!isHere) await sleep(clock, SILENT_MS);
    const now = (await this.#read()) ?? "";
    if (now !== before) throw held(this.#options, holderOf(now));
    const own = `${this.#path}.${this.#self.id}`;
    try {
      this.#file = await layer.create(own);
      await this.#write();
      await layer.rename(own, this.#path);
    } catch (thrown) {
      await layer.remove(own).catch(() => {}); // of no use without a name in it
      throw stateIo(`cannot write ${own}`, thrown, this.#diskFix);
    }
    await sleep(clock, SETTLE_MS);
    await this.check(); // StateLock.L2
  }

  async #write(): Promise<void> {
    const bytes = new TextEncoder().encode(`${JSON.stringify({ ...this.#self, beat: this.#beat++ })}\n`);
    if (this.#file !== undefined) await writeAll(this.#file, bytes, 0); // the beat never gets shorter
  }

  #next(): void {
    if (this.#isReleased) return; // while a beat was written
    this.#cancelTimer = this.#options.clock.after(BEAT_MS, () => {
      // A beat that fails is missed; a process that takes over for that is noticed (StateLock.L1).
      this.#write().then(
        () => this.#next(),
        () => this.#next(),
      );
    });
  }

  /** Undefined: there is no such file. */
  async #read(): Promise<string | undefined> {
    return await readText(this.#options.layer, this.#path);
  }

  get #diskFix(): string | undefined {
    return this.#options.words?.diskFix;
  }
}

function holderOf(text: string): LockHolder | undefined {
  try {
    return JSON.parse(text) as LockHolder; // our own file; what is in it is shown and compared, nothing else
  } catch {
    return undefined; // a process that died before it had written its name
  }
}

const SCHEDULER_FIX = "stop that one first, or name another directory (--state-dir) or job (--job)";

function held({ directory, words }: StateLockOptions, by: LockHolder | undefined): WeighbridgeError {
  const { holder = "scheduler", fix = SCHEDULER_FIX } = words ?? {};
  const who = by === undefined ? `another ${holder}` : `the ${holder} of process ${by.pid} on ${by.host}`;
  return new WeighbridgeError("STATE_HELD", `${who} uses the state in ${directory}; ${fix}`);
}

function thisProcess(): LockHolder {
  return { id: randomUUID(), host: hostname(), pid: process.pid, startedAt: startOf(process.pid) };
}

/** A number that is used again belongs to a process of another start, where the system tells. */
function isProcessGone({ pid, startedAt }: LockHolder): boolean {
  try {
    process.kill(pid, 0);
  } catch (thrown) {
    return (thrown as { readonly code?: string }).code === "ESRCH";
  }
  const start = startOf(pid);
  return start !== "" && startedAt !== "" && start !== startedAt;
}

/** When a process was started, as Linux counts; "" where that is not known. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
