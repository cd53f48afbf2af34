// Goal: one who asks the wrong program for the status is told what is there, at once.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { exitCodeFor, USAGE_EXIT_CODE } from "../node/launcher/process-errors.ts";
import { realClock } from "../node/real-clock.ts";
import { SocketTransport } from "../node/transport/socket-transport.ts";
import { fetchStatus } from "./cluster-client.ts";

test("asked of an HTTP server, it says that this is no Weighbridge scheduler", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const clock = realClock();
  try {
    await assert.rejects(fetchStatus({ address, timeoutMs: 3000, clock, transport: new SocketTransport({ clock }) }), {
      code: "SCHEDULER_UNREACHABLE",
      message: /^what listens at tcp:\S+ is no Weighbridge scheduler: it answers "HTTP\/1\.1 400 Bad Request"; correct the address: /,
    });
  } finally {
    server.close();
  }
});

test("asked of a host that does not exist, the command ends as with any other mistake in a configuration", async () => {
  const clock = realClock();
  const address = "tcp://scheduler.invalid:9700";
  await assert.rejects(fetchStatus({ address, timeoutMs: 3000, clock, transport: new SocketTransport({ clock }) }), (error) => {
    assert.equal(exitCodeFor(error), USAGE_EXIT_CODE);
    return isWeighbridgeError(error, "SCHEDULER_UNREACHABLE");
  });
});

test("an address where nothing listens is named once, with the system's reason and what to do", async () => {
  const clock = realClock();
  const address = "tcp://127.0.0.1:1";
  await assert.rejects(fetchStatus({ address, timeoutMs: 3000, clock, transport: new SocketTransport({ clock }) }), {
    code: "SCHEDULER_UNREACHABLE",
    message:
      "no scheduler answers at 127.0.0.1:1: the connection was refused (ECONNREFUSED); start one there, or name another: weighbridge://HOST:PORT",
  });
});
