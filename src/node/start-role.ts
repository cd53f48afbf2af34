// start-role — starts the node of a configuration, whatever its role. A process loads its own role alone, and ps-lite's
// protocol only if it uses that.

import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { NodeConfig } from "./config/node-config.ts";
import type { SchedulerRootOptions } from "./scheduler-root.ts";
import type { WorkerRootOptions } from "./worker-root.ts";

/** Options of another role are ignored. */
export type RoleOptions = SchedulerRootOptions & WorkerRootOptions;

/** Starts the node of a configuration that was loaded before. Throws what starting a node throws. */
export async function startRole(config: NodeConfig, { sessions, ...options }: RoleOptions = {}): Promise<ClusterNode> {
  const transportOf = config.van === "weighbridge" ? undefined : (await import("./pslite-gateway.ts")).psliteOptions;
  switch (config.role) {
    case "worker":
      return await (await import("./worker-root.ts")).startWorker(config, { ...options, transportOf, sessions });
    case "server":
      return await (await import("./server-root.ts")).startServer(config, { ...options, transportOf });
    case "scheduler":
      return await (await import("./scheduler-root.ts")).startScheduler(config, { ...options, transportOf });
  }
}
