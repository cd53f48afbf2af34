// catalogue.test — Goal: the scheduler numbers parameters and is needed for nothing else. Workers that make, clear
// and make anew at the same time agree in the end, on every server, whatever the links do; a scheduler that is away
// keeps nobody from training.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { hashText } from "../../src/keys/mix.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { Worker } from "../../src/worker/worker.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { SimDisk } from "./sim-disk.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const ROOT = "/checkpoints";
const SEEDS = 8;
const START_TIMEOUT_MS = 20_000;
/** Names with one FNV-1a hash, which stood for the name once. */
const COLLIDING = ["layer 1okfjyy", "layer 1on0f61"] as const;

async function sessionsOf(cluster: SimCluster, workerCount: number): Promise<Session[]> {
  const ranks = Array.from({ length: workerCount }, (_, rank) => rank);
  return await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node))));
}

async function quietCluster({
  serverCount = 2,
  workerCount = 2,
  isRestored = false,
} = {}): Promise<{ cluster: SimCluster; sessions: Session[] }> {
  const disk = new SimDisk(new Random(1), ROOT);
  let isStarted = false;
  const cluster: SimCluster = new SimCluster({
    seed: 1,
    serverCount,
    workerCount,
    startTimeoutMs: START_TIMEOUT_MS,
    settle: SETTLING,
    optionsOf: () => {
      const { layer } = disk.mount(cluster.clock, 0);
      const restoreFrom = isStarted && isRestored ? { restoreFrom: () => openCheckpoint(ROOT, { layer }) } : {};
      return { checkpointFiles: new ServerFiles(ROOT, layer), ...restoreFrom };
    },
  });
  await cluster.start();
  isStarted = true;
  return { cluster, sessions: await sessionsOf(cluster, workerCount) };
}

test("two names whose 32-bit hashes are the same are two parameters", async () => {
  assert.equal(hashText(COLLIDING[0]), hashText(COLLIDING[1]));
  const { cluster, sessions } = await quietCluster();
  const tensors = [];
  for (const [i, name] of COLLIDING.entries())
    tensors.push(await cluster.run((sessions[i] as Session).tensor(name, { shape: [3], optimizer: "sum" })));
  for (const [i, tensor] of tensors.entries()) await cluster.run(tensor.push(new Float32Array(3).fill(i + 1)));
  for (const [i, tensor] of tensors.entries()) assert.deepEqual(await cluster.run(tensor.pull()), new Float32Array(3).fill(i + 1));
  await cluster.finalize();
});

test(`workers that make the same names at the same time, in different orders, push to the same parameters, for ${SEEDS} seeds`, async () => {
  const names = ["a", "b", "c", "d"];
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const random = new Random(seed);
    const cluster = await stormyCluster(random, { seed, serverCount: 2, workerCount: 3 });
    const sessions = await sessionsOf(cluster, 3);
    const push = async (session: Session, rank: number): Promise<void> => {
      const mine = names.map((_, i) => names[(i + rank) % names.length] as string);
      await Promise.all(
        mine.map(async (name) => {
          const tensor = await session.tensor(name, { shape: [2], optimizer: "sum" });
          await tensor.push(new Float32Array(2).fill(names.indexOf(name) + 1));
        }),
      );
    };
    await cluster.run(Promise.all(sessions.map(push)));
    for (const [i, name] of names.entries()) {
      const tensor = await cluster.run((sessions[0] as Session).tensor(name, { shape: [2], optimizer: "sum" }));
      assert.deepEqual(await cluster.run(tensor.pull()), new Float32Array(2).fill(3 * (i + 1)), name);
    }
    const listed = await cluster.run((sessions[1] as Session).parameters());
    assert.deepEqual(listed.map(({ name }) => name).sort(), names);
  });
});

