// scheduler-root — makes a process the scheduler of a cluster. A composition root.

import { randomUUID } from "node:crypto";
import { channel } from "node:diagnostics_channel";
import { basename } from "node:path";
import { WeighbridgeError } from "../base/errors.ts";
import type { ManagedJob } from "../scheduler/managed-job.ts";
import type { Scheduler } from "../scheduler/scheduler.ts";
import { SchedulerNode, type SchedulerNodeOptions } from "../scheduler/scheduler-node.ts";
import type { StateStore } from "../scheduler/state-store.ts";
import { jobId } from "../wire/hello.ts";
import { schedulerAddresses } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { type LastJob, SCHEDULER_CHANNEL } from "./last-job.ts";
import { isLaunched, onJobEnding, publishDeadNodes, publishRoster, publishServers, publishWorkers } from "./launcher/launcher-pipe.ts";
import { advertised, listenAddress, type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import type { EtcdStoreOptions } from "./state/etcd-store.ts";
import { stateDirectory } from "./state/state-directory.ts";
import { formatTcpAddress } from "./transport/socket-address.ts";
import { tellUnclosed } from "./unclosed-worker.ts";

export type SchedulerRootOptions = ProcessNodeOptions &
  Pick<SchedulerNodeOptions, "onListening"> &
  Pick<EtcdStoreOptions, "onStandby" | "standsByAgain">;

/** Starts the scheduler of a configuration. Throws what starting a node throws. */
export async function startScheduler(config: NodeConfig, options: SchedulerRootOptions = {}): Promise<SchedulerNode> {
  const { heartbeatIntervalMs, heartbeatTimeoutMs, loopTimeoutMs, managePort, placement, job, replicas, workerCountMax, etcd } = config;
  const serves = config.serve === "on";
  checkVan(config);
  const onRoster: ProcessNodeOptions["onRoster"] = (roster) => {
    options.onRoster?.(roster);
    publishRoster(roster);
    publishJob();
  };
  let scheduler: Scheduler | undefined;
  const publishJob = (): void => {
    if (scheduler === undefined) return;
    const { job, state } = scheduler;
    const addresses = schedulerAddresses({ ...config, role: "worker" }); // where others find it
    channel(SCHEDULER_CHANNEL).publish({ job, term: state.term, addresses } satisfies LastJob);
  };
  const onListening = (): void => {
    publishJob(); // first, so that commands find the job as soon as it says that it listens
    options.onListening?.();
  };
  return await startProcessNode(config, { ...options, onRoster }, async (common, { clock, log }) => {
    const manage = (managed: ManagedJob): Promise<{ close(): Promise<void> }> => serveHttp(managePort, managed);
    const name = job ?? workingDirectoryName();
    const node: SchedulerNode = new SchedulerNode({
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      loopTimeoutMs,
      pulseAddress: listenAddress({ ...config, listenPort: 0 }),
      advertisePulse: (bound) => advertised(config, bound),
      ...(managePort === 0 ? {} : { manage }),
      placement,
      replicas,
      workerCountMax,
      serves,
      store: await stateStore(config, { job: name, clock, log, onStandby: options.onStandby, standsByAgain: options.standsByAgain }),
      jobId: jobId(name, randomUUID()),
      incarnation: Date.now(),
      dateMs: Date.now,
      onServers: (servers) => publishServers(servers, (rank) => node.scheduler.scaling.lost(rank)),
      onWorkers: publishWorkers,
      onUnclosed: (name, isAwaited) => tellUnclosed(name, isAwaited).isTold,
      onOnlyDead: (names, dismiss) => publishDeadNodes({ names, dismiss }),
      ...common,
      onListening,
    });
    scheduler = node.scheduler;
    node.closeWith({ close: onJobEnding(() => node.scheduler.ending()) });
    // With etcd another scheduler may lead, but for one whose launcher ends the job.
    if (serves && (etcd === undefined || isLaunched())) node.closeWith({ close: endOnSignal(node.scheduler) });
    return node;
  });
}

const END_SIGNALS: readonly NodeJS.Signals[] = ["SIGTERM", "SIGINT", "SIGHUP"];

/** A signal to all processes of a job comes twice where a launcher passes it on: within this time it is one. */
const ECHO_MS = 300;

/**
 * The first signal ends a job that serves in order, unless the cluster is not complete, workers are there, or a server
 * is dead, or was stopped to be started again: then, as the second one does, it ends this process alone. Returns the
 * function that stops this.
 */
function endOnSignal(scheduler: Pick<Scheduler, "tryEndServing">): () => void {
  let hasCome = false;
  const stop = (): void => {
    for (const signal of END_SIGNALS) process.off(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    if (hasCome) return;
    hasCome = true;
    const echo = setTimeout(stop, ECHO_MS).unref();
    const endAlone = (): void => {
      clearTimeout(echo);
      stop();
      process.kill(process.pid, signal);
    };
    scheduler.tryEndServing().then((ends) => ends || endAlone(), endAlone);
  };
  for (const signal of END_SIGNALS) process.on(signal, onSignal);
  return stop;
}

/** What ps-lite's protocol cannot do. Throws BAD_CONFIG. */
function checkVan({ workerCount: least, workerCountMax: most = least, replicas, van }: NodeConfig): void {
  if (van === "weighbridge") return;
  if (most !== least) {
    const fix = "use --van weighbridge, or as many workers as the start waits for";
    throw new WeighbridgeError("BAD_CONFIG", `workerCountMax is ${most}, but the counts of ps-lite's protocol are fixed: ${fix}`);
  }
  if (replicas > 1) {
    const problem = `replicas is ${replicas}, but servers behind ps-lite's protocol (van ${van}) are not replicated`;
    throw new WeighbridgeError("BAD_CONFIG", `${problem}: use --van weighbridge, or leave replicas out`);
  }
}

/** Loaded on demand: Node's HTTP costs 9 to 17 MB of memory. */
async function serveHttp(port: number, job: ManagedJob): Promise<{ close(): Promise<void> }> {
  const { serveManagement } = await import("./manage-server.ts");
  return await serveManagement(port, job);
}

/** How long a scheduler looks for etcd, if its start may take that long. */
const FIND_ETCD_MS = 10_000;

type StoreSurroundings = Pick<EtcdStoreOptions, "job" | "clock" | "log" | "onStandby" | "standsByAgain">;

/** Loaded on demand: a scheduler without a state needs none of it. Throws BAD_CONFIG. */
async function stateStore(config: NodeConfig, { clock, log, ...surroundings }: StoreSurroundings): Promise<StateStore | undefined> {
  const { van, etcd, etcdLeaseMs: leaseMs, advertiseHost, schedulerPort, startTimeoutMs } = config;
  if (van !== "weighbridge") return undefined;
  if (etcd !== undefined) {
    const [{ EtcdStore }, { EtcdClient }] = await Promise.all([import("./state/etcd-store.ts"), import("./state/etcd-client.ts")]);
    const address = formatTcpAddress(advertiseHost, schedulerPort);
    // nodes of a job that ran wait that long for a scheduler
    const findMs = surroundings.standsByAgain === true ? startTimeoutMs : Math.min(FIND_ETCD_MS, startTimeoutMs);
    return new EtcdStore({ api: new EtcdClient(etcd.split(",")), clock, log, address, leaseMs, findMs, ...surroundings });
  }
  const directory = stateDirectory(config, surroundings.job, log);
  if (directory === undefined) return undefined;
  const { FileStore } = await import("./state/file-store.ts");
  return new FileStore({ directory, clock, log });
}

/** The default name of a job. */
function workingDirectoryName(): string {
  return basename(process.cwd()) || "weighbridge";
}
