// stopped-servers — where servers that are stopped leave their state for the next process of their rank
// (server/replication/planned-stop.ts): a log in <checkpoint directory>/stopped/<job>/server-<rank>. What a process
// finds there and may not go on with, of another run or unfinished, is kept in server-<rank>.aside.
//
// Of two processes that come for one state the second looks again and again whether the first has gone on with it.
// Nobody could tell it: the first one does not know of it, may be on another machine, and may be killed before it has
// used the state; its lock is a file (state-lock.ts), and disks that machines share report no changes to each other.

import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { PlannedStopFiles } from "../../server/replication/planned-stop.ts";
import type { FileLayer } from "../checkpoint/file-layer.ts";
import type { NodeConfig } from "../config/node-config.ts";
import { stateIo } from "../state/state-io.ts";
import { jobDirectory } from "./durable-directory.ts";
import { durableFiles, ENDED_FILE, SegmentLog } from "./segment-log.ts";
import { BEGUN_FILE } from "./stored-log.ts";

const DIRECTORY = "stopped";
/** Nobody waits for single updates: its files need not be there in advance. */
const SEGMENT_BYTES = 4 * 1024 * 1024;

/** How often a process looks again whether another one still uses what it would go on with, and when it says so. */
const LOOK_MS = 100;
const TELL_MS = 1000;

export type StoppedServersOptions = Pick<NodeConfig, "checkpointDir" | "durable" | "job" | "rank" | "van" | "startTimeoutMs"> & {
  /** For tests. */
  readonly layer?: FileLayer;
};

export class StoppedServers {
  readonly #options: StoppedServersOptions;
  /** Whether what a process before has left is not to be used. */
  #isGivenUp = false;
  #log: Log | undefined;

  constructor(options: StoppedServersOptions) {
    this.#options = options;
  }

  /**
   * Undefined: this server has no such directory, or needs none. Without a rank it looks for the only state that no
   * other process uses. Throws STATE_HELD if another process of its rank goes on using what was left, STATE_IO.
   */
  async files(clock: Clock, log: Log): Promise<PlannedStopFiles | undefined> {
    const { checkpointDir, durable, job, rank, van, startTimeoutMs, layer = durableFiles } = this.#options;
    if (checkpointDir === undefined || durable !== undefined || van === "zmq") return undefined;
    const root = jobDirectory(join(checkpointDir, DIRECTORY), job);
    const logIn = (name: string): SegmentLog =>
      new SegmentLog({ directory: join(root, name), clock, log, layer, segmentBytes: SEGMENT_BYTES, mayBeUnfinished: true });
    const asideIfAny = async (name: string): Promise<void> => {
      const one = await taken(name, startTimeoutMs); // another process that came for it may set it aside just now
      if (one !== undefined) await setAside(one.left, join(root, name), log);
    };
    const logOf = async (of: number): Promise<SegmentLog> => {
      await asideIfAny(`server-${of}`);
      return logIn(`server-${of}`);
    };
    const taken = async (name: string, waitMs: number): Promise<Taken | undefined> => {
      if (!(await hasLog(join(root, name)))) return undefined;
      const waits = (): void =>
        log.info("another process uses what a server of this rank has left: waiting for it", { directory: join(root, name) });
      const left = await take(logIn(name), join(root, name), clock, { waitMs, waits });
      return left && { name, left };
    };
    if (this.#isGivenUp) {
      if (rank !== undefined) await asideIfAny(`server-${rank}`);
      return { logOf };
    }
    const found = rank === undefined ? await onlyOne(await namesIn(root), taken, log) : await taken(`server-${rank}`, startTimeoutMs);
    if (found === undefined) return { logOf };
    this.#log = log;
    return { logOf, found: found.left, setAside: () => asideIfAny(found.name) };
  }

  /**
   * Whether the server may start without what it found, after this failure to start with it: it belongs to a run that
   * is over.
   */
  giveUp(thrown: unknown): boolean {
    if (this.#log === undefined || !isWeighbridgeError(thrown, "FENCED")) return false;
    this.#log.warn("what a server of this rank left when it was stopped is not used", { reason: thrown.message });
    this.#isGivenUp = true;
    this.#log = undefined;
    return true;
  }
}

/** What a process has kept others out of, and the name of its directory. */
type Taken = { readonly name: string; readonly left: SegmentLog };

async function namesIn(directory: string): Promise<readonly string[]> {
  return await durableFiles.list(directory).catch(() => []); // there is no such directory
}

async function hasLog(directory: string): Promise<boolean> {
  const names = await namesIn(directory);
  const hasBegun = names.includes(BEGUN_FILE) || names.some((name) => name.startsWith("log-")); // SegmentLog.W8
  return hasBegun && !names.includes(ENDED_FILE); // SegmentLog.W7
}

/**
 * Keeps other processes out of what was left, once those that use it are done. Undefined: one of them has gone on with
 * it. Throws STATE_HELD after this long, STATE_IO.
 */
async function take(
  left: SegmentLog,
  directory: string,
  clock: Clock,
  { waitMs, waits }: { readonly waitMs: number; readonly waits: () => void },
): Promise<SegmentLog | undefined> {
  const fromMs = clock.nowMs();
  let isTold = false;
  for (;;) {
    try {
      await left.acquire();
      break;
    } catch (thrown) {
      if (isWeighbridgeError(thrown, "STATE_IO") && !(await hasLog(directory))) {
        await left.close(); // the other one has removed the directory meanwhile, and a lock in it
        return undefined;
      }
      if (!isWeighbridgeError(thrown, "STATE_HELD") || clock.nowMs() >= fromMs + waitMs) throw thrown;
    }
    if (!isTold && clock.nowMs() >= fromMs + TELL_MS) {
      isTold = true;
      waits();
    }
    await new Promise<void>((go) => void clock.after(LOOK_MS, go));
    if (!(await hasLog(directory))) return undefined;
  }
  if (await hasLog(directory)) return left;
  await left.remove();
  return undefined;
}

/** Of those that servers have left, the one that no other process uses; undefined if there are several, or none. */
async function onlyOne(
  names: readonly string[],
  taken: (name: string, waitMs: number) => Promise<Taken | undefined>,
  log: Log,
): Promise<Taken | undefined> {
  const found: Taken[] = [];
  for (const name of names.filter((one) => /^server-\d+$/.test(one))) {
    try {
      const one = await taken(name, 0);
      if (one !== undefined) found.push(one);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "STATE_HELD")) throw thrown; // another process goes on with it
    }
  }
  if (found.length <= 1) return found[0];
  log.info("several servers have left their state: one goes on with it if it is given its --rank", { count: found.length });
  for (const { left } of found) await left.close();
  return undefined;
}

/** What was left in a run that is over, or was not finished, stays for people. Throws STATE_IO. */
async function setAside(stopped: SegmentLog, directory: string, log: Log): Promise<void> {
  const kept = `${directory}.aside`;
  try {
    await durableFiles.remove(kept);
    await durableFiles.rename(directory, kept);
    await durableFiles.remove(join(kept, "lock"));
  } catch (thrown) {
    throw stateIo(`cannot set ${directory} aside`, thrown, "name another directory with --checkpoint-dir");
  }
  await stopped.close();
  log.warn("a state that another run has left, or that was not finished, is kept beside", { kept });
}
