// Goal: a number and some bytes go to a node or a whole group, everybody's answer or error comes back, now or later.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { MemoryCluster, type MemoryClusterOptions } from "../../testing/memory-cluster.ts";
import { SimCluster } from "../../testing/sim-cluster.ts";
import { Group, idOf, SCHEDULER_ID } from "../../wire/node-id.ts";
import { BODY_BYTES_MAX } from "../../wire/simple-frame.ts";
import { KVServer } from "./kv-server.ts";
import { KVWorker } from "./kv-worker.ts";
import { SimpleApp, type SimpleData } from "./simple-app.ts";

const APP = 7;
const text = ({ body }: SimpleData): string => new TextDecoder().decode(body);
const hasCode =
  (code: ErrorCode, message = /./) =>
  (error: unknown): boolean =>
    isWeighbridgeError(error, code) && message.test(error.message);

/** The app on every node: scheduler, servers, workers. */
async function stage(options: MemoryClusterOptions = { serverCount: 2, workerCount: 2 }) {
  const cluster = await MemoryCluster.start(options);
  const offices = [
    cluster.scheduler,
    ...Array.from({ length: cluster.serverCount }, (_, rank) => cluster.server(rank)),
    ...Array.from({ length: cluster.workerCount }, (_, rank) => cluster.worker(rank)),
  ];
  const apps = new Map(offices.map((office) => [office.nodeId, new SimpleApp(office, APP)]));
  const app = (node: number): SimpleApp => apps.get(node) ?? assert.fail(`no node ${node}`);
  /** Everybody answers with its own id. */
  const echo = (): void => {
    for (const [node, one] of apps) one.setRequestHandle((data, own) => own.response(data, `${node} got ${text(data)}`));
  };
  return { cluster, apps, app, echo };
}

/** Sends and returns what came back, by sender. */
async function ask(cluster: MemoryCluster, app: SimpleApp, receiver: number, body: Uint8Array | string = "hi"): Promise<string[]> {
  const answers: string[] = [];
  app.setResponseHandle((data) => {
    answers.push(`${data.sender}: ${text(data)}`);
  });
  await cluster.run(app.wait(app.request(1, body, receiver)));
  return answers.sort();
}

test("a request to a node carries head, body, sender and customer, and its answer comes back before the wait ends", async () => {
  const { cluster, app } = await stage();
  const requests: SimpleData[] = [];
  const responses: SimpleData[] = [];
  app(8).setRequestHandle((data, own) => {
    requests.push(data);
    own.response(data, Uint8Array.of(1, 2, 3));
  });
  app(9).setResponseHandle((data) => {
    responses.push(data);
  });
  const timestamp = app(9).request(-42, "weigh this", idOf("server", 0));
  await cluster.run(app(9).wait(timestamp));
  assert.deepEqual(
    requests.map((data) => [data.head, text(data), data.sender, data.customerId]),
    [[-42, "weigh this", 9, APP]],
  );
  assert.deepEqual(
    responses.map(({ head, body, sender, timestamp: of }) => ({ head, body, sender, of })),
    [{ head: -42, body: Uint8Array.of(1, 2, 3), sender: 8, of: timestamp }],
  );
});

test("a request to a group reaches every member, whoever of another role sends it", async () => {
  const { cluster, app, echo } = await stage();
  echo();
  assert.deepEqual(await ask(cluster, app(9), Group.SERVERS), ["10: 10 got hi", "8: 8 got hi"]);
  assert.deepEqual(await ask(cluster, app(8), Group.WORKERS), ["11: 11 got hi", "9: 9 got hi"]);
  assert.deepEqual(await ask(cluster, app(9), Group.SERVERS | Group.SCHEDULER), ["10: 10 got hi", "1: 1 got hi", "8: 8 got hi"]);
  assert.deepEqual(await ask(cluster, app(8), SCHEDULER_ID), ["1: 1 got hi"]);
  const all = await ask(cluster, app(1), Group.SERVERS | Group.WORKERS);
  assert.deepEqual(all, ["10: 10 got hi", "11: 11 got hi", "8: 8 got hi", "9: 9 got hi"]);
});

