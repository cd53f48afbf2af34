// Goal: guests read, push to async parameters and call functions while a job runs, and nothing waits for them. What
// they leave is forgotten when they leave or fall silent, however many come; what arrives of a forgotten one is
// refused. docs/decisions/0069.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { FunctionContext } from "../../src/contracts/function-context.ts";
import { psFunction } from "../../src/contracts/ps-function.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import type { Server } from "../../src/server/server.ts";
import { ServerNode } from "../../src/server/server-node.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { idOf, isGuest, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { setRows, setTensor } from "../../src/worker/set-values.ts";
import type { WorkerNode } from "../../src/worker/worker-node.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { SimDisk } from "./sim-disk.ts";

const DEADLINE = { timeoutMs: 60_000 };
const HEARTBEAT_TIMEOUT_MS = 500;
const SIZE = 8;

function guestsCluster(options: Partial<SimClusterOptions> = {}): SimCluster {
  return new SimCluster({
    ...{ seed: 1, serverCount: 2, workerCount: 2, settle: SETTLING },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS },
    ...options,
  });
}

/** A cluster whose workers have opened their sessions. */
async function started(options: Partial<SimClusterOptions> = {}): Promise<{ cluster: SimCluster; workers: Session[] }> {
  const cluster = guestsCluster(options);
  await cluster.start();
  const workers = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  return { cluster, workers };
}

async function guestSession(cluster: SimCluster, host: string): Promise<Session> {
  return await Session.open(await cluster.startGuest(host), DEADLINE);
}

function serverOf(cluster: SimCluster, rank: number): Server {
  const { node } = cluster.server(rank);
  assert.ok(node instanceof ServerNode);
  return node.server;
}

/** Everything that a guest leaves on a node, by name. */
function tracesOf(cluster: SimCluster): Record<string, number> {
  const traces: Record<string, number> = {};
  const count = (what: string, nodes: Iterable<number>): void => {
    traces[what] = [...nodes].filter(isGuest).length;
  };
  count(
    "scheduler channels",
    [...cluster.scheduler.node.peer.channels()].map(({ id }) => id),
  );
  for (const rank of [0, 1]) {
    const { node } = cluster.server(rank);
    const server = serverOf(cluster, rank);
    count(
      `channels of server ${rank}`,
      [...node.peer.channels()].map(({ id }) => id),
    );
    count(
      `stamps of server ${rank}`,
      [...server.clock.entries()].map(([worker]) => worker),
    );
    traces[`guests of server ${rank}`] = server.guests.size;
  }
  return traces;
}

function assertForgotten(cluster: SimCluster): void {
  for (const [what, count] of Object.entries(tracesOf(cluster))) assert.equal(count, 0, what);
}

test("a guest reads the last closed round without waiting, pushes to async parameters, and the job ends without it", async () => {
  const { cluster, workers } = await started();
  const bsp = await cluster.run(
    Promise.all(workers.map((session) => session.tensor("bsp", { shape: [SIZE], consistency: "bsp", optimizer: { type: "sum" } }))),
  );
  const guest = await cluster.run(guestSession(cluster, "guest-0"));
  assert.deepEqual([guest.workerCount, guest.serverCount], [2, 2]);
  const seen = await cluster.run(guest.tensor("bsp", { shape: [SIZE], consistency: "bsp", optimizer: { type: "sum" } }));
  // Worker 0 is a clock ahead, and its round is open: a worker that read now would wait.
  await cluster.run((bsp[0] as (typeof bsp)[0]).push(new Float32Array(SIZE).fill(1)));
  workers[0]?.clock();
  assert.deepEqual(await cluster.run(seen.pull()), new Float32Array(SIZE), "the round is not closed");
  workers[1]?.clock();
  await cluster.run((bsp[0] as (typeof bsp)[0]).pull());
  assert.deepEqual(await cluster.run(seen.pull()), new Float32Array(SIZE).fill(1), "the round is closed");
  const rows = await cluster.run(guest.embedding("rows", { dim: 2, consistency: "asp", optimizer: { type: "sum" } }));
  await cluster.run(rows.push([1, 2, 3], new Float32Array(6).fill(2)));
  assert.deepEqual([...(await cluster.run(rows.pull([1, 3])))], [2, 2, 2, 2]);
  const read = await cluster.run((workers[0] as Session).embedding("rows", { dim: 2, consistency: "asp", optimizer: { type: "sum" } }));
  assert.deepEqual([...(await cluster.run(read.pull([2])))], [2, 2], "workers see it");
  await cluster.finalize();
  await assert.rejects(
    cluster.run(rows.pull([1])),
    (error: unknown) => isWeighbridgeError(error, "CLOSED") || isWeighbridgeError(error, "NODE_DEAD"),
  );
  await cluster.run(guest.close());
});

