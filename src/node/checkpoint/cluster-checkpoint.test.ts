// Goal: a running cluster is saved at one clock while its workers push, and comes back exactly, on however many
// servers.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { type Model, start, stateOf, trainAll } from "../../../test/support/checkpoint-model.ts";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import type { Session } from "../../api/session.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";
import { CheckpointReader } from "./checkpoint-reader.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

test("saved by two servers, restored onto one, two and three: the same bits, then and after training on", async () => {
  using folder = temporaryFolder();
  const { cluster, models } = await start(2, folder.path);
  await using _ = cluster;
  await trainAll(cluster.sessions, models, 5);
  const taken = await cluster.session.checkpoint({ job: "test" }).saved;
  assert.deepEqual({ ...taken, path: "" }, { step: 5, clock: 5, path: "", warning: undefined });
  assert.deepEqual((await verifyCheckpoint(taken.path)).problems, []);
  const saved = await stateOf(models[0] as Model);
  await trainAll(cluster.sessions, models, 4);
  const later = await stateOf(models[0] as Model);
  assert.notDeepEqual(later, saved);
  for (const servers of [1, 2, 3]) {
    const again = await start(servers, folder.path, taken.path);
    await using __ = again.cluster;
    assert.deepEqual(
      again.cluster.sessions.map(({ clocks }) => clocks),
      [5, 5],
    );
    assert.deepEqual(await stateOf(again.models[0] as Model), saved, `${servers} servers`);
    await trainAll(again.cluster.sessions, again.models, 4);
    assert.deepEqual(await stateOf(again.models[0] as Model), later, `${servers} servers, trained on`);
  }
});

test("every worker restores a running cluster by its session; a changed rate and bound come along", async () => {
  using folder = temporaryFolder();
  {
    const { cluster, models } = await start(3, folder.path);
    await using _ = cluster;
    await (models[0] as Model).dense.configure({ learningRate: 0.5, staleness: 7 });
    await trainAll(cluster.sessions, models, 2);
    await cluster.session.checkpoint().saved;
    await trainAll(cluster.sessions, models, 1);
    assert.equal((await cluster.session.checkpoint({ keep: 1 }).saved).step, 3);
    await assert.rejects(
      cluster.session.restore(),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /has "dense"/.test(error.message),
    );
  }
  assert.deepEqual(readdirSync(folder.path).sort(), ["latest", "step-000003"]);
  await using reader = await CheckpointReader.open(join(folder.path, "step-000003"));
  const [dense] = reader.manifest.parameters;
  assert.equal(dense?.name, "dense");
  assert.deepEqual([dense?.state.learningRate, dense?.state.staleness], [0.5, 7]);
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2, checkpointDir: folder.path });
  const restored = await Promise.all(cluster.sessions.map((session) => session.restore()));
  assert.deepEqual(
    restored.map(({ step, clock }) => ({ step, clock })),
    [
      { step: 3, clock: 3 },
      { step: 3, clock: 3 },
    ],
  );
  assert.deepEqual(restored[0]?.parameters, ["dense", "layer/sync", "rows", "users", "items", "tags"]);
  assert.equal(cluster.sessions[1]?.clocks, 3);
  const taken = await cluster.session.checkpoint().saved;
  await using second = await CheckpointReader.open(taken.path);
  assert.deepEqual(second.manifest.parameters[0]?.state, dense?.state);
});

test("a consistency that was changed, and one that is still to change, come along onto any number of servers", async () => {
  using folder = temporaryFolder();
  const describe = (session: Session) => session.embedding("changing", { dim: 1, optimizer: "sum", consistency: "bsp" });
  const keys = Array.from({ length: 30 }, (_, i) => i);
  const ones = new Float32Array(keys.length).fill(1);
  let path = "";
  {
    await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 1, checkpointDir: folder.path });
    const { session } = cluster;
    const table = await describe(session);
    assert.equal(await table.configure({ consistency: "asp" }), 2);
    assert.equal(await table.configure({ consistency: { bsp: true, reduce: "mean" }, fromClock: 5 }), 5);
    for (let clock = 0; clock < 3; clock++) session.clock();
    path = (await session.checkpoint().saved).path;
  }
  await using reader = await CheckpointReader.open(path);
  assert.deepEqual(reader.manifest.parameters[0]?.consistency, { kind: "sync", reduce: "mean", staleness: 0 }, "what it is in the end");
  for (const servers of [1, 2, 3]) {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 1, restore: path });
    const { session } = cluster;
    const table = await describe(session);
    const values = async (): Promise<number[]> => [...new Set(await table.pull(keys))];
    await table.push(keys, ones);
    assert.deepEqual([session.clocks, await values()], [3, [1]], "clock 3 is ASP");
    session.clock();
    session.clock();
    await table.push(keys, ones);
    assert.deepEqual(await values(), [1], "clock 5 is BSP");
    session.clock();
    assert.deepEqual(await values(), [2]);
  }
});

