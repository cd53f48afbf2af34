// socket-address — parses and formats the addresses of a SocketTransport. Looks up no names.
//
//   tcp://127.0.0.1:8000    tcp://[::1]:8000    tcp://host.example:8000    unix:///run/weighbridge/server-0.sock

import { badArgument, type WeighbridgeError } from "../../base/errors.ts";
import type { Address } from "../../transport/transport.ts";

export type TcpAddress = { readonly kind: "tcp"; readonly host: string; readonly port: number };
export type UnixAddress = { readonly kind: "unix"; readonly path: string };
export type SocketAddress = TcpAddress | UnixAddress;

const TCP = /^tcp:\/\/(?:\[([0-9a-fA-F:.]+(?:%\w+)?)\]|([^\s:/?#@[\]]+)):(\d{1,5})$/;
const UNIX = /^unix:\/\/(\/.*[^/])$/;
const PORT_MAX = 65535;

/** Throws BAD_ARGUMENT when `address` is not a socket's. */
export function parseSocketAddress(address: Address): SocketAddress {
  const tcp = TCP.exec(address);
  if (tcp !== null) {
    const port = Number(tcp[3]);
    if (port > PORT_MAX) throw badAddress(address, `port ${port} is over ${PORT_MAX}`);
    return { kind: "tcp", host: (tcp[1] ?? tcp[2]) as string, port };
  }
  const path = UNIX.exec(address)?.[1];
  if (path !== undefined && !path.includes("\0")) return { kind: "unix", path };
  throw badAddress(address, 'expected "tcp://host:port" (IPv6 in brackets) or "unix:///absolute/path"');
}

export function formatTcpAddress(host: string, port: number): Address {
  return host.includes(":") ? `tcp://[${host}]:${port}` : `tcp://${host}:${port}`;
}

export function badAddress(address: Address, why: string): WeighbridgeError {
  return badArgument(`"${address}" cannot be used as an address: ${why}`);
}
