// stopped-servers — where servers that are stopped leave their state for the next process of their rank
// (server/replication/planned-stop.ts): a log in <checkpoint directory>/stopped/<job>/server-<rank>.

import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { PlannedStopFiles } from "../../server/replication/planned-stop.ts";
import type { NodeConfig } from "../config/node-config.ts";
import { serverDirectory } from "./durable-directory.ts";
import { durableFiles, SegmentLog } from "./segment-log.ts";

const DIRECTORY = "stopped";
/** Nobody waits for single updates: its files need not be there in advance. */
const SEGMENT_BYTES = 4 * 1024 * 1024;

export type StoppedServersOptions = Pick<NodeConfig, "checkpointDir" | "durable" | "replicas" | "job" | "rank" | "van">;

export class StoppedServers {
  readonly #options: StoppedServersOptions;
  /** Whether what a process before has left is not to be used. */
  #isGivenUp = false;
  #log: Log | undefined;

  constructor(options: StoppedServersOptions) {
    this.#options = options;
  }

  /** Undefined: this server has no such directory, or needs none. */
  async files(clock: Clock, log: Log): Promise<PlannedStopFiles | undefined> {
    const { checkpointDir, durable, replicas, job, rank, van } = this.#options;
    if (checkpointDir === undefined || durable !== undefined || replicas !== 1 || van === "zmq") return undefined;
    const directoryOf = (of: number): string => serverDirectory(join(checkpointDir, DIRECTORY), { job, rank: of });
    const logIn = (of: number): SegmentLog => new SegmentLog({ directory: directoryOf(of), clock, log, segmentBytes: SEGMENT_BYTES });
    const hasLog = async (of: number): Promise<boolean> => {
      const names = await durableFiles.list(directoryOf(of)).catch(() => []); // there is no such directory
      return names.some((name) => name.startsWith("log-"));
    };
    const logOf = async (of: number): Promise<SegmentLog> => {
      if (await hasLog(of)) await removeOld(logIn(of));
      return logIn(of);
    };
    if (rank === undefined || !(await hasLog(rank))) return { logOf };
    if (this.#isGivenUp) {
      await removeOld(logIn(rank));
      return { logOf };
    }
    this.#log = log;
    return { logOf, found: logIn(rank) };
  }

  /**
   * Whether the server may start without what it found, after this failure to start with it: it belongs to a run that
   * is over, or its stop was not finished.
   */
  giveUp(thrown: unknown): boolean {
    const isOld = isWeighbridgeError(thrown, "FENCED") || isWeighbridgeError(thrown, "ABORTED");
    if (this.#log === undefined || !isOld) return false;
    this.#log.warn("what a server of this rank left when it was stopped is not used", { reason: thrown.message });
    this.#isGivenUp = true;
    this.#log = undefined;
    return true;
  }
}

/** What was left in a run that is over. Throws STATE_HELD. */
async function removeOld(stopped: SegmentLog): Promise<void> {
  await stopped
    .open(() => {})
    .catch((thrown: unknown) => {
      if (!isWeighbridgeError(thrown, "STATE_CORRUPT")) throw thrown; // it is of no use anyhow
    });
  await stopped.remove();
}
