// host-port — where a process of ps-lite listens: a host, exactly as the process sent it, and a port.

import { badArgument } from "../base/errors.ts";
import type { Address } from "../transport/transport.ts";

export type HostPort = { readonly hostname: string; readonly port: number };

export function keyOf({ hostname, port }: HostPort): string {
  return `${hostname}:${port}`;
}

/** Parses "tcp://host:port"; IPv6 hosts have brackets there, and none in ps-lite's records. */
export function hostPortOf(address: Address): HostPort {
  const match = /^tcp:\/\/(?:\[([^\]]+)\]|([^:/]+)):(\d+)$/.exec(address);
  if (match === null) throw badArgument(`"${address}" cannot be used as an address: expected "tcp://host:port"`);
  return { hostname: (match[1] ?? match[2]) as string, port: Number(match[3]) };
}

export function formatHostPort({ hostname, port }: HostPort): Address {
  return hostname.includes(":") ? `tcp://[${hostname}]:${port}` : `tcp://${hostname}:${port}`;
}
