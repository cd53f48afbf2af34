// worker-root — makes a process a worker of a cluster. A composition root: the node, its router and its links. The
// roots that open sessions (connect.ts, the command that trains) pass in what sessions and a module's functions need.

import { WorkerNode, type WorkerNodeOptions } from "../worker/worker-node.ts";
import { nodeLabel } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { advertised, listenAddress, type ProcessNodeOptions, startProcessNode } from "./process-node.ts";

export type WorkerRootOptions = ProcessNodeOptions & Pick<WorkerNodeOptions, "sessions" | "functions" | "isGuest">;

/** Starts the worker of a configuration. Throws what starting a node throws. */
export async function startWorker(
  config: NodeConfig,
  { sessions, functions = [], isGuest, ...options }: WorkerRootOptions = {},
): Promise<WorkerNode> {
  const { rank, linkTimeoutMs } = config;
  const label = nodeLabel(config);
  const mesh = options.transportOf === undefined ? { meshAddress: listenAddress(config) } : {};
  return await startProcessNode(config, options, (common) => {
    const advertise = (bound: string): string => advertised(config, bound);
    return new WorkerNode({ rank, label, linkTimeoutMs, sessions, functions, isGuest, advertise, ...mesh, ...common });
  });
}
