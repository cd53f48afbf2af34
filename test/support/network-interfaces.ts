// network-interfaces — a made-up machine with several network interfaces, for the tests of this folder.

import type { NetworkInterfaceInfo } from "node:os";
import type { NetworkInterfaces } from "../../src/node/config/network-interface.ts";

function v4(address: string, internal = false): NetworkInterfaceInfo {
  return { family: "IPv4", address, netmask: "255.255.255.0", mac: "02:00:00:00:00:01", internal, cidr: null };
}

function v6(address: string): NetworkInterfaceInfo {
  return { family: "IPv6", address, netmask: "ffff:ffff::", mac: "02:00:00:00:00:01", internal: false, cidr: null, scopeid: 0 };
}

/** `eth0.100` stands before `eth0` on purpose. */
export const INTERFACES: NetworkInterfaces = {
  lo: [v4("127.0.0.1", true)],
  "eth0.100": [v4("192.0.2.50")],
  eth0: [v6("2001:db8::1"), v4("192.0.2.5")],
  eth1: [v4("198.51.100.5")],
  six: [v6("fe80::1"), v6("2001:db8::5")],
  link: [v6("fe80::2")],
};