test("while the scheduler is away pushes, pulls, clocks and checkpoints go on, and what this worker has opened opens again", async () => {
  const { cluster, sessions } = await quietCluster();
  const [one, two] = sessions as [Session, Session];
  const options = { shape: [3], optimizer: "sum", consistency: "bsp" } as const;
  const w = await cluster.run(one.tensor("w", options));
  const same = await cluster.run(two.tensor("w", options));
  const rows = await cluster.run(one.embedding("e", { dim: 2, optimizer: "sum" }));
  cluster.kill(SCHEDULER_ID);
  for (const session of sessions) await cluster.run((session === one ? w : same).push(new Float32Array(3).fill(1)));
  for (const session of sessions) session.clock();
  assert.deepEqual(await cluster.run(w.pull()), new Float32Array(3).fill(2));
  await cluster.run(rows.push([7], Float32Array.of(1, 2)));
  const startedAtMs = cluster.clock.nowMs();
  const again = await cluster.run(one.embedding("e", { dim: 2, optimizer: "sum" }));
  assert.deepEqual(await cluster.run(again.pull([7])), Float32Array.of(1, 2));
  assert.ok(cluster.clock.nowMs() - startedAtMs < 1000, "nobody waits for the scheduler");
  const { path } = await cluster.run(one.checkpoint().saved);
  assert.equal(path, `${ROOT}/step-000001`);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  await cluster.finalize();
});

test("a new name fails within its deadline while the scheduler is killed or silent, naming the scheduler; without a deadline after the start timeout", async () => {
  for (const lose of [
    (cluster: SimCluster): void => cluster.kill(SCHEDULER_ID),
    (cluster: SimCluster): void => cluster.network.isolate(cluster.hostOf(SCHEDULER_ID)),
  ]) {
    const { cluster, sessions } = await quietCluster();
    const [one, two] = sessions as [Session, Session];
    const w = await cluster.run(one.tensor("w", { shape: [3], optimizer: "sum" }));
    lose(cluster);
    const names = (error: unknown): boolean =>
      (isWeighbridgeError(error, "SCHEDULER_UNREACHABLE") || isWeighbridgeError(error, "DEADLINE")) &&
      error.message.includes("the scheduler at sim://scheduler:1");
    for (const [session, name] of [
      [one, "new"],
      [two, "w"], // open in another process only
    ] as const) {
      const startedAtMs = cluster.clock.nowMs();
      await assert.rejects(cluster.run(session.tensor(name, { shape: [3], optimizer: "sum", timeoutMs: 500 })), names);
      assert.ok(cluster.clock.nowMs() - startedAtMs <= 600, `${cluster.clock.nowMs() - startedAtMs} ms`);
    }
    await assert.rejects(cluster.run(w.drop({ timeoutMs: 500 })), names);
    assert.deepEqual(await cluster.run(w.pull()), new Float32Array(3), "a clear that fails clears nothing");
    const startedAtMs = cluster.clock.nowMs();
    await assert.rejects(cluster.run(one.tensor("other", { shape: [3], optimizer: "sum" })), names);
    assert.ok(cluster.clock.nowMs() - startedAtMs <= 2 * START_TIMEOUT_MS);
  }
});

test("what was cleared while the scheduler was away is not opened from memory", async () => {
  const { cluster, sessions } = await quietCluster({ serverCount: 1 });
  const [one, two] = sessions as [Session, Session];
  await cluster.run(one.tensor("w", { shape: [3], optimizer: "sum" }));
  const other = await cluster.run(two.tensor("w", { shape: [3], optimizer: "sum" }));
  await cluster.run(other.drop());
  cluster.kill(SCHEDULER_ID);
  await assert.rejects(cluster.run(one.tensor("w", { shape: [3], optimizer: "sum", timeoutMs: 500 })), (error) =>
    isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"),
  );
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  const anew = await cluster.run(one.tensor("w", { shape: [5], optimizer: "sum" }));
  await cluster.run(anew.push(new Float32Array(5).fill(1)));
  assert.deepEqual(
    await cluster.run((await cluster.run(two.tensor("w", { shape: [5], optimizer: "sum" }))).pull()),
    new Float32Array(5).fill(1),
  );
  await cluster.finalize();
});