test("a node that is a member of the group it asks is served by its own handle, as ps-lite does it (SimpleApp.M1)", async () => {
  const { cluster, app, echo } = await stage({ serverCount: 1, workerCount: 1 });
  echo();
  const everybody = ["1: 1 got hi", "8: 8 got hi", "9: 9 got hi"];
  for (const node of [1, 8, 9]) assert.deepEqual(await ask(cluster, app(node), Group.ALL), everybody, `node ${node}`);
  assert.deepEqual(await ask(cluster, app(9), 9), ["9: 9 got hi"]);
  assert.deepEqual(await ask(cluster, app(8), Group.SERVERS), ["8: 8 got hi"]);
  const seen: unknown[] = [];
  app(9).setRequestHandle((data, own) => {
    seen.push([data.head, text(data), data.sender, data.customerId]);
    own.response(data);
  });
  const timestamp = app(9).request(-42, "weigh this", 9);
  assert.deepEqual(seen, [], "not from inside the call");
  await cluster.run(app(9).wait(timestamp));
  assert.deepEqual(seen, [[-42, "weigh this", 9, APP]]);
});

test("a request of a node to itself fails with what its handle throws, and ends when the node closes (SimpleApp.M1)", async () => {
  const { cluster, app } = await stage({ serverCount: 1, workerCount: 1 });
  app(1).setRequestHandle(({ head }) => {
    if (head === 1) throw new Error("no such weight");
  });
  const asked = (head: number): Promise<void> => app(1).wait(app(1).request(head, "", SCHEDULER_ID));
  await assert.rejects(cluster.run(asked(1)), hasCode("HANDLER_FAILED", /scheduler: Error: no such weight/));
  const open = asked(2);
  open.catch(() => {}); // it is looked at below
  await cluster.run(cluster.scheduler.close());
  await assert.rejects(cluster.run(open), hasCode("CLOSED"));
  assert.equal(app(1).customer.tracker.keptCount, 0);
});

test("without a handle requests are answered with nothing", async () => {
  const { cluster, app } = await stage();
  assert.deepEqual(await ask(cluster, app(9), Group.SERVERS), ["10: ", "8: "]);
});

test("bodies of any bytes up to 64 MiB pass unchanged, in several frames too; more is refused before anything is sent", async () => {
  const { cluster, app } = await stage();
  const bodies: Uint8Array[] = [];
  app(8).setRequestHandle((data, own) => {
    bodies.push(data.body);
    own.response(data, data.body);
  });
  const sizes = [0, 1, 4096, 4097, 100_001, 1024 * 1024, 1024 * 1024 + 1, 3_000_000];
  for (const size of sizes) {
    const body = Uint8Array.from({ length: size }, (_, i) => i * 31);
    const answered: Uint8Array[] = [];
    app(9).setResponseHandle((data) => {
      answered.push(data.body);
    });
    await cluster.run(app(9).wait(app(9).request(0, body, 8)));
    assert.deepEqual(bodies.at(-1), body);
    assert.deepEqual(answered, [body]);
  }
  assert.throws(() => app(9).request(0, new Uint8Array(BODY_BYTES_MAX + 1), 8), hasCode("BAD_ARGUMENT", /over the limit/));
  assert.equal(bodies.length, sizes.length);
});

test("a body is copied when it is asked for: what its array is changed into, or given away to, meanwhile is not sent", async () => {
  const { cluster, app } = await stage();
  app(8).setRequestHandle((data, own) => own.response(data, data.body));
  for (const size of [5, 3_000_000]) {
    const body = new Uint8Array(size).fill(7);
    const answers: Uint8Array[] = [];
    app(9).setResponseHandle((data) => {
      answers.push(data.body);
    });
    const timestamp = app(9).request(0, body, 8);
    body.fill(9);
    structuredClone(body.buffer, { transfer: [body.buffer] });
    await cluster.run(app(9).wait(timestamp));
    assert.deepEqual(answers, [new Uint8Array(size).fill(7)]);
  }
});

test("long bodies come whole and once through links that break at any moment", async () => {
  const cluster = new SimCluster({
    seed: 31,
    serverCount: 1,
    workerCount: 1,
    network: { latencyMsMin: 1, latencyMsMax: 5, breakChance: 0.02 },
  });
  await cluster.start();
  let servedCount = 0;
  new SimpleApp(cluster.server(0), APP).setRequestHandle((data, own) => {
    servedCount++;
    own.response(data, data.body);
  });
  const asking = new SimpleApp(cluster.worker(0), APP);
  const body = Uint8Array.from({ length: 3_000_001 }, (_, i) => i * 31);
  let answeredCount = 0;
  asking.setResponseHandle((data) => {
    assert.deepEqual(data.body, body);
    answeredCount++;
  });
  for (let i = 0; i < 3; i++) await cluster.run(asking.wait(asking.request(0, body, idOf("server", 0))));
  assert.deepEqual([servedCount, answeredCount], [3, 3]);
});

