// Addresses of sockets, taken apart and refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { formatTcpAddress, parseSocketAddress } from "./socket-address.ts";

test("takes TCP addresses apart and puts them together again", () => {
  for (const [address, host, port] of [
    ["tcp://127.0.0.1:8000", "127.0.0.1", 8000],
    ["tcp://[::1]:0", "::1", 0],
    ["tcp://[fe80::1%eth0]:65535", "fe80::1%eth0", 65535],
    ["tcp://node-1.example:1", "node-1.example", 1],
  ] as const) {
    assert.deepEqual(parseSocketAddress(address), { kind: "tcp", host, port });
    assert.equal(formatTcpAddress(host, port), address);
  }
});

test("takes the path of a unix address as it is", () => {
  assert.deepEqual(parseSocketAddress("unix:///run/a b/%20.sock"), { kind: "unix", path: "/run/a b/%20.sock" });
});

test("refuses what is neither, and names it", () => {
  for (const address of ["", "tcp://", "tcp://a", "tcp://a:", "tcp://a:65536", "tcp://a:-1", "tcp://a:1.5", "tcp://::1:80", "tcp://[a]:x"])
    assert.throws(
      () => parseSocketAddress(address),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && error.message.includes(address),
    );
  for (const address of ["unix://", "unix:///", "unix://a", "unix:///a/", "unix:a", "http://a:1", " tcp://a:1", "tcp://a:1\n"])
    assert.throws(
      () => parseSocketAddress(address),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT"),
    );
});
