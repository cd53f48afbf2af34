// scheduler-root — makes a process the scheduler of a cluster. A composition root.

import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { WeighbridgeError } from "../base/errors.ts";
import type { ManagedJob } from "../scheduler/managed-job.ts";
import { SchedulerNode, type SchedulerNodeOptions } from "../scheduler/scheduler-node.ts";
import type { StateStore } from "../scheduler/state-store.ts";
import { jobId } from "../wire/hello.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { onJobEnding, publishDeadNodes, publishRoster, publishServers, publishWorkers } from "./launcher/launcher-pipe.ts";
import { type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import type { EtcdStoreOptions } from "./state/etcd-store.ts";
import { stateDirectory } from "./state/state-directory.ts";
import { formatTcpAddress } from "./transport/socket-address.ts";

export type SchedulerRootOptions = ProcessNodeOptions & Pick<SchedulerNodeOptions, "onListening"> & Pick<EtcdStoreOptions, "onStandby">;

/** Starts the scheduler of a configuration. Throws what starting a node throws. */
export async function startScheduler(config: NodeConfig, options: SchedulerRootOptions = {}): Promise<SchedulerNode> {
  const { heartbeatIntervalMs, heartbeatTimeoutMs, managePort, placement, job, replicas, workerCountMax } = config;
  checkVan(config);
  const onRoster: ProcessNodeOptions["onRoster"] = (roster) => {
    options.onRoster?.(roster);
    publishRoster(roster);
  };
  return await startProcessNode(config, { ...options, onRoster }, async (common, { clock, log }) => {
    const manage = (managed: ManagedJob): Promise<{ close(): Promise<void> }> => serveHttp(managePort, managed);
    const name = job ?? workingDirectoryName();
    const node: SchedulerNode = new SchedulerNode({
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      ...(managePort === 0 ? {} : { manage }),
      placement,
      replicas,
      workerCountMax,
      store: await stateStore(config, { job: name, clock, log, onStandby: options.onStandby }),
      jobId: jobId(name, randomUUID()),
      incarnation: Date.now(),
      dateMs: Date.now,
      onServers: (servers) => publishServers(servers, (rank) => node.scheduler.scaling.lost(rank)),
      onWorkers: publishWorkers,
      onOnlyDead: (names, dismiss) => publishDeadNodes({ names, dismiss }),
      ...common,
    });
    node.closeWith({ close: onJobEnding(() => node.scheduler.ending()) });
    return node;
  });
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

type StoreSurroundings = Pick<EtcdStoreOptions, "job" | "clock" | "log" | "onStandby">;

/** Loaded on demand: a scheduler without a state needs none of it. Throws BAD_CONFIG. */
async function stateStore(config: NodeConfig, { job, clock, log, onStandby }: StoreSurroundings): Promise<StateStore | undefined> {
  const { van, etcd, etcdLeaseMs: leaseMs, advertiseHost, schedulerPort, startTimeoutMs } = config;
  if (van !== "weighbridge") return undefined;
  if (etcd !== undefined) {
    const [{ EtcdStore }, { EtcdClient }] = await Promise.all([import("./state/etcd-store.ts"), import("./state/etcd-client.ts")]);
    const address = formatTcpAddress(advertiseHost, schedulerPort);
    const findMs = Math.min(FIND_ETCD_MS, startTimeoutMs);
    return new EtcdStore({ api: new EtcdClient(etcd.split(",")), clock, log, job, address, leaseMs, findMs, onStandby });
  }
  const directory = stateDirectory(config, job, log);
  if (directory === undefined) return undefined;
  const { FileStore } = await import("./state/file-store.ts");
  return new FileStore({ directory, clock, log });
}

/** The default name of a job. */
function workingDirectoryName(): string {
  return basename(process.cwd()) || "weighbridge";
}
