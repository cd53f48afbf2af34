// scaling-data — Goal: while servers come and leave, training goes on and nothing is lost: every push counts once, and
// BSP rounds have the bits of a run whose servers stay. docs/decisions/0072, 0073.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { Scaling, WishedServers } from "../../src/scheduler/scaling.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { OfficeOptions } from "../../src/testing/start-office.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { SimStore } from "./replicated-job.ts";
import { forSeeds } from "./seeds.ts";

const DEADLINE = { timeoutMs: 120_000 };
const STEPS = 60;
const WORKERS = 2;

/** A cluster whose servers are started as the scheduler wishes, as launchers do. */
function scalingCluster(seed: number, ofServers: Partial<OfficeOptions> = {}): SimCluster {
  const records: StateRecord[] = [];
  const started = new Set([0, 1]);
  const onServers = ({ wished }: WishedServers): void => {
    for (const rank of wished.filter((one) => !started.has(one))) {
      started.add(rank);
      cluster
        .startNode(idOf("server", rank))
        .then((office) => office.finalize())
        .catch(() => {}); // the job's end
    }
  };
  const cluster: SimCluster = new SimCluster({
    ...{ seed, serverCount: 2, workerCount: WORKERS, settle: SETTLING, placement: "ring" },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 1000 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 4) },
    optionsOf: (node) =>
      node === SCHEDULER_ID ? { onServers, store: new SimStore(records, (written) => void cluster.clock.after(1, written)) } : ofServers,
  });
  return cluster;
}

type Outcome = { readonly bsp: readonly number[]; readonly sums: readonly number[] };

async function train(session: Session): Promise<Outcome> {
  const spec = { optimizer: { type: "adam", learningRate: 0.01 } } as const;
  const bsp = await session.tensor("bsp", { shape: [3000, 8], ...spec, consistency: "bsp", ...DEADLINE });
  const rows = await session.embedding("rows", { dim: 4, optimizer: { type: "sum" }, consistency: "asp", ...DEADLINE });
  const gradient = new Float32Array(3000 * 8);
  const keys = Array.from({ length: 64 }, (_, i) => i * 7);
  for (let step = 0; step < STEPS; step++) {
    gradient.fill((session.rank + 1) * ((step % 7) + 1));
    await Promise.all([bsp.push(gradient, DEADLINE), rows.push(keys, new Float32Array(64 * 4).fill(1), DEADLINE)]);
    session.clock();
    await bsp.pull(DEADLINE);
  }
  await session.barrier(DEADLINE);
  return { bsp: [...(await bsp.pull(DEADLINE))], sums: [...(await rows.pull(keys, DEADLINE))] };
}

function scalingOf(cluster: SimCluster): Scaling {
  const { node } = cluster.scheduler;
  assert.ok(node instanceof SchedulerNode);
  return node.scheduler.scaling;
}

/** Lets time pass until the change under way has come to this. */
async function reaches(cluster: SimCluster, isThere: (report: ReturnType<Scaling["report"]>) => boolean): Promise<void> {
  for (let tries = 0; !isThere(scalingOf(cluster).report()); tries++) {
    assert.ok(tries < 20_000, "the change does not come so far");
    await cluster.clock.advance(1);
  }
}

type Change = (cluster: SimCluster) => Promise<void>;

function scaledTo(to: number): Change {
  return async (cluster) => {
    const scaling = scalingOf(cluster);
    const end = await cluster.run(scaling.request({ to }).then((number) => scaling.ended(number)));
    assert.equal(end.outcome, "done", end.reason);
    assert.equal(cluster.scheduler.roster.placement?.servers.length, to);
  };
}

/** A scale-out that is taken back while parts move. */
async function takenBack(cluster: SimCluster): Promise<void> {
  const scaling = scalingOf(cluster);
  const before = String(cluster.scheduler.roster.placement?.servers);
  await cluster.run(scaling.request({ add: 1 }));
  await reaches(cluster, ({ current }) => current?.step === "moving" && (current.moved ?? 0) > 0);
  const number = await cluster.run(scaling.rollBack("out"));
  assert.deepEqual(
    scaling.report().ended.find((end) => end.number === number),
    { number, outcome: "rolledBack", reason: "its rollback was asked for" },
  );
  assert.equal(String(cluster.scheduler.roster.placement?.servers), before);
}

