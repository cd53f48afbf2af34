// A value of more than 2 GiB, which ps-lite cannot send: pushed twice and pulled whole, over real sockets. Needs about
// 9 GB of memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENT_LOG } from "../../src/base/log.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Postoffice } from "../../src/faces/kv/postoffice.ts";
import { realClock } from "../../src/node/real-clock.ts";
import { SocketTransport } from "../../src/node/transport/socket-transport.ts";
import { startOffice } from "../../src/testing/start-office.ts";
import type { Role } from "../../src/wire/node-id.ts";

const FLOAT_COUNT = 650_000_000;
const SCHEDULER_ADDRESS = "tcp://127.0.0.1:9793";

async function start(role: Role): Promise<Postoffice> {
  const clock = realClock();
  return await startOffice({
    role,
    serverCount: 1,
    workerCount: 1,
    schedulerAddress: SCHEDULER_ADDRESS,
    ...(role === "server" ? { listenAddress: "tcp://127.0.0.1:0" } : {}),
    transport: new SocketTransport({ clock }),
    clock,
    log: SILENT_LOG,
    heartbeatTimeoutMs: 60_000,
  });
}

test("a value of 2.6 GB is summed and read back exactly", async () => {
  const offices = await Promise.all([start("scheduler"), start("server"), start("worker")]);
  const [, server, worker] = offices as [Postoffice, Postoffice, Postoffice];
  new KVServer(server, 0);
  const kv = new KVWorker(worker, 0);
  const key = BigUint64Array.of(2n ** 64n - 1n);
  const vals = new Float32Array(FLOAT_COUNT);
  for (let i = 0; i < FLOAT_COUNT; i++) vals[i] = i % 1000;
  await kv.wait(kv.push(key, vals));
  await kv.wait(kv.push(key, vals));
  const pulled = new Float32Array(FLOAT_COUNT);
  await kv.wait(kv.pull(key, pulled));
  let wrong = 0;
  for (let i = 0; i < FLOAT_COUNT; i++) if (pulled[i] !== 2 * (i % 1000)) wrong++;
  assert.equal(wrong, 0);
  await Promise.all(offices.map((office) => office.finalize()));
});
