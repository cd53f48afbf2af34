// Goal: SimpleApp's requests between nodes of ours and nodes of ps-lite, which a test plays: at the start, when theirs
// cannot take any yet, and with bodies of every length.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimpleApp } from "../../src/faces/kv/simple-app.ts";
import { SERVERS_FIRST_MS } from "../../src/pslite/barrier-releases.ts";
import { PsCommand, type PsMeta } from "../../src/pslite/wire/ps-meta.ts";
import { PsliteCluster } from "../../src/testing/pslite-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { Group } from "../../src/wire/node-id.ts";
import { BODY_BYTES_MAX } from "../../src/wire/simple-frame.ts";
import { barrierEntry, dialed, registration, serverAt, workerAt } from "./pslite-nodes.ts";
import { messageBytes, metasOf } from "./pslite-notes.ts";
import { RawListener } from "./pslite-recording.ts";

const UNTIMED = { heartbeatIntervalMs: 0, heartbeatTimeoutMs: 0 };

/** What a node was sent, in order: "list", "barrier", or "request" with its body. */
function sentTo({ connections }: RawListener): string[] {
  return connections.flatMap(({ hex }) => metasOf(hex)).map(wordOf);
}

function wordOf({ command, body, simpleApp, request }: PsMeta): string {
  if (command === PsCommand.ADD_NODE) return "list";
  if (command === PsCommand.BARRIER) return "barrier";
  return simpleApp && request ? `request ${new TextDecoder().decode(body)}` : `command ${command}`;
}

test("what our scheduler asks right after its start leaves for nodes of theirs when they have heard that all have started (BarrierReleases.X3)", async () => {
  const cluster = new PsliteCluster(UNTIMED);
  const [server, worker] = [await RawListener.at(cluster, 9601), await RawListener.at(cluster, 9602)];
  const starting = cluster.startNode("scheduler", "scheduler");
  await cluster.clock.advance(10);
  for (const node of [serverAt(9601), workerAt(9602)]) (await dialed(cluster, 9600, "")).write(registration(node));
  await cluster.clock.advance(100);
  const dialers = [await dialed(cluster, 9600, "ps8"), await dialed(cluster, 9600, "ps9")];
  for (const dialer of dialers) dialer.write(barrierEntry(Group.ALL));
  const office = await cluster.run(starting);
  const app = new SimpleApp(office, 0);
  const requests = ["a", "b"].map((body) => app.request(1, body, Group.SERVERS | Group.WORKERS));

  await cluster.clock.advance(SERVERS_FIRST_MS / 2);
  assert.deepEqual(sentTo(server), ["list", "barrier"], "the server has time to make its application");
  assert.deepEqual(sentTo(worker), ["list"]);
  await cluster.clock.advance(SERVERS_FIRST_MS);
  assert.deepEqual(sentTo(server), ["list", "barrier", "request a", "request b"]);
  assert.deepEqual(sentTo(worker), ["list", "barrier"], "and so has the worker");
  requests.push(app.request(1, "c", Group.WORKERS));
  await cluster.clock.advance(SERVERS_FIRST_MS);
  assert.deepEqual(sentTo(worker), ["list", "barrier", "request a", "request b", "request c"], "in their order");

  const later = office.barrier(0, Group.ALL);
  for (const dialer of dialers) dialer.write(barrierEntry(Group.ALL));
  await cluster.run(later);
  app.request(1, "d", Group.SERVERS);
  await cluster.clock.advance(5);
  assert.deepEqual(sentTo(server).slice(4), ["barrier", "request d"], "their applications are there: a later barrier costs no time");
  await cluster.run(office.close());
});

test("what our server asks right after its start leaves for nodes of theirs when they have heard that all have started (BarrierEntries.T6)", async () => {
  const cluster = new PsliteCluster(UNTIMED);
  const worker = await RawListener.at(cluster, 9650);
  const starting = Promise.all([cluster.startNode("server", "server-0"), cluster.startNode("scheduler", "scheduler")]);
  await cluster.clock.advance(50);
  (await dialed(cluster, 9600, "")).write(registration(workerAt(9650)));
  await cluster.clock.advance(100);
  (await dialed(cluster, 9600, "ps9")).write(barrierEntry(Group.ALL));
  const [office, scheduler] = await cluster.run(starting);
  new SimpleApp(office, 0).request(1, "a", Group.WORKERS);
  await cluster.clock.advance(2 * SERVERS_FIRST_MS - 20);
  assert.deepEqual(sentTo(worker), ["list", "barrier"], "were a server theirs, the worker would hear it SERVERS_FIRST_MS later");
  await cluster.clock.advance(40);
  assert.deepEqual(sentTo(worker), ["list", "barrier", "request a"]);
  await cluster.run(Promise.all([office.close(), scheduler.close()]));
});

test("under their scheduler our server asks others nothing before SERVERS_FIRST_MS have passed since the start (BarrierEntries.T6)", async () => {
  const cluster = new PsliteCluster(UNTIMED);
  const scheduler = await RawListener.at(cluster, 9600);
  await RawListener.at(cluster, 9650);
  const starting = cluster.startNode("server", "server-0");
  await cluster.clock.advance(50);
  const dialer = await dialed(cluster, 9601, "ps1");
  const nodes = [serverAt(9601, { id: 8 }), workerAt(9650, { id: 9 }), { ...serverAt(9600, { id: 1 }), role: 2 }];
  dialer.write(messageBytes({ command: PsCommand.ADD_NODE, nodes, timestamp: 0 }));
  await cluster.clock.advance(50);
  dialer.write(messageBytes({ command: PsCommand.BARRIER, appId: 0, customerId: 0, timestamp: 1, barrierGroup: Group.ALL }));
  const office = await cluster.run(starting);
  new SimpleApp(office, 0).request(1, "a", Group.SCHEDULER);
  await cluster.clock.advance(SERVERS_FIRST_MS - 20);
  assert.deepEqual(sentTo(scheduler), ["list", "barrier"]);
  await cluster.clock.advance(40);
  assert.deepEqual(sentTo(scheduler), ["list", "barrier", "request a"]);
  await cluster.run(office.close());
});