/** The scheduler is killed while parts move, and started again: it goes on. */
async function overRestart(cluster: SimCluster): Promise<void> {
  const count = cluster.scheduler.roster.placement?.servers.length ?? 0;
  await cluster.run(scalingOf(cluster).request({ add: 1 }));
  await reaches(cluster, ({ current }) => current?.step === "moving" && (current.moved ?? 0) > 0);
  cluster.kill(SCHEDULER_ID);
  await cluster.clock.advance(30);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await reaches(cluster, ({ ended }) => ended.length > 0);
  assert.deepEqual(
    scalingOf(cluster)
      .report()
      .ended.map(({ outcome }) => outcome),
    ["done"],
  );
  assert.equal(cluster.scheduler.roster.placement?.servers.length, count + 1);
}

async function run(seed: number, changes: readonly Change[]): Promise<Outcome> {
  const cluster = scalingCluster(seed);
  await cluster.start();
  for (const rank of [0, 1])
    cluster
      .server(rank)
      .finalize()
      .catch(() => {}); // the job's end
  const sessions = await cluster.run(
    Promise.all(Array.from({ length: WORKERS }, (_, rank) => Session.open(cluster.worker(rank).node, DEADLINE))),
  );
  const trained = Promise.all(sessions.map((session) => train(session)));
  for (const change of changes) {
    await cluster.clock.advance(40);
    await change(cluster);
  }
  const [outcome] = await cluster.run(trained);
  assert.ok(outcome !== undefined);
  return outcome;
}

const CHANGES: readonly (readonly [string, readonly Change[]])[] = [
  ["2 servers become 4 and then 3", [scaledTo(4), scaledTo(3)]],
  ["a scale-out is taken back while parts move, and another one is not", [takenBack, scaledTo(3)]],
  ["the scheduler is killed while parts move, and goes on with it", [overRestart]],
];

for (const [what, changes] of CHANGES)
  test(`${what}: all sums are whole, and BSP has the bits of a run whose servers stay, for 3 seeds`, async () => {
    const expected = await run(1, []);
    assert.ok(expected.sums.every((sum) => sum === WORKERS * STEPS));
    await forSeeds({ from: 1, count: 3 }, async (seed) => {
      const { bsp, sums } = await run(seed, changes);
      assert.ok(
        sums.every((sum) => sum === WORKERS * STEPS),
        `seed ${seed}: sums are lost or doubled`,
      );
      assert.deepEqual(bsp, expected.bsp, `seed ${seed}: the bits of BSP differ`);
    });
  });

test("a job whose application of the kv face holds keys refuses to scale, by the application's name, before anything moves", async () => {
  const cluster = scalingCluster(1);
  await cluster.start();
  for (const rank of [0, 1]) new KVServer(cluster.server(rank), 5);
  await cluster.run(
    scalingOf(cluster)
      .request({ to: 2 })
      .then((number) => scalingOf(cluster).ended(number)),
  ); // nothing is there yet
  const worker = new KVWorker(cluster.worker(0), 5);
  await cluster.run(worker.wait(worker.push(BigUint64Array.of(1n, 2n ** 63n), new Float32Array(2))));
  await assert.rejects(cluster.run(scalingOf(cluster).request({ to: 3 })), (error: unknown) => {
    return isWeighbridgeError(error, "UNSUPPORTED") && /cannot change: application 5 has keys of the kv face/.test(error.message);
  });
  assert.deepEqual(cluster.scheduler.roster.placement?.servers, [0, 1]);
});

test("fewer servers than memory holds the job's parts are refused, from what the servers say: nothing moves, and nothing is lost", async () => {
  const cluster = scalingCluster(1, { arenaBytesMax: 4 * 2 ** 20 });
  await cluster.start();
  const session = await cluster.run(Session.open(cluster.worker(0).node, DEADLINE));
  // more than 3 MiB, spread over two servers of 4 MiB
  const tensor = await cluster.run(session.tensor("large", { shape: [6400, 128], consistency: "asp", optimizer: { type: "sum" } }));
  const ones = new Float32Array(6400 * 128).fill(1);
  await cluster.run(tensor.push(ones, DEADLINE));
  const before = cluster.scheduler.roster.placement;
  const room = throwsCode("ARENA_FULL", /server 0 would hold \d+ MiB of the job's \d+ MiB, and has room for \d+ MiB; keep more servers/);
  await assert.rejects(cluster.run(scalingOf(cluster).request({ to: 1 })), room);
  assert.deepEqual(cluster.scheduler.roster.placement, before);
  const { current, queued, ended } = scalingOf(cluster).report();
  assert.deepEqual([current, queued, ended], [undefined, [], []]);
  await cluster.run(tensor.push(ones, DEADLINE));
  assert.ok((await cluster.run(tensor.pull(DEADLINE))).every((value) => value === 2));
});
