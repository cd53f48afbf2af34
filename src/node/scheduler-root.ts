// scheduler-root — makes a process the scheduler of a cluster. A composition root.

import { randomUUID } from "node:crypto";
import { basename } from "node:path";
import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import { SchedulerNode, type SchedulerNodeOptions } from "../scheduler/scheduler-node.ts";
import type { StateStore } from "../scheduler/state-store.ts";
import type { StatusReply } from "../wire/control.ts";
import { jobId } from "../wire/hello.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { publishDeadNodes, publishRoster } from "./launcher/launcher-pipe.ts";
import { type ProcessNodeOptions, startProcessNode } from "./process-node.ts";
import { stateDirectory } from "./state/state-directory.ts";

export type SchedulerRootOptions = ProcessNodeOptions & Pick<SchedulerNodeOptions, "onListening">;

/** Starts the scheduler of a configuration. Throws what starting a node throws. */
export async function startScheduler(config: NodeConfig, options: SchedulerRootOptions = {}): Promise<SchedulerNode> {
  const { heartbeatIntervalMs, heartbeatTimeoutMs, managePort, placement, job } = config;
  const onRoster: ProcessNodeOptions["onRoster"] = (roster) => {
    options.onRoster?.(roster);
    publishRoster(roster);
  };
  return await startProcessNode(config, { ...options, onRoster }, async (common, { clock, log }) => {
    const manage = (status: () => StatusReply): Promise<{ close(): Promise<void> }> => serveHttp(managePort, status);
    const name = job ?? directoryName();
    const directory = config.van === "weighbridge" ? stateDirectory(config, name, log) : undefined;
    return new SchedulerNode({
      heartbeatIntervalMs,
      heartbeatTimeoutMs,
      ...(managePort === 0 ? {} : { manage }),
      placement,
      store: directory === undefined ? undefined : await fileStore(directory, clock, log),
      jobId: jobId(name, randomUUID()),
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

/** Loaded on demand: a scheduler without a state needs none of it. */
async function fileStore(directory: string, clock: Clock, log: Log): Promise<StateStore> {
  const { FileStore } = await import("./state/file-store.ts");
  return new FileStore({ directory, clock, log });
}

/** The default name of a job. */
function directoryName(): string {
  return basename(process.cwd()) || "weighbridge";
}