test("errors come back: what a handle throws or rejects with, with its code and its node", async () => {
  const { cluster, app } = await stage();
  app(8).setRequestHandle(({ head }) => {
    if (head === 1) throw new Error("no such weight");
    throw new WeighbridgeError("UNSUPPORTED", "not here");
  });
  app(10).setRequestHandle(async () => {
    await Promise.resolve();
    throw new Error("too late");
  });
  const asked = (head: number, receiver: number): Promise<void> => cluster.run(app(9).wait(app(9).request(head, "", receiver)));
  await assert.rejects(asked(1, 8), hasCode("HANDLER_FAILED", /server 0: Error: no such weight/));
  await assert.rejects(asked(2, 8), hasCode("UNSUPPORTED", /not here/));
  await assert.rejects(asked(1, 10), hasCode("HANDLER_FAILED", /server 1: Error: too late/));
});

test("a group request ends when all have answered, with the first failure; the others' answers are seen", async () => {
  const { cluster, app, echo } = await stage();
  echo();
  app(8).setRequestHandle(() => {
    throw new Error("not me");
  });
  const seen: number[] = [];
  app(9).setResponseHandle(({ sender }) => {
    seen.push(sender);
  });
  await assert.rejects(cluster.run(app(9).wait(app(9).request(0, "", Group.SERVERS))), hasCode("HANDLER_FAILED", /not me/));
  assert.deepEqual(seen, [10]);
});

test("an answer may be given later, once", async () => {
  const { cluster, app } = await stage();
  let answer = (): void => assert.fail("nothing came");
  app(8).setRequestHandle((data, own) => {
    answer = () => own.response(data, "later");
  });
  const answers: string[] = [];
  app(9).setResponseHandle((data) => {
    answers.push(text(data));
  });
  const timestamp = app(9).request(0, "", 8);
  await assert.rejects(cluster.run(app(9).wait(timestamp, { timeoutMs: 1000 })), hasCode("DEADLINE"));
  await assert.rejects(cluster.run(app(9).wait(timestamp, { signal: AbortSignal.abort() })), hasCode("ABORTED"));
  answer();
  await cluster.run(app(9).wait(timestamp));
  assert.deepEqual(answers, ["later"]);
  assert.throws(() => answer(), hasCode("BAD_ARGUMENT", /answered already/));
});

test("an answer that is too large is refused, and another one may be given", async () => {
  const { cluster, app } = await stage();
  app(8).setRequestHandle((data, own) => {
    assert.throws(() => own.response(data, new Uint8Array(BODY_BYTES_MAX + 1)), hasCode("BAD_ARGUMENT"));
    own.response(data, "smaller");
  });
  assert.deepEqual(await ask(cluster, app(9), 8), ["8: smaller"]);
});

test("a handle that fails after its answer, and a response handle that throws or rejects, are logged and harm nobody", async () => {
  const { cluster, app } = await stage();
  app(8).setRequestHandle((data, own) => {
    own.response(data);
    throw new Error("after the fact");
  });
  app(9).setResponseHandle(() => {
    throw new Error("cannot read this");
  });
  await cluster.run(app(9).wait(app(9).request(0, "", 8)));
  app(9).setResponseHandle(async () => {
    throw new Error("nor this");
  });
  await cluster.run(app(9).wait(app(9).request(0, "", 8)));
  const count = (line: string): number => cluster.logLines.filter((one) => one === line).length;
  assert.equal(count("error a request handle failed after it had answered"), 2);
  assert.equal(count("error a response handle failed"), 2);
});

test("receivers that do not exist, of the own role, or a head that is no number send nothing", async () => {
  const { cluster, app, echo } = await stage();
  echo();
  for (const receiver of [12, 99, 0, -1, Number.NaN])
    assert.throws(() => app(9).request(0, "", receiver), hasCode("NO_ROUTE"), `${receiver}`);
  assert.throws(() => app(9).request(0, "", Group.WORKERS), hasCode("NO_ROUTE", /own role/));
  assert.throws(() => app(9).request(0, "", Group.ALL), hasCode("NO_ROUTE", /own role/));
  assert.throws(() => app(9).request(0, "", idOf("worker", 1)), hasCode("NO_ROUTE", /own role/));
  for (const head of [Number.NaN, 0.5, 2 ** 31])
    assert.throws(() => app(9).request(head, "", 8), hasCode("BAD_ARGUMENT", /head/), `${head}`);
  assert.equal(app(9).customer.tracker.nextTimestamp, 0);
  await cluster.finalize();
});

