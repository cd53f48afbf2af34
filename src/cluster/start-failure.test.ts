// start-failure.test — Goal: a node that cannot take its slot is waited for by nobody, and is itself not kept from
// ending.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { ControlCluster, SCHEDULER_ADDRESS } from "../testing/control-cluster.ts";
import type { Listener } from "../transport/transport.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, PROTOCOL_VERSION } from "../wire/frame.ts";
import { Group } from "../wire/node-id.ts";
import { reportStartFailure, type StartFailure } from "./start-failure.ts";

const TAKEN = new WeighbridgeError("PORT_IN_USE", "cannot listen on tcp://192.0.2.1:7000: it is taken");

function missing(cluster: ControlCluster): StartFailure {
  const { clock, serverCount, workerCount } = cluster;
  const node = { role: "server", rank: 1, label: "s1", serverCount, workerCount } as const;
  return { peer: cluster.peer("s1"), clock, log: SILENT_LOG, schedulerAddress: SCHEDULER_ADDRESS, node };
}

test("while a cluster forms everybody ends with the reason, those that come a little later as well", async () => {
  const cluster = new ControlCluster();
  const nodes = [cluster.node("server", "s0"), cluster.node("worker", "w0")];
  const told = reportStartFailure(missing(cluster), TAKEN); // before there is a scheduler
  await cluster.clock.advance(1000);
  const scheduler = await cluster.scheduler();
  await cluster.clock.runUntil(told);
  const reason = /^(the scheduler: )?server 1 \("s1"\) cannot take part: cannot listen on tcp:\/\/192\.0\.2\.1:7000: it is taken$/;
  nodes.push(cluster.node("worker", "w1"));
  for (const { joined } of nodes) await cluster.fails(joined, "PORT_IN_USE", reason);
  await cluster.fails(scheduler.ready, "PORT_IN_USE", reason);
  assert.ok(cluster.clock.nowMs() < 4000, `it took ${cluster.clock.nowMs()} ms`);
});

test("a cluster that is complete goes on, and the slot stays free for another", async () => {
  const cluster = new ControlCluster();
  const { scheduler, workers } = await cluster.formed();
  cluster.network.crash("s1");
  await cluster.clock.advance(100);
  await cluster.clock.runUntil(reportStartFailure(missing(cluster), TAKEN));
  const again = await cluster.restarted("server", "s1b", { rank: 1 });
  assert.deepEqual([again.node, again.incarnation], [10, 2]);
  assert.deepEqual([scheduler.status().phase, workers[0]?.fatal], ["running", undefined]);
});

test("without a scheduler it gives up after a while", async () => {
  const cluster = new ControlCluster();
  await cluster.clock.runUntil(reportStartFailure(missing(cluster), TAKEN), { untilMs: 10_000 });
  assert.equal(cluster.clock.nowMs(), 5000);
});

const HTTP = new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
const ZMTP = Uint8Array.of(0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f);

/** The header of a failure, as a node of that version would begin it. */
function failureOfVersion(version: number): Uint8Array {
  const words = new Uint32Array(HEADER_BYTES / 4);
  encodeHeader(new FrameHeader().reset(Kind.FAILURE, 0), words, 0);
  const bytes = new Uint8Array(words.buffer);
  bytes[2] = version;
  return bytes;
}

/** Answers whatever comes with these bytes, and closes. */
async function listenAsAnother({ network }: ControlCluster, answer: Uint8Array): Promise<Listener> {
  return await network.host("scheduler").listen(SCHEDULER_ADDRESS, (link) => {
    const buffer = new Uint8Array(4096);
    return {
      view: () => buffer,
      received: () => {
        link.write([answer], () => {});
        link.close();
      },
      closed: () => {},
    };
  });
}

for (const [what, answer, code, says] of [
  [
    "an HTTP server",
    HTTP,
    "SCHEDULER_UNREACHABLE",
    /^what listens at sim:\S+ is no Weighbridge scheduler: it answers "HTTP\/.*"; correct the address: connect\(address\).*WEIGHBRIDGE_SCHEDULER_HOST/,
  ],
  ["a scheduler of ps-lite", ZMTP, "SCHEDULER_UNREACHABLE", /is no Weighbridge scheduler: .* as ps-lite's programs do: .*--van zmq/],
  [
    "a scheduler of another version",
    failureOfVersion(PROTOCOL_VERSION + 1),
    "VERSION_MISMATCH",
    new RegExp(`speaks version ${PROTOCOL_VERSION + 1} of the protocol, and this node version ${PROTOCOL_VERSION}; install the same`),
  ],
] as const) {
  test(`a node that finds ${what} at the scheduler's address says so at once`, async () => {
    const cluster = new ControlCluster();
    await listenAsAnother(cluster, answer);
    const { joined } = cluster.node("worker", "w0");
    await cluster.fails(joined, code, says);
    assert.ok(cluster.clock.nowMs() < 1000, `it took ${cluster.clock.nowMs()} ms`);
  });
}

test("a node that has its slot goes on when something else listens at the scheduler's address, until the scheduler is back", async () => {
  const cluster = new ControlCluster();
  const { servers, workers } = await cluster.formed();
  const nodes = [...servers, ...workers];
  for (const answer of [HTTP, failureOfVersion(PROTOCOL_VERSION + 1)]) {
    cluster.network.crash("scheduler");
    const listener = await listenAsAnother(cluster, answer);
    await cluster.clock.advance(5000);
    for (const { fatal } of nodes) assert.equal(fatal, undefined);
    await listener.close();
    await cluster.scheduler();
    const passed = Promise.all(nodes.map((node) => node.barrier(Group.WORKERS | Group.SERVERS, 0)));
    await cluster.clock.runUntil(passed, { untilMs: cluster.clock.nowMs() + 10_000 });
  }
});
