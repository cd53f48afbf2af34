// open-cluster — a cluster inside this process, as EmbeddedCluster, that shows its nodes: their placement can be
// changed.

import { randomUUID } from "node:crypto";
import { Session } from "../../src/api/session.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import type { NodeOptions } from "../../src/cluster/node-options.ts";
import { nodeSessions } from "../../src/node/node-sessions.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { checkpointOptions } from "../../src/node/server-root.ts";
import { zstd } from "../../src/node/zstd.ts";
import type { Scheduler } from "../../src/scheduler/scheduler.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { Server } from "../../src/server/server.ts";
import { ServerNode } from "../../src/server/server-node.ts";
import type { PlugInModule } from "../../src/store/plug-ins.ts";
import type { PlacedNodes } from "../../src/testing/change-placement.ts";
import { MemoryHub, MemoryTransport } from "../../src/transport/memory-transport.ts";
import { jobId } from "../../src/wire/hello.ts";
import { WorkerNode } from "../../src/worker/worker-node.ts";

export type OpenClusterOptions = {
  readonly servers: number;
  readonly workers: number;
  readonly placement: "ring" | "range";
  readonly checkpointDir: string;
  readonly restore?: string;
  readonly plugIns: readonly PlugInModule[];
};

const range = (count: number): number[] => Array.from({ length: count }, (_, rank) => rank);

export class OpenCluster implements PlacedNodes {
  readonly sessions: readonly Session[];
  readonly #scheduler: SchedulerNode;
  readonly #servers: readonly ServerNode[];
  readonly #workers: readonly WorkerNode[];

  private constructor(
    scheduler: SchedulerNode,
    servers: readonly ServerNode[],
    workers: readonly WorkerNode[],
    sessions: readonly Session[],
  ) {
    this.#scheduler = scheduler;
    this.#servers = servers;
    this.#workers = workers;
    this.sessions = sessions;
  }

  static async start(options: OpenClusterOptions): Promise<OpenCluster> {
    const { servers: serverCount, workers: workerCount, placement, plugIns } = options;
    const clock = realClock();
    const hub = new MemoryHub();
    const compression = zstd();
    const common = (): NodeOptions => ({
      ...{ serverCount, workerCount, clock, log: SILENT_LOG, schedulerAddress: "memory://scheduler" },
      transport: new MemoryTransport({ clock, hub }),
    });
    const scheduler = new SchedulerNode({ ...common(), placement, jobId: jobId("open", randomUUID()), incarnation: Date.now() });
    const checkpoints = checkpointOptions(options);
    const servers = range(serverCount).map(
      (rank) => new ServerNode({ ...common(), rank, listenAddress: `memory://server-${rank}`, compression, plugIns, ...checkpoints }),
    );
    const workers = range(workerCount).map((rank) => new WorkerNode({ ...common(), rank, sessions: nodeSessions }));
    await Promise.all([scheduler, ...servers, ...workers].map((node) => node.start()));
    // They stay until the last worker has closed.
    for (const node of [scheduler, ...servers]) node.finalize().catch(() => {});
    return new OpenCluster(scheduler, servers, workers, await Promise.all(workers.map((node) => Session.open(node))));
  }

  get scheduler(): Scheduler {
    return this.#scheduler.scheduler;
  }

  serverOf(rank: number): Server | undefined {
    return this.#servers[rank]?.server;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#scheduler, ...this.#servers, ...this.#workers].map((node) => node.close()));
  }
}