test("of parameters with sync updates exactly the rounds before the cut are in, of the others all updates before it, while workers push", async () => {
  using folder = temporaryFolder();
  const cluster = await EmbeddedCluster.start({ servers: 2, workers: 3, checkpointDir: folder.path });
  await using _ = cluster;
  const CUT = 6;
  const SIZE_SMALL = 200_000;
  const keys = Array.from({ length: 3000 }, (_, i) => i);
  let taking: Promise<{ readonly path: string }> | undefined;
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const bsp = await session.tensor("bsp", { shape: [SIZE_SMALL], optimizer: "sum", consistency: "bsp" });
      const asp = await session.tensor("asp", { shape: [SIZE_SMALL], optimizer: "sum" });
      const table = await session.embedding("table", { dim: 2, optimizer: "sum", consistency: { ssp: 2 } });
      const rounds = await session.embedding("rounds", { dim: 2, optimizer: "sum", consistency: "bsp" });
      const ones = new Float32Array(SIZE_SMALL).fill(1);
      const rows = new Float32Array(keys.length * 2).fill(1);
      for (let clock = 0; clock < 14; clock++) {
        if (session.rank === 1 && clock === CUT) taking = session.checkpoint().saved;
        const pushes = [bsp.push(ones), asp.push(ones), table.push(keys, rows), rounds.push(keys, rows)];
        session.clock();
        await table.pull([1]);
        if (clock % 3 === session.rank) await Promise.all(pushes);
      }
    }),
  );
  const { path } = (await taking) as { readonly path: string };
  await using restored = await EmbeddedCluster.start({ servers: 3, workers: 1, restore: path });
  const { session } = restored;
  assert.equal(session.clocks, CUT);
  const bsp = await (await session.tensor("bsp", { shape: [SIZE_SMALL], optimizer: "sum", consistency: "bsp" })).pull();
  assert.deepEqual(new Set(bsp), new Set([3 * CUT]));
  const rounds = await (await session.embedding("rounds", { dim: 2, optimizer: "sum", consistency: "bsp" })).pull(keys);
  assert.deepEqual(new Set(rounds), new Set([3 * CUT]));
  const asp = await (await session.tensor("asp", { shape: [SIZE_SMALL], optimizer: "sum" })).pull();
  for (const value of new Set(asp)) assert.ok(value >= 3 * CUT && value <= 3 * 14 && Number.isInteger(value), `${value}`);
  const table = await (await session.embedding("table", { dim: 2, optimizer: "sum", consistency: { ssp: 2 } })).pull(keys);
  for (const value of new Set(table)) assert.ok(value >= 3 * CUT && value <= 3 * (CUT + 4), `${value}`);
});

test("with everybody at a barrier until the cut, nothing newer is in, and pushes go on while it is written", async () => {
  using folder = temporaryFolder();
  const cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: folder.path });
  await using _ = cluster;
  const keys = Array.from({ length: 30_000 }, (_, i) => i);
  const row = new Float32Array(keys.length * 4).fill(1);
  let path = "";
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const table = await session.embedding("table", { dim: 4, optimizer: { type: "adagrad", learningRate: 1 } });
      const dense = await session.tensor("dense", { shape: [500_000], optimizer: { type: "momentum" } });
      const ones = new Float32Array(500_000).fill(1);
      await table.push(keys, row);
      await dense.push(ones);
      session.clock();
      await session.barrier();
      let done = false;
      let taking: Promise<unknown> = Promise.resolve();
      if (session.rank === 0) {
        const { cut, saved } = session.checkpoint();
        taking = saved.then((taken) => {
          path = taken.path;
          done = true;
        });
        await cut;
      }
      await session.barrier();
      for (let i = 0; i < 20 && !done; i++) {
        await Promise.all([
          table.push(keys.slice(i * 1000), row.slice(i * 4000)),
          table.push([100_000 + i], row.slice(0, 4)),
          dense.push(ones),
        ]);
      }
      await taking;
    }),
  );
  await using restored = await EmbeddedCluster.start({ servers: 1, restore: path });
  const table = await restored.session.embedding("table", { dim: 4, optimizer: { type: "adagrad", learningRate: 1 } });
  const expected = Math.fround(-1 - 1 / Math.sqrt(2));
  const values = await table.pull(keys);
  assert.ok(
    values.every((value) => Math.abs(value - expected) < 1e-6),
    `${values[0]} is ${expected}`,
  );
  assert.equal((await table.pull([100_000]))[0], 0);
  await using reader = await CheckpointReader.open(path);
  assert.equal(reader.manifest.parameters.find(({ name }) => name === "table")?.rowCount, keys.length);
});

