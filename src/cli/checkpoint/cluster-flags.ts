// cluster-flags — how a command that is no node of the cluster is told where the scheduler is.

import type { Command } from "commander";
import { loadConfig } from "../../node/config/config.ts";
import { schedulerAddress } from "../../node/config/node-config.ts";
import { realClock } from "../../node/real-clock.ts";
import { SocketTransport } from "../../node/transport/socket-transport.ts";
import { addConfigFlags, configFlags, type Flags } from "../config-flags.ts";
import type { ClusterRequest } from "./cluster-client.ts";

const FIND_MS = 3000;
/** What the others of the cluster are told is of no concern to one who only asks; but a configuration has to be whole. */
const STAND_INS = { role: "worker", serverCount: 1, workerCount: 1, rank: 0, threads: 1 } as const;

export function addClusterFlags(command: Command): Command {
  return addConfigFlags(command, {
    only: ["schedulerHost", "schedulerPort", "transport", "socketDir", "requestTimeoutMs", "config", "section"],
  });
}

export function clusterRequest(flags: Flags): ClusterRequest {
  const config = loadConfig({ options: STAND_INS, commandLine: configFlags(flags), env: process.env, warn: () => {} });
  const clock = realClock();
  const transport = new SocketTransport({ clock });
  return { address: schedulerAddress(config), findMs: FIND_MS, deadlineMs: config.requestTimeoutMs, transport, clock };
}
