// connect — a worker's session in a cluster of processes, or a whole cluster inside this one.

import { randomUUID } from "node:crypto";
import { checkOptions } from "../api/known-options.ts";
import { Session } from "../api/session.ts";
import type { Clock } from "../base/clock.ts";
import { checkWait, type WaitOptions, waitFor } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { showValue } from "../base/show-value.ts";
import { isPsFunction, type PsFunction } from "../contracts/ps-function.ts";
import { Postoffice } from "../kv/postoffice.ts";
import type { PostofficeOptions } from "../kv/postoffice-options.ts";
import type { SnapshotFiles } from "../store/snapshot/snapshot-files.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import type { Role } from "../wire/node-id.ts";
import { loadNodeConfig } from "./cannot-start.ts";
import type { NodeConfigOptions, PlacementName } from "./config/node-config.ts";
import { realClock } from "./real-clock.ts";
import { checkpointOptions, startNode } from "./start.ts";
import { zstd } from "./zstd.ts";

/** How to connect: the configuration, and how long to wait for the cluster, at most as long as `startTimeoutMs`. */
export type ConnectOptions = NodeConfigOptions & WaitOptions;

/**
 * Joins the cluster that options, environment and file describe, as a worker. Throws BAD_CONFIG, DEADLINE, ABORTED, and what starting a node throws; this
 * process has then left the cluster again.
 */
export async function connect(options: ConnectOptions = {}): Promise<Session> {
  checkWait(options);
  const { deadlineMs, signal, ...configured } = options;
  const config = await loadNodeConfig({ options: configured, env: process.env });
  if (config.role !== "worker") {
    throw new WeighbridgeError(
      "BAD_CONFIG",
      `connect() is for workers, and this process is the ${config.role}: launch the script with --worker-only, or set role to worker`,
    );
  }
  const restMs = restOf(deadlineMs, realClock());
  const office = await startNode(config, { signal, deadlineMs });
  try {
    return await Session.open(office, { signal, deadlineMs: restMs() });
  } catch (thrown) {
    await office.close();
    throw thrown;
  }
}

/** What is left of a deadline that begins now. */
function restOf(deadlineMs: number | undefined, clock: Clock): () => number | undefined {
  const fromMs = clock.nowMs();
  return () => (deadlineMs === undefined ? undefined : Math.max(0, deadlineMs - (clock.nowMs() - fromMs)));
}

/** What the cluster is made of, and how long to wait until it has started. */
export type EmbeddedOptions = WaitOptions & {
  /** Defaults to 1. */
  readonly servers?: number;
  /** Defaults to 1. */
  readonly workers?: number;
  /** How parts of tables and tensors are dealt out to the servers. Defaults to "ring". */
  readonly placement?: PlacementName;
  /** PS functions of the servers, beside the built-in ones. */
  readonly functions?: readonly PsFunction[];
  /** Memory for parameters, for each server. */
  readonly arenaBytesMax?: number;
  /** Where the servers keep checkpoints; left out, none can be taken. */
  readonly checkpointDir?: string;
  /** As checkpointDir, kept by somebody else. */
  readonly checkpointFiles?: SnapshotFiles;
  /** A checkpoint, or a directory of checkpoints, to begin with. */
  readonly restore?: string;
};

/** A cluster inside this process, over memory links: for tests and small jobs. One event loop serves all of it. */
export class EmbeddedCluster {
  /** One session for each worker, by rank. */
  readonly sessions: readonly Session[];
  readonly #offices: readonly Postoffice[];

  private constructor(offices: readonly Postoffice[], sessions: readonly Session[]) {
    this.#offices = offices;
    this.sessions = sessions;
  }

