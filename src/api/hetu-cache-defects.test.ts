// hetu-cache-defects — Goal: a cache is right where Hetu's was wrong, on any number of servers; the numbers are those
// of our notes on it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import type { ServerContext } from "../server/server-context.ts";
import { add, read, rowsOf, stageOf, stored } from "../testing/cache-stage.ts";
import { POLICY_NAMES } from "../worker/cache/eviction-order.ts";

const SERVER_COUNTS = [1, 2, 3];

/** Takes rows of table "e" away, as a restore to before they were made would: initial values, versions from 0 on. */
const setBack = psFunction({
  name: "set-back",
  request: { keys: "u64[]" },
  response: {},
  handler: ({ parameters, arena }: ServerContext, { keys }) => {
    const list = arena.allocate(keys.byteLength);
    new BigUint64Array(arena.memory.buffer, list, keys.length).set(keys);
    parameters.tableOf("e").store.remove(list, keys.length);
    arena.release(list, keys.byteLength);
    return {};
  },
});

for (const servers of SERVER_COUNTS) {
  const over = `${servers} server${servers === 1 ? "" : "s"}`;

  test(`Hetu's defect 1, ${over}: a lookup that some servers have nothing of reads every row`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers });
    const stage = await stageOf(cluster.session, { rows: 10 }, { init: { type: "constant", value: 7 } });
    for (let first = 0; first < 40; first++) {
      assert.deepEqual(await stage.cache.pull([first]), rowsOf([first], 7), `key ${first}`);
      const keys = [first + 60, first, first + 70];
      assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 7), `from key ${first}`);
      await stage.cache.push(keys, rowsOf(keys, 0));
      const into = new Float32Array(4);
      await stage.cache.pushPull({ keys: [first + 70], gradients: rowsOf([1], 0) }, [first + 1, first], { into });
      assert.deepEqual(into, rowsOf([1, 2], 7));
    }
  });

  test(`Hetu's defect 2, ${over}: rows that are evicted in any order are pushed to their own servers`, async () => {
    for (const policy of POLICY_NAMES) {
      await using cluster = await EmbeddedCluster.start({ servers });
      const stage = await stageOf(cluster.session, { rows: 2, policy, pushBound: 100, pullBound: 100 });
      const keys = [90, 10, 81, 3, 70, 11, 44, 2 ** 40, 5];
      for (const key of keys) {
        await stage.cache.pull([key]);
        await add(stage, key, key % 97);
        await add(stage, key, 1);
      }
      await stage.cache.flush();
      const pulled = await stage.table.pull(keys);
      const expected = keys.flatMap((key) => [(key % 97) + 1, (key % 97) + 1]);
      assert.deepEqual([...pulled], expected, policy);
      assert.deepEqual([...(await stage.table.pull([71, 80, 82, 4]))], [0, 0, 0, 0, 0, 0, 0, 0]);
    }
  });

  test(`Hetu's defect 3, ${over}: pushPull counts an update once, here and on the server, and so do the versions`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers });
    const stage = await stageOf(cluster.session);
    const into = new Float32Array(2);
    for (let i = 1; i <= 4; i++) {
      await stage.cache.pushPull({ keys: [1], gradients: rowsOf([1], 1) }, [1], { into });
      assert.deepEqual([...into], [i, i]);
      assert.equal(await read(stage, 1), i);
      assert.equal(await stored(stage, 1), i);
    }
    const { hits, stale, misses } = stage.cache.statistics();
    assert.deepEqual({ hits, stale, misses }, { hits: 7, stale: 0, misses: 1 }, "versions agree: the row travelled once");
  });

  test(`Hetu's defect 4, ${over}: a row that was evicted with pending updates is read with them`, async () => {
    for (const policy of POLICY_NAMES) {
      await using cluster = await EmbeddedCluster.start({ servers });
      const stage = await stageOf(cluster.session, { rows: 1, policy, pushBound: 10, pullBound: 10 });
      await read(stage, 1);
      await add(stage, 1);
      assert.equal(stage.cache.statistics().rowsPending, 1);
      await stage.cache.pull([2]);
      assert.equal(await read(stage, 1), 1, policy);
    }
  });

  test(`Hetu's defect 5, ${over}: flush and close push all that is pending, and so does the end of a session`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [mine, theirs] = cluster.sessions;
    const stage = await stageOf(mine, { rows: 50, pushBound: Infinity });
    const other = await stageOf(theirs);
    const keys = Array.from({ length: 50 }, (_, i) => i);
    const sums: number[] = [];
    const updateAll = async (): Promise<void> => {
      await stage.cache.pull(keys);
      await stage.cache.push(keys, rowsOf(keys, 1));
      sums.push((await other.table.pull(keys)).reduce((sum, value) => sum + value, 0));
    };
    await updateAll();
    await stage.cache.flush();
    await updateAll();
    await Promise.all([stage.cache.close(), stage.cache.close()]);
    await stage.cache.close();
    await assert.rejects(read(stage, 1), (error) => isWeighbridgeError(error, "CLOSED"));
    sums.push((await other.table.pull(keys)).reduce((sum, value) => sum + value, 0));
    const again = stage.table.cached({ rows: 50, pushBound: Infinity });
    await again.pull(keys);
    await again.push(keys, rowsOf(keys, 1));
    await mine?.close({ barrier: false });
    sums.push((await other.table.pull(keys)).reduce((sum, value) => sum + value, 0));
    assert.deepEqual(sums, [0, 100, 200, 300]);
  });

  test(`Hetu's defect 5, ${over}: rows that were set back on the servers are read anew, even at the version they had`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2, functions: [setBack] });
    const [mine, theirs] = cluster.sessions;
    const stage = await stageOf(mine, { pullBound: Infinity });
    const other = await stageOf(theirs);
    const keys = [1, 2, 3, 4, 5];
    await stage.cache.pull(keys);
    for (let i = 0; i < 3; i++) await stage.cache.push(keys, rowsOf(keys, 1));
    assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 3));
    await mine?.callAll(setBack, { keys: BigUint64Array.from(keys, BigInt) });
    for (let i = 0; i < 3; i++) await other.table.push(keys, rowsOf(keys, 100));
    assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 300));
    assert.equal(stage.cache.statistics().resyncs, 1);
    assert.deepEqual(await stage.cache.pull(keys), rowsOf(keys, 300));
  });

  test(`Hetu's defect 6, ${over}: a push beside the caches is an update like any other, and statistics add up over servers`, async () => {
    await using cluster = await EmbeddedCluster.start({ servers, workers: 2 });
    const [mine, theirs] = cluster.sessions;
    const stage = await stageOf(mine, { rows: 100 });
    const other = await stageOf(theirs);
    const keys = Array.from({ length: 60 }, (_, i) => i);
    await stage.cache.pull([...keys, ...keys]);
    await other.table.push(keys.slice(0, 40), rowsOf(keys.slice(0, 40), 1));
    const rows = await stage.cache.pull(keys);
    assert.deepEqual(rows.subarray(0, 80), rowsOf(keys.slice(0, 40), 1));
    assert.deepEqual(rows.subarray(80), rowsOf(keys.slice(40), 0));
    const { keysLookedUp, rowsLookedUp, misses, stale, hits, rowsCached } = stage.cache.statistics();
    assert.deepEqual(
      { keysLookedUp, rowsLookedUp, misses, stale, hits, rowsCached },
      { keysLookedUp: 180, rowsLookedUp: 120, misses: 60, stale: 40, hits: 20, rowsCached: 60 },
    );
  });
}
