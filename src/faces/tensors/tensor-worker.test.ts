// tensor-worker — Goal: every function of Hetu does under its own name what Hetu's documentation says, and does right
// what Hetu does wrong, with one, two and three servers.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { InitType, OptType, ParamType, type TensorSettings } from "./tensor-settings.ts";
import { TensorWorker } from "./tensor-worker.ts";

/** Workers of a cluster inside this process. */
async function start(servers: number, workers = 1): Promise<{ cluster: EmbeddedCluster; all: TensorWorker[]; worker: TensorWorker }> {
  const cluster = await EmbeddedCluster.start({ servers, workers });
  const all = cluster.sessions.map((session) => new TensorWorker(session));
  return { cluster, all, worker: all[0] as TensorWorker };
}

async function pulled(worker: TensorWorker, name: number | string, length: number): Promise<number[]> {
  const into = new Float32Array(length);
  await worker.pull(name, into);
  return [...into];
}

const counting = (length: number): Float32Array => Float32Array.from({ length }, (_, i) => i);
const TABLE = { paramType: ParamType.kParam2D, length: 10, width: 3 } as const;
const CACHE_TABLE = { ...TABLE, paramType: ParamType.kCacheTable } as const;

for (const servers of [1, 2, 3]) {
  suite(`with ${servers} servers`, () => {
    test("ParamInit: the second worker finds what the first made, in whatever order they come", async () => {
      const { cluster, all } = await start(servers, 2);
      await using _ = cluster;
      const [one, two] = all as [TensorWorker, TensorWorker];
      const settings: TensorSettings = { length: 100, init: InitType.constant, a: 1.5 };
      const other: TensorSettings = { length: 7, init: InitType.constant, a: 2 };
      await one.initTensor(1, settings);
      await one.push(1, new Float32Array(100).fill(1));
      await two.initTensor("other", other);
      await two.initTensor(1, settings);
      await one.initTensor("other", other);
      assert.deepEqual(await pulled(two, 1, 100), new Array<number>(100).fill(2.5));
      assert.deepEqual(await pulled(one, "other", 7), new Array<number>(7).fill(2));
    });

    test("DensePush, DensePull, DDPushPull: a tensor that its optimizer leaves alone adds up what is pushed", async () => {
      const { cluster, worker } = await start(servers);
      await using _ = cluster;
      const length = 300_000; // three blocks
      await worker.initTensor(3, { length });
      void worker.push(3, counting(length));
      void worker.push("3", counting(length));
      const into = new Float32Array(length);
      void worker.pull(3, into);
      await worker.wait(3);
      assert.deepEqual(
        into,
        counting(length).map((value) => 2 * value),
      );
      await worker.ddPushPull(3, counting(length), into);
      assert.deepEqual(
        into,
        counting(length).map((value) => 3 * value),
      );
    });

    for (const settings of [TABLE, CACHE_TABLE]) {
      const kind = settings.paramType === ParamType.kParam2D ? "kParam2D" : "kCacheTable";

      test(`SparsePush, SparsePull on a ${kind}: rows in any order, duplicates added up and given to all`, async () => {
        const { cluster, worker } = await start(servers);
        await using _ = cluster;
        await worker.initTensor(5, settings);
        const into = new Float32Array(12);
        void worker.sparsePush(5, [9, 0, 9], Float32Array.of(1, 2, 3, 4, 5, 6, 10, 20, 30));
        // The second before anybody waited: the first is whole.
        void worker.sparsePush(5, Uint32Array.of(4), Float32Array.of(7, 8, 9));
        void worker.sparsePull(5, BigUint64Array.of(4n, 9n, 0n, 9n), into);
        await worker.wait(5);
        assert.deepEqual([...into], [7, 8, 9, 11, 22, 33, 4, 5, 6, 11, 22, 33]);
      });

      test(`DensePush, DensePull, DDPushPull on a ${kind}: all rows, one after the other`, async () => {
        const { cluster, worker } = await start(servers);
        await using _ = cluster;
        await worker.initTensor(5, { ...settings, init: InitType.constant, a: 1 });
        await worker.push(5, counting(30));
        assert.deepEqual(
          await pulled(worker, 5, 30),
          [...counting(30)].map((value) => value + 1),
        );
        const into = new Float32Array(30);
        await worker.ddPushPull(5, counting(30), into);
        assert.deepEqual(
          [...into],
          [...counting(30)].map((value) => 2 * value + 1),
        );
      });

      test(`SDPushPull on a ${kind}: some rows pushed, all of them back; without rows it only pulls`, async () => {
        const { cluster, worker } = await start(servers);
        await using _ = cluster;
        await worker.initTensor(6, settings);
        const into = new Float32Array(30);
        await worker.sdPushPull(6, [2, 2], Float32Array.of(1, 2, 3, 10, 20, 30), into);
        const expected = new Float32Array(30);
        expected.set([11, 22, 33], 6);
        assert.deepEqual(into, expected);
        await worker.sdPushPull(6, [], new Float32Array(0), into.fill(-1));
        assert.deepEqual(into, expected);
      });

      test(`SSPushPull on a ${kind}: some rows pushed, other rows back, either side may be empty`, async () => {
        const { cluster, worker } = await start(servers);
        await using _ = cluster;
        await worker.initTensor(6, settings);
        const into = new Float32Array(9);
        await worker.ssPushPull(6, [1, 7], Float32Array.of(1, 2, 3, 4, 5, 6), [7, 0, 7], into);
        assert.deepEqual([...into], [4, 5, 6, 0, 0, 0, 4, 5, 6]);
        await worker.ssPushPull(6, [], new Float32Array(0), [1], into.subarray(0, 3));
        assert.deepEqual([...into.subarray(0, 3)], [1, 2, 3]);
        await worker.ssPushPull(6, [1], Float32Array.of(1, 1, 1), [], new Float32Array(0));
        await worker.sparsePull(6, [1], into.subarray(0, 3));
        assert.deepEqual([...into.subarray(0, 3)], [2, 3, 4]);
      });
    }

    test("rows are exact beyond 2^24, where a float cannot name them", async () => {
      const { cluster, worker } = await start(servers);
      await using _ = cluster;
      const length = 40_000_000;
      for (const paramType of [ParamType.kParam2D, ParamType.kCacheTable]) {
        const name = `large ${paramType}`;
        await worker.initTensor(name, { paramType, length, width: 2 });
        await worker.sparsePush(name, [16_777_217, length - 1], Float32Array.of(1, 2, 3, 4));
        const into = new Float32Array(8);
        await worker.sparsePull(name, [16_777_216, 16_777_217, 16_777_218, length - 1], into);
        assert.deepEqual([...into], [0, 0, 1, 2, 0, 0, 3, 4]);
      }
    });

    test("ParamInit: a push is a step of the optimizer, on rows as on the whole", async () => {
      const { cluster, worker } = await start(servers);
      await using _ = cluster;
      await worker.initTensor(1, { length: 1, init: InitType.constant, a: 10, opt: OptType.SGD, optArgs: [0.5] });
      await worker.push(1, Float32Array.of(1));
      assert.deepEqual(await pulled(worker, 1, 1), [9.5]); // Hetu: 11
      for (const paramType of [ParamType.kParam2D, ParamType.kCacheTable]) {
        const name = `adam ${paramType}`;
        await worker.initTensor(name, { paramType, length: 4, width: 1, opt: OptType.Adam, optArgs: [0.25] });
        await worker.sparsePush(name, [2], Float32Array.of(3)); // Hetu: NaN
        const into = new Float32Array(1);
        await worker.sparsePull(name, [2], into);
        assert.ok(Math.abs((into[0] as number) + 0.25) < 1e-6, `first step of Adam: ${into[0]}`);
      }
    });

    test("ParamClear: a tensor that was cleared is nowhere, and can be made anew", async () => {
      const { cluster, all } = await start(servers, 2);
      await using _ = cluster;
      const [one, two] = all as [TensorWorker, TensorWorker];
      for (const worker of all) await worker.initTensor(1, { length: 5 });
      await one.push(1, new Float32Array(5).fill(1));
      two.clear(1);
      await assert.rejects(two.pull(1, new Float32Array(5)), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
      await two.initTensor(1, { length: 5 }); // only its own note of it was gone
      assert.deepEqual(await pulled(two, 1, 5), [1, 1, 1, 1, 1]);
      await one.clearOnServer(1);
      await assert.rejects(two.pull(1, new Float32Array(5)), (error) => isWeighbridgeError(error, "UNKNOWN_PARAMETER"));
      await two.initTensor(1, { length: 6 });
      assert.deepEqual(await pulled(two, 1, 6), [0, 0, 0, 0, 0, 0]);
    });

    test("PushData, PullData: arrays of any length by index, shared by all; a second push adds", async () => {
      const { cluster, all } = await start(servers, 2);
      await using _ = cluster;
      const [one, two] = all as [TensorWorker, TensorWorker];
      const indexes = [17, 2n ** 64n - 1n, 3, 900];
      const lengths = [3, 1, 0, 2];
      one.pushData(indexes, counting(6), lengths);
      const into = new Float32Array(6);
      await one.waitData(one.pullData(indexes, into, lengths)); // sees its own push, which nobody waited for
      assert.deepEqual([...into], [0, 1, 2, 3, 4, 5]);
      await two.waitData(two.pushData([900, 17, 17], Float32Array.of(1, 1, 10, 10, 10, 100, 100, 100), Uint32Array.of(2, 3, 3)));
      await one.waitData(one.pullData([17, 900], into.subarray(0, 5), [3, 2]));
      assert.deepEqual([...into.subarray(0, 5)], [110, 111, 112, 5, 6]);
      const missing = one.pullData([5], new Float32Array(1), [1]);
      await assert.rejects(one.waitData(missing), (error) => isWeighbridgeError(error, "OUT_OF_RANGE"));
      const long = one.pullData([17], new Float32Array(4), [4]);
      await assert.rejects(one.waitData(long), (error) => isWeighbridgeError(error, "VALUE_LENGTH"));
    });

    test("kSyncEmbedding, kPushEmbedding, kPushSyncEmbedding: a cache pushes and asks by versions, and is right on every server", async () => {
      const { cluster, all } = await start(servers, 2);
      await using _ = cluster;
      const [reader, writer] = all as [TensorWorker, TensorWorker];
      for (const worker of all) await worker.initTensor(8, { ...CACHE_TABLE, length: 100, width: 1, init: InitType.constant, a: 7 });
      const cache = reader.cacheSparseTable(8, { rows: 20, pullBound: 3, pushBound: 2 });
      reader.startRecord();
      assert.deepEqual([...(await cache.pull([60, 70, 60]))], [7, 7, 7]); // Hetu, with two servers: zeros
      const seen: number[] = [];
      for (let update = 1; update <= 5; update++) {
        await writer.sparsePush(8, [60], Float32Array.of(1)); // counts as an update of its row
        seen.push((await cache.pull([60]))[0] as number);
      }
      assert.deepEqual(seen, [7, 7, 7, 11, 11], "at most three updates of others are missing");
      for (let update = 1; update <= 3; update++) await cache.push([70], Float32Array.of(1));
      const into = new Float32Array(1);
      await writer.sparsePull(8, [70], into);
      assert.equal(into[0], 10, "the third update went beyond the bound of two");
      await cache.push([70], Float32Array.of(1));
      assert.deepEqual([...(await cache.pull([70]))], [11], "a worker sees its own");
      const own = new Float32Array(2);
      await cache.pushPull({ keys: [70, 70], gradients: Float32Array.of(1, 1) }, [70, 60], { into: own });
      assert.deepEqual([...own], [13, 11]);
      await cache.close(); // nothing that was pending is lost
      await writer.sparsePull(8, [70], into);
      assert.equal(into[0], 13);
      const functions = new Set(reader.getLoads().keys());
      assert.ok(
        functions.has("SyncEmbedding") && (functions.has("PushEmbedding") || functions.has("PushSyncEmbedding")),
        [...functions].join(),
      );
    });

    test("SSPInit, SSPSync: who is too far ahead waits at the server, and asks once", async () => {
      const { cluster, all } = await start(servers, 2);
      await using _ = cluster;
      const [fast, slow] = all as [TensorWorker, TensorWorker];
      const starts = await Promise.all(all.map((worker) => worker.sspInit(7, { size: 2, tolerance: 1 })));
      assert.deepEqual(starts, [0, 0]);
      await fast.sspSync(7, 1);
      fast.startRecord();
      let hasPassed = false;
      const waiting = fast.sspSync(7, 2).then(() => {
        hasPassed = true;
      });
      await fast.initTensor("round trip", { length: 1 });
      assert.equal(hasPassed, false);
      await slow.sspSync(7, 1);
      await waiting;
      assert.deepEqual(fast.getLoads().get("SSPSync"), { sentBytes: 32, receivedBytes: 8 }, "one request");
    });

    test("loads are payload bytes by function, from the start of the record and since the last look", async () => {
      const { cluster, worker } = await start(servers);
      await using _ = cluster;
      await worker.initTensor(1, { paramType: ParamType.kParam2D, length: 1000, width: 16 });
      await worker.push(1, new Float32Array(16_000));
      assert.equal(worker.getLoads().size, 0, "nobody records");
      worker.startRecord();
      await worker.pull(1, new Float32Array(16_000));
      await worker.sparsePush(1, [1, 2, 2], new Float32Array(48));
      const loads = worker.getLoads();
      assert.deepEqual([...loads.keys()].sort(), ["DensePull", "SparsePush"]);
      assert.equal(loads.get("DensePull")?.receivedBytes, 64_000);
      assert.equal(loads.get("SparsePush")?.sentBytes, 7 * 8 + 8 + 2 * 64, "seven fields, two rows, their values");
      assert.equal(worker.getLoads().size, 0);
    });
  });
}

test("SSPSync of a group that the worker has not joined fails, and what it pushed under BSP counts", async () => {
  const { cluster, all } = await start(2, 2);
  await using _ = cluster;
  const [member, stranger] = all as [TensorWorker, TensorWorker];
  const tables = await Promise.all(all.map(({ session }) => session.embedding("t", { dim: 1, optimizer: "sum", consistency: "bsp" })));
  const keys = [1, 2, 3, 4, 5, 6]; // on both servers
  await member.sspInit(7, { size: 2, tolerance: 1 });
  for (const table of tables) await table.push(keys, new Float32Array(6).fill(1));
  await assert.rejects(stranger.sspSync(7, 0), throwsCode("NO_ROUTE", /worker 1 is no member of SSP group 7/));
  for (const { session } of all) session.clock();
  assert.deepEqual(await tables[0]?.pull(keys), new Float32Array(6).fill(2));
});

test("PReduceGetPartner: a group of eight forms with eight, all told the same, and the next one with those who come next", async () => {
  const { cluster, all } = await start(2, 8);
  await using _ = cluster;
  for (let round = 0; round < 3; round++) {
    const groups = await Promise.all(all.map((worker) => worker.preduceGetPartner(4, { want: 8, waitMs: 60_000 })));
    for (const group of groups) assert.deepEqual(group, [0, 1, 2, 3, 4, 5, 6, 7]);
  }
  const pairs = await Promise.all(all.slice(0, 4).map((worker) => worker.preduceGetPartner(5, { want: 2, waitMs: 60_000 })));
  assert.deepEqual(
    pairs.flat().sort((a, b) => a - b),
    [0, 0, 1, 1, 2, 2, 3, 3],
  );
  for (const [rank, pair] of pairs.entries()) assert.ok(pair.includes(rank) && pair.length === 2);
});

test("PReduceGetPartner: who finds nobody in its time goes alone", async () => {
  const { cluster, all } = await start(1, 2);
  await using _ = cluster;
  assert.deepEqual(await all[1]?.preduceGetPartner(1, { want: 2, waitMs: 1 }), [1]);
});

test("rank and nrank say who and how many, and a barrier lets nobody through before all are there", async () => {
  const { cluster, all } = await start(1, 3);
  await using _ = cluster;
  assert.deepEqual(
    all.map(({ rank, nrank }) => [rank, nrank]),
    [
      [0, 3],
      [1, 3],
      [2, 3],
    ],
  );
  let arrived = 0;
  await Promise.all(
    all.map(async (worker) => {
      arrived++;
      await worker.barrierWorker();
      assert.equal(arrived, 3);
    }),
  );
});

test("ddPushPull is atomic: what workers get back are the steps of one counter, none twice", async () => {
  const { cluster, all } = await start(2, 4);
  await using _ = cluster;
  for (const worker of all) await worker.initTensor(1, { length: 3 });
  const seen = await Promise.all(
    all.flatMap((worker) =>
      Array.from({ length: 25 }, async () => {
        const into = new Float32Array(3);
        await worker.ddPushPull(1, new Float32Array(3).fill(1), into);
        return into[2] as number;
      }),
    ),
  );
  assert.deepEqual(
    seen.sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
});

test("ssPushPull is atomic on a table: two workers that each add one to a row never get the same number back", async () => {
  const { cluster, all } = await start(2, 2);
  await using _ = cluster;
  for (const worker of all) await worker.initTensor(1, { ...CACHE_TABLE, width: 1 });
  const seen = await Promise.all(
    all.flatMap((worker) =>
      Array.from({ length: 50 }, async () => {
        const into = new Float32Array(1);
        await worker.ssPushPull(1, [4], Float32Array.of(1), [4], into);
        return into[0] as number;
      }),
    ),
  );
  assert.deepEqual(
    seen.sort((a, b) => a - b),
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
});

test("initial values are the same for every number of servers, and no part of a tensor repeats another", async () => {
  const length = 400_000;
  const draws: Float32Array[] = [];
  for (const servers of [1, 2, 3]) {
    const { cluster, worker } = await start(servers);
    await using _ = cluster;
    await worker.initTensor(9, { length, init: InitType.uniform, a: -0.5, b: 0.4, seed: 123 });
    const into = new Float32Array(length);
    await worker.pull(9, into);
    draws.push(into);
  }
  const [first = new Float32Array(0), ...others] = draws;
  for (const other of others) assert.deepEqual(other, first);
  const mean = first.reduce((sum, value) => sum + value, 0) / length;
  assert.ok(Math.abs(mean + 0.05) < 5 * (0.26 / Math.sqrt(length)), `mean ${mean}`);
  for (const parts of [2, 3]) {
    const size = Math.floor(length / parts);
    const same = first.subarray(0, size).filter((value, i) => value === first[size + i]).length;
    assert.ok(same < size / 1000, `${same} of ${size} elements of two parts are equal`);
  }
});

test("a failed call tells whoever awaits it and the next wait, once; later calls go on", async () => {
  const { cluster, worker } = await start(2);
  await using _ = cluster;
  await worker.initTensor(1, { length: 4, opt: OptType.SGD });
  void worker.push(1, Float32Array.of(1, NaN, 1, 1));
  await assert.rejects(worker.wait(1), (error) => isWeighbridgeError(error, "NOT_FINITE"));
  await worker.wait(1);
  assert.deepEqual(await pulled(worker, 1, 4), [0, 0, 0, 0]);
});

test("a wait has a deadline", async () => {
  const { cluster, all } = await start(1, 2);
  await using _ = cluster;
  await assert.rejects(all[0]!.sspInit(1, { size: 2, tolerance: 0 }, { signal: AbortSignal.abort() }), { code: "ABORTED" });
  await assert.rejects(all[0]!.sspInit(1, { size: 2, tolerance: 0 }, { timeoutMs: -1 }), { code: "BAD_ARGUMENT" });
  await all[0]?.sspInit(1, { size: 2, tolerance: 0 }, { timeoutMs: 30_000 });
  await assert.rejects((async () => await all[0]?.sspSync(1, 0, { timeoutMs: 20 }))(), (error) => isWeighbridgeError(error, "DEADLINE"));
});