test("a guest that would keep workers waiting is told what to do instead", async () => {
  const { cluster, workers } = await started();
  const guest = await cluster.run(guestSession(cluster, "guest-0"));
  const unsupported = (error: unknown): boolean =>
    isWeighbridgeError(error, "UNSUPPORTED") && error.message.includes("connect as a worker");
  assert.throws(() => guest.clock(), unsupported);
  await assert.rejects(guest.barrier(), unsupported);
  await assert.rejects(guest.rejoin(), unsupported);
  await assert.rejects(guest.leaveClocks(), unsupported);
  const sync = await cluster.run(guest.tensor("sync", { shape: [SIZE], optimizer: "sum", consistency: "bsp" }));
  await assert.rejects(cluster.run(sync.push(new Float32Array(SIZE))), unsupported);
  await assert.rejects(cluster.run(sync.start(new Float32Array(SIZE))), unsupported);
  const table = await cluster.run(guest.embedding("sync rows", { dim: 2, optimizer: "sum", consistency: "bsp" }));
  await assert.rejects(cluster.run(table.push([1], new Float32Array(2))), unsupported);
  // Nor does it give them values, to begin with or in place of others (HostedParameter.H5).
  await assert.rejects(cluster.run(setTensor(sync, new Float32Array(SIZE).fill(7), DEADLINE)), unsupported);
  for (const isStart of [true, false]) {
    const rows = { keys: BigUint64Array.of(1n, 2n), values: new Float32Array(4).fill(7), isStart };
    await assert.rejects(cluster.run(setRows(table, rows, DEADLINE)), unsupported, `isStart ${isStart}`);
  }
  assert.deepEqual([await cluster.run(sync.pull()), await cluster.run(table.pull([1, 2]))], [new Float32Array(SIZE), new Float32Array(4)]);
  const counted = await cluster.run(guest.embedding("counted", { dim: 2, consistency: "asp", optimizer: { type: "lazyAdam" } }));
  await assert.rejects(cluster.run(counted.push([1], new Float32Array(2))), unsupported);
  const refused = (error: unknown): boolean => isWeighbridgeError(error, "BAD_REQUEST") || isWeighbridgeError(error, "UNSUPPORTED");
  assert.throws(() => guest.units("epoch", { epoch: 0, batchCount: 4, partCount: 1, assignment: "free" }), unsupported);
  await assert.rejects(cluster.run(guest.rendezvous.meet("end", { generation: 0, value: "", ...DEADLINE })), refused);
  await assert.rejects(cluster.run(guest.collective()), refused);
  await cluster.run(guest.close());
  // A change of the consistency holds for guests, too.
  const turned = await cluster.run((workers[0] as Session).tensor("turned", { shape: [SIZE], optimizer: "sum", consistency: "asp" }));
  const later = await cluster.run(guestSession(cluster, "guest-1"));
  const pushed = await cluster.run(later.tensor("turned", { shape: [SIZE], optimizer: "sum", consistency: "asp" }));
  await cluster.run(pushed.push(new Float32Array(SIZE)));
  await cluster.run(turned.configure({ consistency: "bsp" }));
  for (let clock = 0; clock < 4; clock++) for (const session of workers) session.clock();
  await cluster.clock.advance(100);
  await assert.rejects(cluster.run(pushed.push(new Float32Array(SIZE))), unsupported);
  await cluster.run(later.close());
  await cluster.clock.advance(100);
  assertForgotten(cluster);
});

