// Addresses of network interfaces by name.

import assert from "node:assert/strict";
import { test } from "node:test";
import { INTERFACES } from "../../../test/support/network-interfaces.ts";
import { addressOfInterface, firstOuterAddress, isLoopback, isWildcard, listInterfaces } from "./network-interface.ts";

test("finds an interface by its name and by the beginning of its name", () => {
  assert.equal(addressOfInterface("eth1", INTERFACES), "198.51.100.5");
  assert.equal(addressOfInterface("eth", INTERFACES), "192.0.2.50");
  assert.equal(addressOfInterface("wlan", INTERFACES), undefined);
});

test("prefers the interface of exactly that name to a longer one", () => {
  assert.equal(addressOfInterface("eth0", INTERFACES), "192.0.2.5");
});

test("prefers IPv4, and takes IPv6 unless it is link-local", () => {
  assert.equal(addressOfInterface("six", INTERFACES), "2001:db8::5");
  assert.equal(addressOfInterface("link", INTERFACES), undefined);
});

test("finds the first IPv4 address that is not loopback", () => {
  assert.equal(firstOuterAddress(INTERFACES), "192.0.2.50");
  assert.equal(firstOuterAddress({}), undefined);
});

test("lists interfaces with their addresses, for an error", () => {
  assert.match(listInterfaces(INTERFACES), /lo \(127\.0\.0\.1\), .*link \(no address\)/);
  assert.equal(listInterfaces({}), "none at all");
});

test("knows the wildcard and loopback addresses in their spellings", () => {
  for (const host of ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::0.0.0.0"]) assert.ok(isWildcard(host), host);
  for (const host of ["192.0.2.0", "::1", "0", "localhost"]) assert.ok(!isWildcard(host), host);
  for (const host of ["localhost", "127.0.0.1", "127.9.9.9", "::1", "0:0:0:0:0:0:0:1"]) assert.ok(isLoopback(host), host);
  for (const host of ["192.0.2.1", "::", "2001::1", "::11"]) assert.ok(!isLoopback(host), host);
});
