// worker-root — makes a process a worker of a cluster. A composition root: the node, its router and its links. The
// roots that open sessions (connect.ts, the command that trains) pass in what sessions and a module's functions need.

import { WorkerNode, type WorkerNodeOptions } from "../worker/worker-node.ts";
import { nodeLabel } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { advertised, listenAddress, type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import { sayProcessEnds } from "./worker-process.ts";

export type WorkerRootOptions = Omit<ProcessNodeOptions, "isBackground"> &
  Pick<WorkerNodeOptions, "sessions" | "functions" | "isGuest"> & {
    /** Keeps the process while the node is busy (keep-process.ts); left out, its links and timers do. */
    readonly keepProcess?: (node: WorkerNode) => void;
  };

/** Starts the worker of a configuration. Throws what starting a node throws. */
export async function startWorker(
  config: NodeConfig,
  { sessions, functions = [], isGuest, keepProcess, ...options }: WorkerRootOptions = {},
): Promise<WorkerNode> {
  const { rank, linkTimeoutMs } = config;
  const label = nodeLabel(config);
  const mesh = options.transportOf === undefined ? { meshAddress: listenAddress(config) } : {};
  const started = await startProcessNode(config, { ...options, isBackground: keepProcess !== undefined }, (common) => {
    const advertise = (bound: string): string => advertised(config, bound);
    const node = new WorkerNode({ rank, label, linkTimeoutMs, sessions, functions, isGuest, advertise, ...mesh, ...common });
    keepProcess?.(node);
    return node;
  });
  if (config.van === "weighbridge") sayProcessEnds(started, rank !== undefined);
  return started;
}
