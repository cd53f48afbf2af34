// scheduler-root — makes a process the scheduler of a cluster. A composition root.

import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import { SchedulerNode, type SchedulerNodeOptions } from "../scheduler/scheduler-node.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobId } from "../wire/hello.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { publishDeadNodes, publishRoster } from "./launcher/launcher-pipe.ts";
import { type ProcessNodeOptions, startProcessNode } from "./process-node.ts";

export type SchedulerRootOptions = ProcessNodeOptions & Pick<SchedulerNodeOptions, "onListening">;

/** Starts the scheduler of a configuration. Throws what starting a node throws. */
export async function startScheduler(config: NodeConfig, options: SchedulerRootOptions = {}): Promise<SchedulerNode> {
  const { heartbeatIntervalMs, heartbeatTimeoutMs, managePort, placement, job } = config;
  const onRoster: ProcessNodeOptions["onRoster"] = (roster) => {
    options.onRoster?.(roster);
    publishRoster(roster);
  };
  return await startProcessNode(config, { ...options, onRoster }, (common) => {
    const manage = (status: () => StatusReply): Promise<{ close(): Promise<void> }> => serveHttp(managePort, status);
    return new SchedulerNode({
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      ...(managePort === 0 ? {} : { manage }),
      placement,
      jobId: jobId(job ?? directoryName(), randomUUID()),
      incarnation: Date.now(),
      onOnlyDead: (names, dismiss) => publishDeadNodes({ names, dismiss }),
      ...common,
    });
  });
}

/** Loaded on demand: Node's HTTP costs 9 to 17 MB of memory. */
async function serveHttp(port: number, status: () => StatusReply): Promise<{ close(): Promise<void> }> {
  const { serveManagement } = await import("./manage-server.ts");
  return await serveManagement(port, status);
}

/** The default name of a job. */
function directoryName(): string {
  return basename(process.cwd()) || "weighbridge";
}
