// Goal: whoever has a handle of a parameter that a server has lost hears of it, also when somebody else has made the
// parameter anew there; after a restore the old handles go on, and a link that breaks is no loss.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { ParamType } from "../../src/faces/tensors/tensor-settings.ts";
import { TensorWorker } from "../../src/faces/tensors/tensor-worker.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { openRawRows } from "../../src/worker/raw-rows.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";
import { SimDisk } from "./sim-disk.ts";

const SEEDS = 3;
const ROOT = "/checkpoints";
const VICTIM = 1;
/** Two blocks: as "m", one on each server. */
const TENSOR = { shape: [200_000], optimizer: "sum", init: { type: "constant", value: 1 } } as const;
const TABLE = { dim: 2, optimizer: "sum", init: { type: "constant", value: 1 } } as const;
const KEYS = Array.from({ length: 32 }, (_, key) => key);
const ONES = new Float32Array(2 * KEYS.length).fill(1);

type Handles = { readonly session: Session; readonly tensor: Tensor; readonly table: Embedding };

class Stage {
  readonly cluster: SimCluster;
  readonly #disk = new SimDisk(new Random(1), ROOT);
  #isRestored = false;

  constructor(seed: number) {
    this.cluster = new SimCluster({
      seed,
      serverCount: 2,
      workerCount: 2,
      network: { latencyMsMin: 0, latencyMsMax: 5 },
      settle: SETTLING,
      optionsOf: () => {
        const { layer } = this.#disk.mount(this.cluster.clock, 2);
        const restoreFrom = this.#isRestored ? { restoreFrom: () => openCheckpoint(ROOT, { layer }) } : {};
        return { checkpointFiles: new ServerFiles(ROOT, layer), ...restoreFrom };
      },
    });
  }

  static async start(seed: number): Promise<{ readonly stage: Stage; readonly one: Handles; readonly two: Handles }> {
    const stage = new Stage(seed);
    await stage.cluster.start();
    const [one, two] = [await stage.#handles(0), await stage.#handles(1)];
    return { stage, one, two };
  }

  async #handles(rank: number): Promise<Handles> {
    const session = await this.run(Session.open(this.cluster.worker(rank).node));
    return { session, ...(await this.open(session)) };
  }

  async open(session: Session): Promise<{ readonly tensor: Tensor; readonly table: Embedding }> {
    return { tensor: await this.run(session.tensor("m", TENSOR)), table: await this.run(session.embedding("e", TABLE)) };
  }

  run<T>(promise: Promise<T>): Promise<T> {
    return this.cluster.run(promise);
  }

  async restart({ isRestored }: { readonly isRestored: boolean }): Promise<void> {
    this.#isRestored = isRestored;
    const node = idOf("server", VICTIM);
    this.cluster.kill(node);
    await this.run(this.cluster.startNode(node));
    await this.sleep(500);
  }

  async sleep(ms: number): Promise<void> {
    await this.run(new Promise<void>((wake) => this.cluster.clock.after(ms, wake)));
  }

  /** The same call until it does not fail for what passes: a server that restores, a worker that has to join again. */
  async persist<T>(call: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.run(call());
      } catch (error) {
        if (!isWeighbridgeError(error) || !error.retryable || attempt === 20) throw error;
        await this.sleep(100);
      }
    }
  }
}

const isLost = (error: unknown): boolean =>
  isWeighbridgeError(error, "UNKNOWN_PARAMETER") && /"[me]".*server 1.*incarnation 2.*restore.*(tensor|embedding)\(\)/.test(error.message);

