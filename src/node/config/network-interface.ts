// network-interface — finds an address by an interface's name or its beginning, as ps-lite does.

import { isIP } from "node:net";
import type { NetworkInterfaceInfo } from "node:os";

/** The shape of `os.networkInterfaces()`. */
export type NetworkInterfaces = Readonly<Partial<Record<string, readonly NetworkInterfaceInfo[]>>>;

/** An exact name beats a prefix, IPv4 beats IPv6. Undefined if nothing usable matches. */
export function addressOfInterface(prefix: string, interfaces: NetworkInterfaces): string | undefined {
  const names = Object.keys(interfaces).filter((name) => name.startsWith(prefix));
  for (const name of names.includes(prefix) ? [prefix] : names) {
    const address = usableAddress(interfaces[name] ?? []);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** The first IPv4 address that is not loopback: ps-lite's default. */
export function firstOuterAddress(interfaces: NetworkInterfaces): string | undefined {
  const addresses = Object.values(interfaces).flatMap((list) => list ?? []);
  return addresses.find(({ family, internal }) => family === "IPv4" && !internal)?.address;
}

/** For an error: `eth0 (192.0.2.5), lo (127.0.0.1)`. */
export function listInterfaces(interfaces: NetworkInterfaces): string {
  const entries = Object.entries(interfaces).map(([name, list]) => `${name} (${usableAddress(list ?? []) ?? "no address"})`);
  return entries.length === 0 ? "none at all" : entries.join(", ");
}

/** A link-local IPv6 address does not count: another machine cannot use it without a zone. */
function usableAddress(addresses: readonly NetworkInterfaceInfo[]): string | undefined {
  const usable = addresses.find(({ family }) => family === "IPv4") ?? addresses.find(({ address }) => !address.startsWith("fe80:"));
  return usable?.address;
}

/** In any of its spellings. */
export function isWildcard(host: string): boolean {
  return isIP(host) !== 0 && /^[0:.]+$/.test(host);
}

/** By its text alone; no name is looked up. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host.startsWith("127.") || (isIP(host) === 6 && /^[0:]+:0*1$/.test(host));
}