test("a guest that comes before the job waits for it, as long as its deadline allows", async () => {
  const cluster = guestsCluster();
  const early = cluster.startGuest("guest-0");
  early.catch(() => {});
  await cluster.clock.advance(1000);
  await cluster.start();
  const session = await cluster.run(early.then((node) => Session.open(node, DEADLINE)));
  assert.equal(session.workerCount, 2);
  await cluster.run(session.close());
  const alone = guestsCluster({ startTimeoutMs: 1000 });
  const scheduler = alone.startNode(SCHEDULER_ID);
  scheduler.catch(() => {});
  await assert.rejects(alone.run(alone.startGuest("guest-0")), (error: unknown) => isWeighbridgeError(error, "DEADLINE"));
  await assert.rejects(alone.run(scheduler));
});

test("of 100 guests that leave, die or fall silent nothing stays, in the arena neither", async () => {
  const { cluster, workers } = await started();
  const [first] = workers as [Session];
  const optimizer = { type: "dcAsgd", learningRate: 0.1 } as const;
  const delayed = { shape: [SIZE], consistency: "asp", optimizer } as const;
  const linked = { dim: 2, consistency: "asp", optimizer, link: { keyCache: true } } as const;
  const open = async (session: Session): Promise<void> => {
    const tensor = await session.tensor("delayed", { ...delayed, ...DEADLINE });
    const rows = await session.embedding("linked", { ...linked, ...DEADLINE });
    const keys = Array.from({ length: 20 }, (_, i) => i);
    await tensor.pull();
    await rows.pull(keys);
    await Promise.all([tensor.push(new Float32Array(SIZE)), rows.push(keys, new Float32Array(40))]);
    await rows.pull(keys);
  };
  await cluster.run(open(first));
  const usedBytes = (): number[] => [0, 1].map((rank) => serverOf(cluster, rank).arena.stateUsedBytes);
  await cluster.clock.advance(100);
  const before = usedBytes();
  const random = new Random(7);
  for (let turn = 0; turn < 5; turn++) {
    const hosts = Array.from({ length: 20 }, (_, i) => `guest-${turn}-${i}`);
    const nodes = await cluster.run(Promise.all(hosts.map((host) => cluster.startGuest(host))));
    await cluster.run(Promise.all(nodes.map(async (node) => await open(await Session.open(node, DEADLINE)))));
    assert.equal(tracesOf(cluster)["guests of server 0"], 20);
    const ends = nodes.map(async (node, i) => {
      const host = hosts[i] as string;
      const how = random.below(3);
      if (how === 0) await node.close();
      else if (how === 1) {
        cluster.network.crash(host);
        node.close().catch(() => {});
      } else cluster.network.isolate(host);
    });
    await cluster.run(Promise.all(ends));
    await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
    assertForgotten(cluster);
    for (const host of hosts) cluster.network.heal(host);
  }
  assert.deepEqual(usedBytes(), before);
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  assertForgotten(cluster);
  await cluster.finalize();
});