test("a note of the job's own comes back word for word, and is left out where there is none", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ checkpointDir: folder.path });
  await cluster.session.tensor("w", { shape: [1], optimizer: "sum" });
  const note = { epoch: 3, step: 12, plan: { task: "lenet", rates: [0.1, 0.01] } };
  for (const wanted of [note, undefined]) {
    const { path } = await cluster.session.checkpoint({ note: wanted }).saved;
    await using reader = await CheckpointReader.open(path);
    assert.deepEqual(reader.manifest.state.note, wanted);
  }
});

test("a checkpoint has what existed at its cut, as it was, whatever is cleared, made anew or loaded while it is written", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: folder.path });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const w = await one.tensor("w", { shape: [300_000], optimizer: "sum" });
  const users = await one.embedding("users", { dim: 4, optimizer: "sum" });
  await w.push(new Float32Array(300_000).fill(3));
  const keys = Array.from({ length: 5000 }, (_, i) => i);
  await users.push(keys, new Float32Array(20_000).fill(5));
  const late = {
    w: await two.tensor("w", { shape: [300_000], optimizer: "sum" }),
    users: await two.embedding("users", { dim: 4, optimizer: "sum" }),
  };
  const { cut, saved: taken } = one.checkpoint();
  await cut;
  await Promise.all([late.w.drop(), late.users.drop()]);
  const anew = await two.tensor("w", { shape: [8], optimizer: "sum" });
  await anew.push(new Float32Array(8).fill(1));
  assert.deepEqual([...(await anew.pull())], Array(8).fill(1), "its name is free at once");
  await taken;
  await using restored = await EmbeddedCluster.start({ servers: 3, restore: folder.path });
  const saved = await restored.session.tensor("w", { shape: [300_000], optimizer: "sum" });
  assert.deepEqual(await saved.pull(), new Float32Array(300_000).fill(3));
  const savedUsers = await restored.session.embedding("users", { dim: 4, optimizer: "sum" });
  assert.deepEqual(await savedUsers.pull(keys), new Float32Array(20_000).fill(5));
});

test("checkpoints that are taken while parameters come and go are whole, or QUEUE_FULL and retryable where another is being taken", async () => {
  using folder = temporaryFolder();
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2, checkpointDir: folder.path });
  const sessions = cluster.sessions;
  const outcomes: string[] = [];
  let isOver = false;
  const take = async (session: Session): Promise<void> => {
    for (let round = 0; round < 12; round++) {
      outcomes.push(
        await session.checkpoint({ keep: 1 }).saved.then(
          () => "taken",
          (error: unknown) => (isWeighbridgeError(error) ? `${error.code} ${error.retryable}` : String(error)),
        ),
      );
    }
    isOver = true;
  };
  const comeAndGo = async (session: Session, name: string): Promise<void> => {
    while (!isOver) {
      const tensor = await session.tensor(name, { shape: [50_000], optimizer: "sum" });
      const table = await session.embedding(`${name} rows`, { dim: 2, optimizer: "sum" });
      await Promise.all([tensor.push(new Float32Array(50_000)), table.push([1, 2], new Float32Array(4))]);
      await Promise.all([tensor.drop(), table.drop()]);
    }
  };
  await Promise.all([...sessions.map(take), ...sessions.map((session, i) => comeAndGo(session, `x${i}`))]);
  assert.deepEqual(
    [...new Set(outcomes)].filter((outcome) => outcome !== "taken" && outcome !== "QUEUE_FULL true"),
    [],
  );
  assert.ok(outcomes.includes("taken"));
});