test("what our scheduler or server asked fails when its own connection breaks, also while the node's is open", async () => {
  const cluster = new PsliteCluster({ ...UNTIMED, startBarrier: false });
  const worker = await RawListener.at(cluster, 9650);
  const starting = Promise.all([cluster.startNode("server", "server-0"), cluster.startNode("scheduler", "scheduler")]);
  await cluster.clock.advance(50);
  (await dialed(cluster, 9600, "")).write(registration(workerAt(9650)));
  const offices = await cluster.run(starting);
  for (const port of [9600, 9601]) await dialed(cluster, port, "ps9");
  const asked = offices.map((office) => {
    const app = new SimpleApp(office, 0);
    return app.wait(app.request(1, "a", 9));
  });
  await cluster.clock.advance(50);
  assert.equal(sentTo(worker).filter((word) => word === "request a").length, 2);
  worker.cutOff();
  for (const each of asked) await assert.rejects(cluster.run(each), throwsCode("NODE_DEAD", /worker 0/));
  await cluster.run(Promise.all(offices.map((office) => office.close())));
});

/**
 * A scheduler and a server of ours, started, and a worker of theirs, which the test plays: it has dialed the server.
 */
async function serverOfOurs() {
  const cluster = new PsliteCluster({ ...UNTIMED, startBarrier: false });
  const worker = await RawListener.at(cluster, 9650);
  const starting = Promise.all([cluster.startNode("server", "server-0"), cluster.startNode("scheduler", "scheduler")]);
  await cluster.clock.advance(50);
  (await dialed(cluster, 9600, "")).write(registration(workerAt(9650)));
  const [office, scheduler] = await cluster.run(starting);
  const dialer = await dialed(cluster, 9601, "ps9");
  const request = (body: Uint8Array, timestamp: number): Uint8Array =>
    messageBytes({ request: true, simpleApp: true, head: 3, body, appId: 0, customerId: 0, timestamp });
  const answersTo = (timestamp: number): PsMeta[] =>
    worker.connections.flatMap(({ hex }) => metasOf(hex)).filter((meta) => meta.simpleApp && meta.timestamp === timestamp);
  const close = (): Promise<unknown> => cluster.run(Promise.all([office.close(), scheduler.close()]));
  return { cluster, office, dialer, request, answersTo, close };
}

test("a body of 3 MB from a worker of theirs is served and echoed, as by theirs", async () => {
  const { cluster, office, dialer, request, answersTo, close } = await serverOfOurs();
  new SimpleApp(office, 0).setRequestHandle((data, app) => app.response(data, data.body));
  const bodies = [1024 * 1024, 1024 * 1024 + 1, 3_000_000].map((length) => new Uint8Array(length).map((_, i) => i * 7));
  for (const [timestamp, body] of bodies.entries()) dialer.write(request(body, timestamp));
  await cluster.clock.advance(100);
  for (const [timestamp, body] of bodies.entries()) {
    const [answer, ...more] = answersTo(timestamp);
    assert.deepEqual([answer?.head, answer?.request, more], [3, false, []]);
    assert.deepEqual(answer?.body, body);
  }
  await close();
});

test("a body over 64 MiB from a worker of theirs is answered with a failure, and the next one is served (IncomingConnection.I4)", async () => {
  const { cluster, office, dialer, request, answersTo, close } = await serverOfOurs();
  const served: number[] = [];
  new SimpleApp(office, 0).setRequestHandle((data, app) => {
    served.push(data.body.length);
    app.response(data, "here");
  });
  dialer.write(request(new Uint8Array(BODY_BYTES_MAX + 64 * 1024), 0), request(new Uint8Array(5), 1));
  await cluster.clock.advance(100);
  const [refusal] = answersTo(0);
  assert.match(new TextDecoder().decode(refusal?.body), /BAD_REQUEST.*67174400 bytes is over the limit of 67108864/);
  assert.deepEqual([new TextDecoder().decode(answersTo(1)[0]?.body), served], ["here", [5]]);
  assert.equal(dialer.keeper.isClosed, false);
  await close();
});

test("a long body is taken from one connection of a node at a time, and from nobody who is no node (IncomingConnection.I5)", async () => {
  const { cluster, office, dialer, request, answersTo, close } = await serverOfOurs();
  new SimpleApp(office, 0).setRequestHandle((data, app) => app.response(data, "here"));
  const long = request(new Uint8Array(3_000_000), 0);
  const stranger = await dialed(cluster, 9601, "");
  stranger.write(long);
  dialer.write(long.subarray(0, 2_000_000));
  await cluster.clock.advance(10);
  assert.deepEqual([stranger.keeper.isClosed, dialer.keeper.isClosed], [true, false]);
  const second = await dialed(cluster, 9601, "ps9");
  second.write(long);
  await cluster.clock.advance(100);
  assert.deepEqual([dialer.keeper.isClosed, second.keeper.isClosed, answersTo(0).length], [true, false, 1]);
  await close();
});