/** A guest pushes ones while its links are cut for a while, longer or shorter than it may be silent. */
async function cutGuest(seed: number): Promise<void> {
  const random = new Random(seed);
  const { cluster, workers } = await started({ seed, network: { latencyMsMin: 0, latencyMsMax: 3 }, linkTimeoutMs: 3000 });
  const spec = { shape: [SIZE], consistency: "asp", optimizer: { type: "sum" } } as const;
  const read = await cluster.run((workers[0] as Session).tensor("sum", { ...spec, ...DEADLINE }));
  const guest = await cluster.run(guestSession(cluster, "guest-0"));
  const tensor = await cluster.run(guest.tensor("sum", { ...spec, ...DEADLINE }));
  let acknowledged = 0;
  let failed = 0;
  const isLong = random.chance(0.5);
  cluster.clock.after(random.below(60), () => {
    if (random.chance(0.5)) cluster.network.isolate("guest-0", { breakLinks: random.chance(0.5) });
    else
      for (const host of ["server-0", "server-1", "scheduler"])
        cluster.network.partition("guest-0", host, { isOneWay: random.chance(0.5) });
    const healMs = isLong ? HEARTBEAT_TIMEOUT_MS + 200 + random.below(400) : random.below(HEARTBEAT_TIMEOUT_MS / 2);
    cluster.clock.after(healMs, () => cluster.network.heal());
  });
  const ones = new Float32Array(SIZE).fill(1);
  for (let i = 0; i < 30; i++) {
    const pushed = tensor.push(ones, { timeoutMs: 5000 }).then(
      () => acknowledged++,
      () => failed++,
    );
    await cluster.run(Promise.race([pushed, cluster.clock.advance(5)]));
  }
  await cluster.clock.advance(6000);
  assert.equal(acknowledged + failed, 30, "every call ends");
  const [sum = 0] = await cluster.run(read.pull());
  assert.ok(sum >= acknowledged && sum <= acknowledged + failed, `${acknowledged} acknowledged, ${failed} failed, ${sum} counted`);
  if (!isLong) assert.equal(failed, 0, "a short cut fails nothing");
  await cluster.run(guest.close().catch(() => {}));
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  assertForgotten(cluster);
  assert.deepEqual((await cluster.run(read.pull()))[0], sum, "nothing counts later");
}

test("what arrives of a guest that was forgotten is refused, and what was acknowledged counts once, for 15 seeds", async () => {
  await forSeeds({ from: 1, count: 15 }, cutGuest);
});

test("a guest goes on with a scheduler that is started again, unless it was forgotten before", async () => {
  const { cluster, workers } = await started();
  const guest = await cluster.run(cluster.startGuest("guest-0"));
  const session = await cluster.run(Session.open(guest, DEADLINE));
  const spec = { shape: [SIZE], consistency: "asp", optimizer: { type: "sum" } } as const;
  const tensor = await cluster.run(session.tensor("sum", { ...spec, ...DEADLINE }));
  const { id } = guest;
  cluster.kill(SCHEDULER_ID);
  await cluster.run(tensor.push(new Float32Array(SIZE).fill(1))); // not needed for that
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.clock.advance(4 * HEARTBEAT_TIMEOUT_MS);
  assert.equal(guest.id, id);
  assert.equal(guest.failure, undefined);
  await cluster.run(tensor.push(new Float32Array(SIZE).fill(1)));
  const silent = await cluster.run(cluster.startGuest("guest-1"));
  cluster.network.isolate("guest-1");
  await cluster.clock.advance(2 * HEARTBEAT_TIMEOUT_MS);
  cluster.kill(SCHEDULER_ID);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  cluster.network.heal();
  await cluster.clock.advance(4 * HEARTBEAT_TIMEOUT_MS);
  assert.ok(isWeighbridgeError(silent.failure, "FENCED"), String(silent.failure));
  assert.equal(guest.failure, undefined);
  const read = await cluster.run((workers[0] as Session).tensor("sum", { ...spec, ...DEADLINE }));
  assert.equal((await cluster.run(read.pull()))[0], 2);
  await cluster.run(session.close());
  await cluster.clock.advance(100);
  assertForgotten(cluster);
});

