// worker-root — a process as a worker of a cluster. A composition root: everything that a worker loads, and nothing of another role.

import { hostname } from "node:os";
import { WorkerNode } from "../worker/worker-node.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { advertised, listenAddress, type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import { zstd } from "./zstd.ts";

/** Starts the worker of a configuration. Throws what starting a node throws. */
export async function startWorker(config: NodeConfig, options: ProcessNodeOptions = {}): Promise<WorkerNode> {
  const { rank, nodeId, linkTimeoutMs } = config;
  const label = nodeId ?? `${hostname()}:${process.pid}`;
  const mesh = options.transportOf === undefined ? { meshAddress: listenAddress(config) } : {};
  return await startProcessNode(config, options, (common) => {
    const advertise = (bound: string): string => advertised(config, bound);
    return new WorkerNode({ rank, label, linkTimeoutMs, compression: zstd(), advertise, ...mesh, ...common });
  });
}
