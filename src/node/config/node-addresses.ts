// node-addresses — where the nodes of a configuration (node-config.ts) are found, and what they are called.

import { hostname } from "node:os";
import { join } from "node:path";
import type { Address } from "../../transport/transport.ts";
import { formatTcpAddress } from "../transport/socket-address.ts";
import type { NodeConfig } from "./node-config.ts";

/** Where a scheduler listens, and is looked for, unless something else is said. */
export const SCHEDULER_PORT = 9700;

/** Where the scheduler of this configuration listens. */
export function schedulerAddress({ transport, van, socketDir, schedulerHost, schedulerPort, host, role }: NodeConfig): Address {
  if (transport === "unix" && van !== "weighbridge") return `unix:///tmp/${schedulerPort}`; // ps-lite's ipc
  if (transport === "unix") return `unix://${join(socketDir, `${schedulerPort}.sock`)}`;
  return formatTcpAddress(role === "scheduler" ? host : schedulerHost, schedulerPort);
}

export type HostPort = { readonly host: string; readonly port: number };

/** What a list such as `a:9700,[::1]:9700` names. */
export function hostPortsOf(list: string | undefined): HostPort[] {
  return (list?.split(",") ?? []).map((text) => {
    const colon = text.lastIndexOf(":");
    return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, "$1"), port: Number(text.slice(colon + 1)) };
  });
}

/** Where a server or worker of this configuration looks for the scheduler: the first, and then the others. */
export function schedulerAddresses(config: NodeConfig): [Address, ...Address[]] {
  const [first, ...others] = hostPortsOf(config.schedulers).map(({ host, port }) => formatTcpAddress(host, port));
  return first === undefined || config.role === "scheduler" ? [schedulerAddress(config)] : [first, ...others];
}

/** For logs and listings. */
export function nodeLabel({ nodeId }: Partial<Pick<NodeConfig, "nodeId">> = {}): string {
  return nodeId ?? `${hostname()}:${process.pid}`;
}