test("a group is asked as a whole or not at all when one member's queue is full", async () => {
  const { cluster, app, echo } = await stage({ serverCount: 2, workerCount: 1, limits: { queuedMax: 4, inFlightBytesMax: 1000 } });
  echo();
  cluster.links.get(idOf("server", 1))?.[1]?.pause();
  const body = new Uint8Array(2000);
  let sent = 0;
  const sendAll = async (): Promise<void> => {
    for (; ; sent++) {
      app(9).request(0, body, Group.SERVERS);
      await cluster.clock.advance(1);
    }
  };
  await assert.rejects(sendAll(), hasCode("QUEUE_FULL", /server 1/));
  assert.equal(app(9).customer.tracker.nextTimestamp, sent, "the refused request has no number");
  cluster.links.get(idOf("server", 1))?.[1]?.resume();
  await cluster.run(app(9).wait(sent - 1));
  assert.equal(app(9).customer.tracker.keptCount, 0, "no request stays open");
});

test("requests that come before the app wait for it; on a worker, for the right customer", async () => {
  const cluster = await MemoryCluster.start();
  const asking = new SimpleApp(cluster.server(), 3, 5);
  const timestamp = asking.request(1, "early", idOf("worker", 0));
  await cluster.clock.advance(1000);
  new SimpleApp(cluster.worker(), 3, 4);
  await cluster.clock.advance(1000);
  const right = new SimpleApp(cluster.worker(), 3, 5);
  right.setRequestHandle((data, own) => own.response(data, "here"));
  await cluster.run(asking.wait(timestamp));
  const nobody = asking.request(1, "", SCHEDULER_ID);
  await assert.rejects(cluster.run(asking.wait(nobody)), hasCode("UNKNOWN_APP", /application 3/));
});

test("a server that was restarted gets the answer to its own first request, not to the one that waited before it", async () => {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1 });
  await cluster.start();
  const [server, worker] = [idOf("server", 0), idOf("worker", 0)];
  new SimpleApp(cluster.server(0), APP).request(1, "old", worker);
  await cluster.clock.advance(300);
  cluster.kill(server);
  const restarted = new SimpleApp(await cluster.run(cluster.startNode(server)), APP);
  const answers: string[] = [];
  restarted.setResponseHandle((data) => void answers.push(text(data)));
  const timestamp = restarted.request(1, "new", worker);
  await cluster.clock.advance(300);
  new SimpleApp(cluster.worker(0), APP).setRequestHandle((data, own) => own.response(data, `answer to ${text(data)}`));
  await cluster.run(restarted.wait(timestamp));
  assert.deepEqual(answers, ["answer to new"]);
});

test("KVServers and KVWorkers are SimpleApps too, both ways", async () => {
  const cluster = await MemoryCluster.start();
  const server = new KVServer(cluster.server(), 2);
  const kv = new KVWorker(cluster.worker(), 2);
  server.simple.setRequestHandle((data, own) => own.response(data, "from the server"));
  kv.simple.setRequestHandle((data, own) => own.response(data, "from the worker"));
  assert.deepEqual(await ask(cluster, kv.simple, Group.SERVERS), ["8: from the server"]);
  assert.deepEqual(await ask(cluster, server.simple, Group.WORKERS), ["9: from the worker"]);
  const push = kv.push(BigUint64Array.of(1n), Float32Array.of(1));
  const request = kv.simple.request(0, "", Group.SERVERS);
  assert.equal(request, push + 1, "numbers are the customer's");
  await cluster.run(Promise.all([kv.wait(push), kv.wait(request)]));
});

test("a request to a node that dies fails with its name, and one made afterwards at once", async () => {
  const cluster = new SimCluster({ seed: 2, serverCount: 2, workerCount: 1 });
  await cluster.start();
  const app = new SimpleApp(cluster.worker(0), APP);
  for (const rank of [0, 1]) new SimpleApp(cluster.server(rank), APP).setRequestHandle(() => {});
  const timestamp = app.request(0, "", idOf("server", 1));
  await cluster.clock.advance(100);
  cluster.kill(idOf("server", 1));
  await assert.rejects(cluster.run(app.wait(timestamp)), hasCode("NODE_DEAD", /server 1 is dead/));
  assert.throws(() => app.request(0, "", idOf("server", 1)), hasCode("NODE_DEAD", /server 1 is dead/));
  assert.throws(() => app.request(0, "", Group.SERVERS), hasCode("NODE_DEAD"));
  assert.equal(app.customer.tracker.keptCount, 0);
});
