// embedded-cluster — a whole cluster inside this process, over memory links. The composition root of the door
// `weighbridge/embedded`. Its nodes keep the process while a session is busy (keep-process.ts), and while the cluster
// starts, changes or closes.

import { randomUUID } from "node:crypto";
import { Session } from "../api/session.ts";
import { restOf, type WaitOptions, waitFor } from "../base/deferred.ts";
import { badArgument, showValue, WeighbridgeError } from "../base/errors.ts";
import { checkWaitOptions, WAIT_NAMES } from "../base/known-options.ts";
import { LOG_LEVELS, type Log, type Logger, type LogLevel, SILENT_LOG } from "../base/log.ts";
import { didYouMean } from "../base/nearest-name.ts";
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { NodeOptions } from "../cluster/node-options.ts";
import { isPsFunction, isWorkerFunction } from "../contracts/known-function.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";
import { SchedulerNode } from "../scheduler/scheduler-node.ts";
import { ServerNode } from "../server/server-node.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { isPsRowType } from "../store/row-types/row-type-spec.ts";
import type { SnapshotFiles } from "../store/snapshot/snapshot-files.ts";
import { isPsUpdater } from "../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../store/updaters/ps-updater.ts";
import { MemoryHub, MemoryTransport } from "../transport/memory-transport.ts";
import { jobId } from "../wire/hello.ts";
import { WorkerNode } from "../worker/worker-node.ts";
import type { PlacementName } from "./config/node-config.ts";
import { keepProcess, keepProcessFor } from "./keep-process.ts";
import { checkLogger, defaultLevelOf, loggerLog } from "./logger-log.ts";
import { nodeSessions } from "./node-sessions.ts";
import { backgroundClock, idleClock, realClock } from "./real-clock.ts";
import { checkpointOptions } from "./server-root.ts";
import { zstd } from "./zstd.ts";

/** What the cluster is made of, and how long to wait until it has started. */
export type EmbeddedOptions = WaitOptions & {
  /** Defaults to 1. */
  readonly servers?: number | undefined;
  /** Defaults to 1. */
  readonly workers?: number | undefined;
  /** How many workers there may be (`scaleWorkers`). Defaults to `workers`. */
  readonly workersMax?: number | undefined;
  /** How parts of tables and tensors are distributed over the servers. Defaults to "ring". */
  readonly placement?: PlacementName | undefined;
  /** Functions of the servers, in addition to the built-in ones, and of the workers. */
  readonly functions?: readonly (PsFunction | WorkerFunction)[] | undefined;
  /** Row types and updaters of the servers, in addition to our own. */
  readonly plugIns?: readonly (PsUpdater | PsRowType)[] | undefined;
  /** Memory for parameters, for each server. */
  readonly arenaBytesMax?: number | undefined;
  /** Where the servers keep checkpoints; if left out, they save none. */
  readonly checkpointDir?: string | undefined;
  /** @internal A store for checkpoints instead of checkpointDir. */
  readonly checkpointFiles?: SnapshotFiles;
  /** A checkpoint, or a directory of checkpoints, to begin with. */
  readonly restore?: string | undefined;
  /**
   * Gets the log lines of all nodes: pino's, `console`, or an object with the same four methods. Left out: the cluster
   * logs nothing.
   */
  readonly logger?: Logger | undefined;
  /** From which level on `logger` gets lines: "info", or everything for a logger with a `level` of its own. */
  readonly logLevel?: LogLevel | undefined;
};

const OPTION_NAMES: readonly string[] = [
  ...[
    "servers",
    "workers",
    "workersMax",
    "placement",
    "functions",
    "plugIns",
    "arenaBytesMax",
    "checkpointDir",
    "checkpointFiles",
    "restore",
    "logger",
    "logLevel",
  ],
  ...WAIT_NAMES,
];

