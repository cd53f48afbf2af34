// scheduler-address — where the scheduler of a configuration listens.

import { join } from "node:path";
import type { Address } from "../transport/transport.ts";
import type { NodeConfig } from "./config/node-config.ts";

/** Where the scheduler of this configuration listens. */
export function schedulerAddress({ transport, van, socketDir, schedulerHost, schedulerPort, host, role }: NodeConfig): Address {
  if (transport === "unix" && van !== "weighbridge") return `unix:///tmp/${schedulerPort}`; // ps-lite's ipc
  if (transport === "unix") return `unix://${join(socketDir, `${schedulerPort}.sock`)}`;
  return tcpAddress(role === "scheduler" ? host : schedulerHost, schedulerPort);
}

export function tcpAddress(host: string, port: number): Address {
  return `tcp://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