test(`workers that clear a name and make it anew, differently, at the same time end with one parameter on all servers, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const random = new Random(seed);
    const cluster = await stormyCluster(random, { seed, serverCount: 3, workerCount: 3 });
    const sessions = await sessionsOf(cluster, 3);
    // The last: a handle of the one before.
    const expected = new Set(["SPEC_MISMATCH", "UNKNOWN_PARAMETER", "VALUE_LENGTH"]);
    const churn = async (session: Session): Promise<void> => {
      for (let turn = 0; turn < 6; turn++) {
        try {
          const tensor = await session.tensor("w", { shape: [1 + random.below(2)], optimizer: "sum" });
          await tensor.push(new Float32Array(tensor.size).fill(1));
          if (random.chance(0.5)) await tensor.drop();
        } catch (error) {
          assert.ok(error instanceof WeighbridgeError && expected.has(error.code), String(error));
        }
      }
    };
    await cluster.run(Promise.all(sessions.map(churn)));
    const [listed] = await cluster.run((sessions[0] as Session).parameters());
    const shape = listed?.kind === "tensor" ? listed.shape : [2];
    const tensors = await cluster.run(Promise.all(sessions.map((session) => session.tensor("w", { shape, optimizer: "sum" }))));
    const before = (await cluster.run((tensors[0] as (typeof tensors)[0]).pull())).slice();
    for (const tensor of tensors) await cluster.run(tensor.push(new Float32Array(tensor.size).fill(1)));
    for (const tensor of tensors)
      assert.deepEqual(
        await cluster.run(tensor.pull()),
        before.map((value) => value + 3),
      );
    const made = [0, 1, 2].map((rank) => cluster.server(rank).server?.parameters.specs.map((spec) => spec.kind === "tensor" && spec.shape));
    assert.deepEqual(made, [[shape], [shape], [shape]]);
  });
});

test("a server that is restarted from a checkpoint has its numbers again, from a scheduler that was restarted as well", async () => {
  const { cluster, sessions } = await quietCluster({ isRestored: true });
  const [one, two] = sessions as [Session, Session];
  await cluster.run((await cluster.run(one.tensor("before", { shape: [1], optimizer: "sum" }))).drop());
  const w = await cluster.run(one.tensor("w", { shape: [200_000], optimizer: "sum" })); // blocks on both servers
  const same = await cluster.run(two.tensor("w", { shape: [200_000], optimizer: "sum" }));
  await cluster.run(w.push(new Float32Array(200_000).fill(1)));
  await cluster.run(one.checkpoint().saved);
  cluster.kill(SCHEDULER_ID);
  await cluster.run(cluster.startNode(SCHEDULER_ID));
  for (const rank of [0, 1]) {
    cluster.kill(idOf("server", rank));
    await cluster.run(cluster.startNode(idOf("server", rank)));
    await cluster.clock.advance(500);
    assert.deepEqual(await cluster.run(same.pull()), new Float32Array(200_000).fill(1));
  }
  const late = await cluster.run(two.tensor("late", { shape: [3], optimizer: "sum" }));
  assert.deepEqual(await cluster.run(late.pull()), new Float32Array(3));
  assert.deepEqual(await cluster.run(w.pull()), new Float32Array(200_000).fill(1));
});

test("initial values go by name and seed: the order in which parameters are made, and so their numbers, do not matter", async () => {
  const values: (readonly Float32Array[])[] = [];
  for (const names of [
    ["a", "b", "c"],
    ["c", "b", "a"],
  ]) {
    const { cluster, sessions } = await quietCluster();
    const init = { type: "normal", std: 1, seed: 7 } as const;
    const drawn = new Map<string, readonly Float32Array[]>();
    for (const name of names) {
      const tensor = await cluster.run((sessions[0] as Session).tensor(name, { shape: [300], optimizer: "sum", init }));
      const table = await cluster.run((sessions[0] as Session).embedding(`rows of ${name}`, { dim: 2, optimizer: "sum", init }));
      drawn.set(name, [await cluster.run(tensor.pull()), await cluster.run(table.pull([1, 2 ** 40]))]);
    }
    values.push(names.toSorted().flatMap((name) => drawn.get(name) ?? []));
  }
  assert.deepEqual(values[0], values[1]);
  assert.notDeepEqual(values[0]?.[0], values[0]?.[2], "each name has its own");
});

test("a clear that reached no server is finished by whoever makes the name anew", async () => {
  const { cluster, sessions } = await quietCluster({ serverCount: 1 });
  const [one, two] = sessions as [Session, Session];
  const w = await cluster.run(one.tensor("w", { shape: [3], optimizer: "sum" }));
  await cluster.run(w.push(new Float32Array(3).fill(1)));
  const { sessions: behind } = cluster.worker(0).node.worker as Worker;
  assert.ok(behind !== undefined);
  await cluster.run(behind.catalogue.clear("w", {})); // and the worker that clears goes no further
  const anew = await cluster.run(two.tensor("w", { shape: [4], optimizer: "sum" }));
  assert.deepEqual(await cluster.run(anew.pull()), new Float32Array(4));
  await cluster.finalize();
});