/** A cluster inside this process, over memory links: for tests and small jobs. One event loop serves all of it. */
export class EmbeddedCluster {
  readonly #scheduler: SchedulerNode;
  readonly #nodes: Set<ClusterNode>;
  /** By rank. */
  readonly #workers: Map<number, EmbeddedWorker>;

  private constructor(scheduler: SchedulerNode, nodes: Set<ClusterNode>, workers: Map<number, EmbeddedWorker>) {
    this.#scheduler = scheduler;
    this.#nodes = nodes;
    this.#workers = workers;
  }

  /** One session for each worker, by rank; with `workersMax`, for each that is there. */
  get sessions(): readonly Session[] {
    const ranks = [...this.#workers.keys()].sort((a, b) => a - b);
    return ranks.flatMap((rank) => this.#workers.get(rank)?.session ?? []);
  }

  /**
   * Starts a scheduler, servers and workers, and resolves when all of them are ready. Throws BAD_ARGUMENT, DEADLINE,
   * ABORTED, and what starting a node throws; all nodes are then closed again.
   *
   * @example
   * await using cluster = await EmbeddedCluster.start({ servers: 2 });
   * const w = await cluster.session.tensor("w", { shape: [3], optimizer: "sum" });
   */
  static async start(options: EmbeddedOptions = {}): Promise<EmbeddedCluster> {
    return await keepProcessFor(EmbeddedCluster.#start(options));
  }

  static async #start(options: EmbeddedOptions): Promise<EmbeddedCluster> {
    checkWaitOptions(options, OPTION_NAMES, "the options of a cluster inside the process");
    const { servers = 1, workers = 1, workersMax = workers, placement = "ring", functions = [], plugIns = [], arenaBytesMax } = options;
    checkCount("servers", servers, 1);
    checkCount("workers", workers, 0);
    checkCount("workersMax", workersMax, workers);
    if (placement !== "ring" && placement !== "range")
      throw badArgument(`placement is "ring" or "range", not ${showValue(placement)}${didYouMean(placement, ["ring", "range"])}`);
    if (!(Array.isArray(functions) && functions.every((fn) => isPsFunction(fn) || isWorkerFunction(fn))))
      throw badArgument("functions are a list of what psFunction() makes, or workerFunction(); updaters and row types are plugIns");
    if (!(Array.isArray(plugIns) && plugIns.every((one: unknown) => isPsUpdater(one) || isPsRowType(one))))
      throw badArgument("plugIns are a list of what psUpdater() and psRowType() make");
    const loaded = [{ module: "this program", hash: "", updaters: plugIns.filter(isPsUpdater), rowTypes: plugIns.filter(isPsRowType) }];
    checkPath("checkpointDir", options.checkpointDir);
    checkPath("restore", options.restore);
    const { checkpointFiles } = options;
    const checkpoints = { ...checkpointOptions(options), ...(checkpointFiles === undefined ? {} : { checkpointFiles }) };
    const hub = new MemoryHub();
    const clock = realClock();
    const { timeoutMs, signal } = options;
    const rest = restOf({ timeoutMs, signal }, clock);
    const giveUp = new AbortController();
    const compression = zstd();
    const logOf = logsOf(options);
    const common = (who: string): NodeOptions => ({
      serverCount: servers,
      workerCount: workers,
      schedulerAddress: "memory://scheduler",
      transport: new MemoryTransport({ clock: idleClock(), hub }),
      clock: idleClock(),
      log: logOf(who),
      signal: giveUp.signal,
    });
    /** A node has its own rank late. */
    const rankOf = new WeakMap<ClusterNode, number>();
    const range = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);
    const serverOf = (rank: number): ServerNode => {
      const served = { functions: functions.filter(isPsFunction), plugIns: loaded };
      const listenAddress = `memory://server-${rank}`;
      const own = { rank, listenAddress, compression, arenaBytesMax };
      const server = new ServerNode({ ...common(`server ${rank}`), ...own, ...served, ...checkpoints });
      rankOf.set(server, rank);
      return server;
    };
    const workerOf = (rank: number): WorkerNode => {
      const served = functions.filter(isWorkerFunction);
      const worker = new WorkerNode({
        ...common(`worker ${rank}`),
        clock: backgroundClock(),
        rank,
        meshAddress: `memory://worker-${rank}`,
        sessions: nodeSessions,
        functions: served,
      });
      keepProcess(worker);
      return worker;
    };
    const nodes = new Set<ClusterNode>();
    const workersThere = new Map<number, EmbeddedWorker>();
    const scheduler = new SchedulerNode({
      ...{ ...common("scheduler"), workerCountMax: workersMax, placement, jobId: jobId("embedded", randomUUID()), incarnation: Date.now() },
      onServers: ({ wished }) => {
        const known = [...nodes].map((node) => rankOf.get(node));
        for (const rank of wished) if (!known.includes(rank)) addServer(serverOf(rank), nodes);
      },
      onWorkers: (ranks) => {
        for (const rank of ranks) if (!workersThere.has(rank)) addWorker(rank, workerOf(rank), nodes, workersThere);
      },
    });
    const serverNodes = range(servers).map(serverOf);
    const workerNodes = range(workers).map(workerOf);
    for (const node of [scheduler, ...serverNodes, ...workerNodes]) nodes.add(node);
    await allOrNone([...nodes], giveUp, (all) => waitFor(all, "the start of the cluster", clock, { timeoutMs, signal }));
    scheduler.finalize().catch(() => {}); // it stays until the last worker has closed
    for (const node of serverNodes) stay(node, nodes);
    try {
      const wait = rest();
      const sessions = await Promise.all(workerNodes.map((node) => Session.open(node, wait)));
      for (const [rank, session] of sessions.entries()) workersThere.set(rank, { session, opened: Promise.resolve(session) });
      if (workersMax > workers)
        scheduler.scheduler.onRoster(({ nodes: entries }) => {
          for (const { role, rank, state } of entries) if (role === "worker" && state !== "alive") forget(rank, workersThere);
        });
      return new EmbeddedCluster(scheduler, nodes, workersThere);
    } catch (thrown) {
      await closeInOrder(nodes);
      throw thrown;
    }
  }

  /** The session of the first worker. */
  get session(): Session {
    const [first] = this.sessions;
    if (first === undefined) throw badArgument("this cluster has no worker");
    return first;
  }

  /**
   * Changes the number of servers while the sessions work: parts of all parameters move. Throws BAD_REQUEST,
   * UNSUPPORTED, ARENA_FULL, QUEUE_FULL, and ABORTED with the reason if the change was taken back; if the wait ends
   * early, with DEADLINE or ABORTED, it continues.
   */
  async scale(servers: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    checkCount("servers", servers, 1);
    const { scaling } = this.#scheduler.scheduler;
    const change = async (): Promise<void> => {
      const { outcome, reason } = await scaling.ended(await scaling.request({ to: servers }));
      if (outcome !== "done") throw new WeighbridgeError("ABORTED", `the servers are as they were: ${reason}`);
    };
    await keepProcessFor(waitFor(change(), `the cluster to have ${servers} servers`, realClock(), options));
  }

  /**
   * Changes the number of workers, up to `workersMax`: new ones have sessions then; those of the highest ranks are
   * asked to leave (their sessions get the event "leaving"), and it resolves when their users have closed them. Throws
   * BAD_ARGUMENT, BAD_REQUEST, ABORTED with the reason if the change was taken back, and what a worker that cannot
   * start throws; if the wait ends early, with DEADLINE or ABORTED, it continues.
   */
  async scaleWorkers(workers: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    checkCount("workers", workers, 1);
    const { scheduler } = this.#scheduler;
    scheduler.workers.request({ to: workers });
    const change = async (): Promise<void> => {
      await Promise.all([...this.#workers.values()].map(({ opened }) => opened));
      const { outcome, reason } = await scheduler.workers.ended();
      if (outcome !== "done") throw new WeighbridgeError("ABORTED", `there are as many workers as before: ${reason}`);
    };
    await keepProcessFor(waitFor(change(), `the cluster to have ${workers} workers`, realClock(), options));
  }

  /**
   * Closes all nodes, also those that are still working. If the wait ends early, with DEADLINE or ABORTED, they
   * continue to close.
   */
  async close(options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    await keepProcessFor(waitFor(closeInOrder(this.#nodes), "the nodes of the cluster to close", realClock(), options));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Starts all nodes. If one does not start, the others give up, and those that have started are closed. Throws the first
 * node's error.
 */
async function allOrNone(
  nodes: readonly ClusterNode[],
  giveUp: AbortController,
  wait: (all: Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const starting = nodes.map((node) => node.start());
  try {
    await wait(Promise.all(starting));
  } catch (thrown) {
    giveUp.abort();
    const outcomes = await Promise.allSettled(starting);
    for (const [index, { status }] of outcomes.entries()) if (status === "fulfilled") await nodes[index]?.close();
    throw thrown;
  }
}

/** The scheduler last: the others report to it that they leave. */
async function closeInOrder(nodes: ReadonlySet<ClusterNode>): Promise<void> {
  const all = [...nodes];
  const ofRole = (role: string): ClusterNode[] => all.filter((node) => node.role === role);
  for (const role of ["worker", "server", "scheduler"]) await Promise.all(ofRole(role).map((node) => node.close()));
}

/** Starts a server of a running cluster. If it cannot start, the change is taken back. */
function addServer(node: ServerNode, nodes: Set<ClusterNode>): void {
  nodes.add(node);
  node.start().then(
    () => stay(node, nodes),
    () => nodes.delete(node),
  );
}

/** A worker, and its session once it is open. */
type EmbeddedWorker = { readonly session?: Session; readonly opened: Promise<Session> };

/** Starts a worker of a running cluster. Rejects if it cannot start. */
function addWorker(rank: number, node: WorkerNode, nodes: Set<ClusterNode>, workers: Map<number, EmbeddedWorker>): void {
  nodes.add(node);
  const opened = node.start().then(() => Session.open(node));
  workers.set(rank, { opened });
  opened.then(
    (session) => workers.set(rank, { session, opened }),
    () => {
      workers.delete(rank);
      nodes.delete(node);
    },
  );
}

/** A worker has left, or is dead. */
function forget(rank: number, workers: Map<number, EmbeddedWorker>): void {
  if (workers.get(rank)?.session !== undefined) workers.delete(rank);
}

/** A server stays until the last worker has closed, or its parts have moved to others. */
function stay(node: ServerNode, nodes: Set<ClusterNode>): void {
  const ended = (): void => void nodes.delete(node);
  node.finalize().then(ended, ended);
}

/** The log of each node, by its name. Throws BAD_ARGUMENT. */
function logsOf({ logger, logLevel }: Pick<EmbeddedOptions, "logger" | "logLevel">): (who: string) => Log {
  checkLogger(logger);
  if (logLevel !== undefined && !LOG_LEVELS.includes(logLevel))
    throw badArgument(`logLevel must be ${LOG_LEVELS.join(", ")}, got ${showValue(logLevel)}${didYouMean(logLevel, LOG_LEVELS)}`);
  if (logger !== undefined) return (who) => loggerLog(logger, { level: logLevel ?? defaultLevelOf(logger), who: () => who });
  if (logLevel !== undefined)
    throw badArgument("logLevel says what a logger gets, and this cluster has none: hand in a logger, such as console");
  return () => SILENT_LOG;
}

function checkPath(what: string, path: string | undefined): void {
  if (path === undefined || (typeof path === "string" && path !== "")) return;
  throw badArgument(`${what} is a path, or left out, not ${showValue(path)}`);
}

function checkCount(what: string, count: number, countMin: number): void {
  if (Number.isSafeInteger(count) && count >= countMin) return;
  throw badArgument(`a cluster inside the process has a whole number of ${what} from ${countMin} up, not ${showValue(count)}`);
}