test(`a handle never goes on with what somebody made anew on a restarted server, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { stage, one, two } = await Stage.start(seed);
    const ones = new Float32Array(TENSOR.shape[0]).fill(1);
    await stage.run(one.tensor.push(ones));
    await stage.run(one.table.push(KEYS, ONES));
    await stage.restart({ isRestored: false });
    const anew = await stage.open(two.session);
    const rows = [0, 70_000, 140_000, 199_999];
    const some = new Float32Array(rows.length);
    const calls: readonly (() => Promise<unknown>)[] = [
      () => one.tensor.pull(),
      () => one.tensor.push(ones),
      () => one.tensor.pushPull(ones, "all"),
      () => one.tensor.pullRows(rows),
      () => one.tensor.pushRows(rows, some),
      () => one.tensor.pushPull({ rows, gradients: some }, "all"),
      () => one.tensor.pushPull({ rows, gradients: some }, rows),
      () => one.tensor.start(ones),
      () => one.tensor.configure({ staleness: Infinity }),
      () => one.tensor.nonFinite(),
      () => one.tensor.drop(),
      () => one.table.pull(KEYS),
      () => one.table.push(KEYS, ONES),
      () => one.table.pushPull({ keys: KEYS, gradients: ONES }, KEYS),
      () => one.table.drop(),
    ];
    for (const [i, call] of calls.entries()) await stage.run(assert.rejects(call(), isLost, `call ${i}`));
    await stage.persist(() => two.session.rejoin());
    const [values, table] = [await stage.persist(() => anew.tensor.pull()), await stage.persist(() => anew.table.pull(KEYS))];
    assert.deepEqual(
      [...new Set(values)].sort((a, b) => a - b),
      [1, 2],
      "of both servers, nothing of what was refused",
    );
    assert.deepEqual(
      [...new Set(table)].sort((a, b) => a - b),
      [1, 2],
    );
    const again = await stage.open(one.session);
    assert.deepEqual(await stage.persist(() => again.tensor.pull()), values);
    await stage.persist(() => again.table.push(KEYS, ONES));
    await stage.run(assert.rejects(one.tensor.pull(), isLost, "the old handle stays what it was"));
  });
});

/** Every other kind of handle, each asked in its ways for rows of both servers. */
async function otherHandles(session: Session): Promise<Readonly<Record<string, () => Promise<unknown>>>> {
  const values = new Float32Array(TENSOR.shape[0]).fill(0.5);
  const rows = [0, 199_999];
  const some = Float32Array.of(0.5, 0.5);
  const tensor = await session.tensor("m", { ...TENSOR, link: { push: "fp16", pull: "fp16" } });
  const topK = await session.tensor("m top", { ...TENSOR, shape: [2_000_000], link: { push: { topK: 0.1 } } });
  const table = await session.embedding("e", { ...TABLE, link: { keyCache: true, push: "fp16", pull: "fp16" } });
  const cache = (await session.embedding("c", { ...TABLE, versions: true })).cached({ rows: 64 });
  const raw = (await session.embedding("r", { ...TABLE, consistency: "bsp" })).raw(openRawRows, new Arena({ shared: false }));
  const hetu = new TensorWorker(session);
  await hetu.initTensor(7, { paramType: ParamType.kCacheTable, length: 64, width: 2 });
  return {
    encodedPush: () => tensor.push(values),
    encodedPull: () => tensor.pull(),
    encodedPushPull: () => tensor.pushPull(values, "all"),
    encodedPushRows: () => tensor.pushRows(rows, some),
    encodedPullRows: () => tensor.pullRows(rows),
    topKPush: () => topK.push(new Float32Array(topK.size).fill(1)),
    topKFlush: () => topK.flushResidual(),
    encodedTablePush: () => table.push(KEYS, ONES),
    encodedTablePull: () => table.pull(KEYS),
    cacheUpdate: () => cache.push(KEYS, ONES),
    cacheLookup: () => cache.pull(KEYS),
    cacheFlush: () => cache.flush(),
    rawClaim: () => raw.claim(),
    rawRead: () => raw.read(BigUint64Array.from(KEYS, BigInt), new Float32Array(KEYS.length * raw.rowFloats)),
    hetuPush: () => hetu.push(7, new Float32Array(128)),
    hetuPull: () => hetu.pull(7, new Float32Array(128)),
    hetuSparsePull: () => hetu.sparsePull(7, KEYS, new Float32Array(64)),
  };
}

test("encoded, cached and raw handles, and those of the tensors face, hear of it too", async () => {
  const stage = new Stage(6);
  await stage.cluster.start();
  const [one, two] = await stage.run(Promise.all([0, 1].map((rank) => Session.open(stage.cluster.worker(rank).node))));
  assert.ok(one !== undefined && two !== undefined);
  const calls = await stage.run(otherHandles(one));
  // So that there is something to flush.
  for (const [name, call] of Object.entries(calls)) if (name !== "topKFlush") await stage.run(call());
  await stage.restart({ isRestored: false });
  await stage.run(otherHandles(two));
  for (const [name, call] of Object.entries(calls)) {
    await stage.run(assert.rejects(call(), throwsCode("UNKNOWN_PARAMETER", /server 1.*incarnation 2/), name));
  }
});

test("a read that was under way when the server was restarted is not answered from what somebody made anew", async () => {
  const { stage, one, two } = await Stage.start(1);
  const { network } = stage.cluster;
  const [victim, reader] = ["server-1", "worker-0"];
  await stage.run(one.tensor.push(new Float32Array(TENSOR.shape[0]).fill(1)));
  network.partition(reader, victim);
  const outcome = one.tensor.pull().then(
    () => "answered",
    (error: unknown) => error,
  );
  await stage.restart({ isRestored: false });
  await stage.open(two.session);
  network.heal();
  const error = await stage.run(outcome);
  assert.ok(isLost(error) || isWeighbridgeError(error, "NODE_DEAD"), String(error));
});

test(`after a restore the handles from before go on, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 1, count: SEEDS }, async (seed) => {
    const { stage, one, two } = await Stage.start(seed);
    await stage.run(one.table.push(KEYS, ONES));
    await stage.run(one.session.checkpoint().saved);
    await stage.restart({ isRestored: true });
    for (const { session, tensor, table } of [one, two]) {
      await stage.persist(() => session.rejoin());
      await stage.persist(() => table.pull(KEYS));
      await stage.run(table.push(KEYS, ONES));
      assert.deepEqual([...new Set(await stage.persist(() => tensor.pull()))], [1]);
    }
    assert.deepEqual([...new Set(await stage.persist(() => one.table.pull(KEYS)))], [4]);
  });
});