  /** Throws BAD_ARGUMENT, DEADLINE, ABORTED, and what starting a node throws; all nodes are then closed again. */
  static async start(options: EmbeddedOptions = {}): Promise<EmbeddedCluster> {
    checkOptions(
      options,
      [
        "servers",
        "workers",
        "placement",
        "functions",
        "arenaBytesMax",
        "checkpointDir",
        "checkpointFiles",
        "restore",
        "deadlineMs",
        "signal",
      ],
      "the options of a cluster inside the process",
    );
    checkWait(options);
    const { servers = 1, workers = 1, placement = "ring", functions = [], arenaBytesMax } = options;
    checkCount("servers", servers, 1);
    checkCount("workers", workers, 0);
    if (placement !== "ring" && placement !== "range")
      throw new WeighbridgeError("BAD_ARGUMENT", `placement is "ring" or "range", not ${showValue(placement)}`);
    if (!(Array.isArray(functions) && functions.every(isPsFunction)))
      throw new WeighbridgeError("BAD_ARGUMENT", "functions are a list of what psFunction() makes");
    checkPath("checkpointDir", options.checkpointDir);
    checkPath("restore", options.restore);
    const { checkpointFiles } = options;
    const checkpoints = { ...checkpointOptions(options), ...(checkpointFiles === undefined ? {} : { checkpointFiles }) };
    const hub = new MemoryHub();
    const clock = realClock();
    const { deadlineMs, signal } = options;
    const restMs = restOf(deadlineMs, clock);
    const giveUp = new AbortController();
    const node = (role: Role, rank: number, rest: Partial<PostofficeOptions> = {}): Promise<Postoffice> =>
      Postoffice.start({
        role,
        ...(role === "scheduler" ? {} : { rank }),
        serverCount: servers,
        workerCount: workers,
        schedulerAddress: "memory://scheduler",
        transport: new MemoryTransport({ clock, hub }),
        clock,
        log: SILENT_LOG,
        jobId: randomUUID(),
        incarnation: Date.now(),
        compression: zstd(),
        signal: giveUp.signal,
        ...rest,
      });
    const range = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    const starting = [
      node("scheduler", 0, { placement }),
      ...range(servers).map((rank) =>
        node("server", rank, { listenAddress: `memory://server-${rank}`, functions, arenaBytesMax, ...checkpoints }),
      ),
      ...range(workers).map((rank) => node("worker", rank, { meshAddress: `memory://worker-${rank}` })),
    ];
    const offices = await allOrNone(starting, giveUp, (all) => waitFor(all, "the start of the cluster", clock, { deadlineMs, signal }));
    for (const office of offices) if (!office.isWorker) office.finalize().catch(() => {}); // they stay until the last worker has closed
    try {
      const wait = { deadlineMs: restMs(), signal };
      const sessions = await Promise.all(offices.filter(({ isWorker }) => isWorker).map((office) => Session.open(office, wait)));
      return new EmbeddedCluster(offices, sessions);
    } catch (thrown) {
      await Promise.all(offices.map((office) => office.close()));
      throw thrown;
    }
  }

  /** The session of the first worker. */
  get session(): Session {
    const [first] = this.sessions;
    if (first === undefined) throw new WeighbridgeError("BAD_ARGUMENT", "this cluster has no worker");
    return first;
  }

  async close(): Promise<void> {
    await Promise.all(this.#offices.map((office) => office.close()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** When one does not start, the others wait for it in vain: they give up, and those that have started are closed. Throws what the first one threw. */
async function allOrNone(
  starting: readonly Promise<Postoffice>[],
  giveUp: AbortController,
  wait: (all: Promise<readonly Postoffice[]>) => Promise<readonly Postoffice[]>,
): Promise<readonly Postoffice[]> {
  try {
    return await wait(Promise.all(starting));
  } catch (thrown) {
    giveUp.abort();
    for (const outcome of await Promise.allSettled(starting)) if (outcome.status === "fulfilled") await outcome.value.close();
    throw thrown;
  }
}

function checkPath(what: string, path: string | undefined): void {
  if (path === undefined || (typeof path === "string" && path !== "")) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `${what} is a path, or left out, not ${showValue(path)}`);
}

function checkCount(what: string, count: number, countMin: number): void {
  if (Number.isSafeInteger(count) && count >= countMin) return;
  throw new WeighbridgeError(
    "BAD_ARGUMENT",
    `a cluster inside the process has a whole number of ${what} from ${countMin} up, not ${showValue(count)}`,
  );
}