test("what was acknowledged to a guest is there after a failover, and a standby forgets guests as its head does", async () => {
  const { cluster, workers } = await started({ replicas: 2 });
  const spec = { shape: [SIZE], consistency: "asp", optimizer: { type: "sum" } } as const;
  const nodes: WorkerNode[] = [];
  const push = async (host: string): Promise<void> => {
    const node = await cluster.startGuest(host);
    nodes.push(node);
    const tensor = await (await Session.open(node, DEADLINE)).tensor("sum", { ...spec, ...DEADLINE });
    for (let i = 0; i < 5; i++) await tensor.push(new Float32Array(SIZE).fill(1), DEADLINE);
  };
  await cluster.run(Promise.all(["guest-0", "guest-1", "guest-2"].map(push)));
  await cluster.run((nodes[0] as WorkerNode).close());
  for (const rank of [0, 1]) cluster.kill(cluster.server(rank).nodeId);
  await cluster.clock.advance(1000);
  const read = await cluster.run((workers[0] as Session).tensor("sum", { ...spec, ...DEADLINE }));
  assert.equal((await cluster.run(read.pull(DEADLINE)))[0], 15);
  await cluster.run(push("guest-3"));
  assert.equal((await cluster.run(read.pull(DEADLINE)))[0], 20);
  await cluster.run(Promise.all(nodes.map((node) => node.close())));
  await cluster.clock.advance(100);
  for (const rank of [0, 1]) {
    const { node } = cluster.office(2 ** 53 - 2 ** 32 + 2 * rank);
    assert.ok(node instanceof ServerNode);
    assert.deepEqual([...node.server.clock.entries()].map(([worker]) => worker).filter(isGuest), []);
    assert.equal(node.server.guests.size, 0);
  }
});

const totalOf = (server: FunctionContext): { value: number } => server.own("total", () => ({ value: 0 }));

/** Adds to what the server keeps. */
const add = psFunction({
  name: "add",
  request: { value: "u32" },
  response: { total: "u32" },
  deterministic: true,
  save: (server) => Uint8Array.of(totalOf(server).value),
  load: (server, saved) => {
    totalOf(server).value = saved[0] ?? 0;
  },
  handler: (server, { value }) => {
    const total = totalOf(server);
    total.value += value;
    return { total: total.value };
  },
});

for (const replicas of [1, 2])
  test(`a guest calls functions of servers and saves a checkpoint, with replicas ${replicas}`, async () => {
    const disk = new SimDisk(new Random(1), "/checkpoints");
    const own = () => ({ functions: [add], checkpointFiles: new ServerFiles("/checkpoints", disk.mount(cluster.clock, 2).layer) });
    const isServer = (node: number): boolean => roleOf(node) === "server" || roleOf(node) === "standby";
    const cluster: SimCluster = guestsCluster({ replicas, optionsOf: (node) => (isServer(node) ? own() : {}) as never });
    await cluster.start();
    const guest = await cluster.run(guestSession(cluster, "guest-0"));
    const rows = await cluster.run(guest.embedding("rows", { dim: 1, consistency: "asp", optimizer: { type: "sum" } }));
    await cluster.run(rows.push([1, 2, 3], new Float32Array(3).fill(1)));
    const call = async (value: number): Promise<number> => (await cluster.run(guest.call(add, { server: 0 }, { value }, DEADLINE))).total;
    assert.deepEqual([await call(1), await call(2)], [1, 3]);
    const answers = await cluster.run(guest.callAll(add, { value: 4 }, DEADLINE));
    assert.deepEqual(
      [...answers].map(({ total }) => total),
      [7, 4],
    );
    const { path } = await cluster.run(guest.checkpoint(DEADLINE).saved);
    assert.match(path, /step-\d+$/);
    if (replicas === 2) {
      cluster.kill(idOf("server", 0));
      assert.equal(await call(5), 12, "each call counted once, on the standby, too");
      assert.deepEqual([...(await cluster.run(rows.pull([1, 2, 3], DEADLINE)))], [1, 1, 1]);
    }
    await cluster.run(guest.close());
  });