test("what a worker does without waiting keeps its order while a restored server is looked at: a read sees the push before it", async () => {
  const { stage, one } = await Stage.start(3);
  await stage.run(one.session.checkpoint().saved);
  await stage.restart({ isRestored: true });
  await stage.persist(() => one.session.rejoin());
  const pushed = one.table.push(KEYS, ONES);
  const { router } = stage.cluster.worker(0).worker ?? assert.fail();
  const [first] = KEYS.filter((key) => router.serverOf({ key: BigInt(key) }) !== VICTIM);
  assert.ok(first !== undefined);
  const read = one.table.pull([first]);
  assert.deepEqual([...(await stage.run(read))], [2, 2]);
  await stage.run(pushed);
});

test("loading a saved parameter over one that was made anew gives the handles from before their parameter back", async () => {
  const { stage, one, two } = await Stage.start(4);
  await stage.run(one.table.push(KEYS, ONES));
  await stage.run(one.session.saveParameter("e", "kept"));
  await stage.restart({ isRestored: false });
  await stage.open(two.session);
  await stage.run(assert.rejects(one.table.pull(KEYS), isLost));
  await stage.persist(() => two.session.loadParameter("e", "kept"));
  assert.deepEqual([...new Set(await stage.persist(() => one.table.pull(KEYS)))], [2]);
});

test("a link that breaks while the server lives is no loss: every push counts once, and nobody asks for anything anew", async () => {
  const { stage, one } = await Stage.start(5);
  for (let round = 0; round < 5; round++) {
    const pushed = one.table.push(KEYS, ONES);
    stage.cluster.network.breakLinks("worker-0", "server-1");
    await stage.run(pushed);
  }
  assert.deepEqual([...new Set(await stage.run(one.table.pull(KEYS)))], [6]);
});
