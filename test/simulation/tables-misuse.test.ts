// tables-misuse — Goal: calls out of order, bad arguments and configurations that do not fit are typed errors that say
// what to do; nothing changes, and nothing hangs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { showValue } from "../../src/base/errors.ts";
import { customRow } from "../../src/faces/tables/rows/custom-row.ts";
import { denseRow } from "../../src/faces/tables/rows/dense-row.ts";
import { DenseUpdateBatch, type Table, UpdateBatch } from "../../src/faces/tables/table.ts";
import type { TableConfig, TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { TableGroup } from "../../src/faces/tables/table-group.ts";
import type { TableRowType } from "../../src/faces/tables/table-row-type.ts";
import type { TableThread } from "../../src/faces/tables/table-thread.ts";
import { MemoryCluster } from "../../src/testing/memory-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { DOUBLES, FEATURES, FLOATS, INTEGERS, LONGS, PRODUCTS, SORTED, SPARSE, TableCluster } from "./tables.ts";

const TABLE = { rowType: 0, rowCapacity: 4, processCacheCapacity: 4 } as const;

function groupOf(cluster: MemoryCluster, rank = 0): TableGroup {
  const group = new TableGroup(() => Session.open(cluster.worker(rank).node));
  group.registerRow(0, FLOATS);
  return group;
}

test("calls out of order are refused, and say what comes first", async () => {
  const cluster = await MemoryCluster.start();
  const group = groupOf(cluster);
  assert.throws(() => group.clock(), throwsCode("BAD_ARGUMENT", /clock\(\) comes after createTableDone\(\); init\(\) was not called/));
  await assert.rejects(group.createTable(0, TABLE), throwsCode("BAD_ARGUMENT", /between init\(\) and createTableDone\(\)/));
  await assert.rejects(group.registerThread(), throwsCode("BAD_ARGUMENT", /init\(\) was not called/));
  await cluster.run(group.init({ numTables: 1, numLocalAppThreads: 2 }));
  await assert.rejects(group.init(), throwsCode("BAD_ARGUMENT", /init\(\) is called once/));
  assert.throws(() => group.registerRow(1, FLOATS), throwsCode("BAD_ARGUMENT", /registerRow\(\) comes before init\(\)/));
  await assert.rejects(cluster.run(group.createTableDone()), throwsCode("COUNT_MISMATCH", /numTables is 1, and 0 were created/));
  await assert.rejects(
    group.createTable(0, { ...TABLE, rowType: 7 }),
    throwsCode("UNKNOWN_PLUG_IN", /no row type 7; registerRow\(\) named 0/),
  );
  await cluster.run(group.createTable(0, TABLE));
  await assert.rejects(group.createTable(0, TABLE), throwsCode("BAD_ARGUMENT", /created already/));
  await assert.rejects(group.createTable(1, TABLE), throwsCode("COUNT_MISMATCH", /one too many: numTables is 1/));
  await cluster.run(group.createTableDone());
  await assert.rejects(group.createTable(1, TABLE), throwsCode("BAD_ARGUMENT", /the tables are complete/));
  assert.throws(() => group.clock(), throwsCode("NOT_JOINED", /not registered: call it on what registerThread\(\) gave/));
  assert.throws(() => group.getTableOrDie(0), throwsCode("NOT_JOINED"));
  const thread = await cluster.run(group.registerThread());
  await assert.rejects(group.registerThread(), throwsCode("COUNT_MISMATCH", /1 threads of this process/));
  assert.throws(() => thread.getTableOrDie(5), throwsCode("UNKNOWN_PARAMETER", /no table 5; createTable made 0/));
  assert.throws(() => thread.getTableOrDie(0, denseRow("f32")), throwsCode("SPEC_MISMATCH"));
  const table = thread.getTableOrDie(0, FLOATS);
  thread.deregisterThread();
  for (const use of [() => table.inc(0, 0, 1), () => table.get(0), () => thread.clock(), () => thread.deregisterThread()])
    assert.throws(use, throwsCode("CLOSED", /was deregistered/));
  const leaving = Promise.all([group.shutDown(), cluster.server().finalize(), cluster.scheduler.finalize()]);
  await cluster.run(leaving);
  await assert.rejects(group.shutDown(), throwsCode("CLOSED"));
  await assert.rejects(group.registerThread(), throwsCode("CLOSED", /shut down/));
});

test("after shutDown a thread that was never deregistered can neither get nor inc, and says that it was", async () => {
  const cluster = await TableCluster.start({ processes: 1 });
  const thread = cluster.thread(0);
  const table = thread.getTableOrDie(0, FLOATS);
  (await cluster.run(Promise.resolve(table.get(0)))).release(); // it is cached, and stays so
  await cluster.shutDown();
  const uses = [
    () => table.get(0),
    () => table.inc(0, 0, 1),
    () => table.batchInc(0, new UpdateBatch().update(0, 1)),
    () => table.denseBatchInc(0, new DenseUpdateBatch(0, Float32Array.of(1))),
    () => table.getAsync(1),
    () => table.threadInc(0, 0, 1),
    () => thread.clock(),
    () => thread.getTableOrDie(0),
  ];
  for (const use of uses) assert.throws(use, throwsCode("CLOSED", /was deregistered/));
  await assert.rejects(table.threadGet(0), throwsCode("CLOSED"));
  await assert.rejects(table.waitPendingAsyncGet(), throwsCode("CLOSED"));
});

test("bad rows, columns and updates are refused, and change nothing", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ rowCapacity: 4 }, { rowType: 1 }, { rowType: 3 }, { rowType: 2 }] });
  const thread = cluster.thread(0);
  const table = thread.getTableOrDie(0, FLOATS);
  for (const row of [1.5, -1, 2 ** 53, Number.NaN, "0" as unknown as number]) {
    assert.throws(() => table.inc(row, 0, 1), throwsCode("BAD_ARGUMENT", /the id of a row is a whole number/));
    assert.throws(() => table.get(row), throwsCode("BAD_ARGUMENT"));
    assert.throws(() => table.getAsync(row), throwsCode("BAD_ARGUMENT"));
  }
  for (const column of [4, -1, 0.5, Number.NaN]) assert.throws(() => table.inc(0, column, 1), throwsCode("OUT_OF_RANGE", /columns 0 to 3/));
  for (const update of [Number.NaN, Infinity, -Infinity]) {
    assert.throws(() => table.inc(0, 0, update), throwsCode("NOT_FINITE"));
    assert.throws(() => table.threadInc(0, 0, update), throwsCode("NOT_FINITE"));
    assert.throws(() => table.batchInc(0, new UpdateBatch().update(1, 1).update(0, update)), throwsCode("NOT_FINITE"));
    assert.throws(() => table.denseBatchInc(0, new DenseUpdateBatch(0, Float32Array.of(1, update))), throwsCode("NOT_FINITE"));
    assert.throws(() => thread.getTableOrDie(1, INTEGERS).inc(0, 0, update), throwsCode("NOT_FINITE"));
  }
  for (const row of [-1, 0.5, 2 ** 53]) {
    assert.throws(() => table.batchInc(row, new UpdateBatch().update(0, 1)), throwsCode("BAD_ARGUMENT"));
    assert.throws(() => table.denseBatchInc(row, new DenseUpdateBatch(0, Float32Array.of(1))), throwsCode("BAD_ARGUMENT"));
    assert.throws(() => table.threadInc(row, 0, 1), throwsCode("BAD_ARGUMENT"));
    await assert.rejects(table.threadGet(row), throwsCode("BAD_ARGUMENT"));
  }
  const batch = new UpdateBatch<number>().update(0, 1).update(9, 1);
  assert.throws(() => table.batchInc(0, batch), throwsCode("OUT_OF_RANGE"));
  assert.throws(() => table.denseBatchInc(0, new DenseUpdateBatch(3, Float32Array.of(1, 2))), throwsCode("OUT_OF_RANGE"));
  assert.throws(() => thread.getTableOrDie(1, INTEGERS).inc(0, 0, 0.5), throwsCode("BAD_ARGUMENT", /a whole number/));
  assert.throws(() => thread.getTableOrDie(2, LONGS).inc(0, 0, 1 as unknown as bigint), throwsCode("BAD_ARGUMENT", /a bigint/));
  using row = await cluster.run(Promise.resolve(table.get(0)));
  assert.deepEqual([...row.toArray()], [0, 0, 0, 0]);
  assert.throws(() => row.get(4), throwsCode("OUT_OF_RANGE", /columns 0 to 3/));
  row.release();
  for (const use of [() => row.get(0), () => row.toArray(), () => row.release()]) assert.throws(use, throwsCode("CLOSED", /was released/));
  await cluster.shutDown();
});

test("text, flags, null and lists are neither columns nor updates, of any row type: they are refused, and change nothing", async () => {
  const tables = [0, 1, 2, 3, 4, 5, 6, 7].map((rowType) => ({ rowType }));
  const cluster = await TableCluster.start({ processes: 1, tables });
  const thread = cluster.thread(0);
  const wrong: readonly unknown[] = [Symbol.iterator, "1", "", true, false, null, undefined, [2], {}, new Date(1)];
  for (const [id, type] of [FLOATS, INTEGERS, DOUBLES, LONGS, SPARSE, SORTED, FEATURES, PRODUCTS].entries()) {
    const table = thread.getTableOrDie<TableRowType>(id);
    const one = type.element === "i64" ? 1n : 1;
    const before = await wordsOf(cluster, table);
    for (const cached of [0, 7])
      for (const value of [...wrong, type.element === "i64" ? 1 : 1n] as never[]) {
        const told = (use: () => void): void => assert.throws(use, throwsCode("BAD_ARGUMENT"), `${type.name}: ${showValue(value)}`);
        told(() => table.inc(cached, 1, value));
        told(() => table.batchInc(cached, new UpdateBatch<never>().update(1, one as never).update(1, value)));
        told(() => table.denseBatchInc(cached, new DenseUpdateBatch(0, [one, value] as never)));
        told(() => table.threadInc(cached, 1, value));
        told(() => table.threadBatchInc(cached, new UpdateBatch<never>().update(1, one as never).update(1, value)));
        told(() => table.threadDenseBatchInc(cached, new DenseUpdateBatch(0, [one, value] as never)));
        if (value === 1) continue; // a column and a row
        const columnToo = (use: () => void): void => assert.throws(use, throwsCode("OUT_OF_RANGE", /no column/), showValue(value));
        columnToo(() => table.inc(cached, value, one as never));
        columnToo(() => table.batchInc(cached, new UpdateBatch<never>().update(1, one as never).update(value, one as never)));
        columnToo(() => table.threadInc(cached, value, one as never));
        columnToo(() => table.threadBatchInc(cached, new UpdateBatch<never>().update(1, one as never).update(value, one as never)));
        for (const use of [
          () => table.inc(value, 1, one as never),
          () => table.threadInc(value, 1, one as never),
          () => table.get(value),
          () => table.getAsync(value),
        ])
          assert.throws(use, throwsCode("BAD_ARGUMENT", /the id of a row/), showValue(value));
      }
    thread.clock();
    assert.deepEqual(await wordsOf(cluster, table), before, `${type.name}: here and at the server`);
  }
  await cluster.shutDown();
});

test("updates that their element cannot hold are refused, and change nothing", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ rowType: 0 }, { rowType: 1 }, { rowType: 2 }, { rowType: 3 }] });
  const thread = cluster.thread(0);
  const beyond = [[1e39, -3.5e38], [1e39, 2 ** 31, -(2 ** 31) - 1], [], [2n ** 63n, -(2n ** 63n) - 1n, 2n ** 64n]] as const;
  const within = [[3.4e38], [2 ** 31 - 1, -(2 ** 31), -0], [1e300], [2n ** 63n - 1n, -(2n ** 63n)]] as const;
  for (const [id, [refused, taken]] of beyond.map((list, i) => [list, within[i]] as const).entries()) {
    const table = thread.getTableOrDie<TableRowType>(id);
    for (const update of refused as readonly never[]) {
      const told = throwsCode("OUT_OF_RANGE", /an update of column 1 of table \d must be .*, got/);
      assert.throws(() => table.inc(0, 1, update), told);
      assert.throws(() => table.threadInc(0, 1, update), told);
      assert.throws(() => table.batchInc(0, new UpdateBatch<never>().update(1, update)), told);
      assert.throws(() => table.denseBatchInc(0, new DenseUpdateBatch(1, [update] as never)), told);
    }
    const empty = await wordsOf(cluster, table);
    assert.ok(empty.every((word) => word === 0));
    for (const [column, update] of taken!.entries()) table.inc(0, column, update as never);
    thread.clock();
    using row = await cluster.run(
      Promise.resolve(thread.getTableOrDie(id, [FLOATS, INTEGERS, DOUBLES, LONGS][id] as typeof FLOATS).get(0)),
    );
    for (const [column, update] of taken!.entries())
      assert.equal(row.get(column), id === 0 ? Math.fround(update as number) : update === 0 ? 0 : update);
  }
  await cluster.shutDown();
});

test("a column of a row is read by a whole number alone", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ rowType: 0 }, { rowType: 4 }] });
  const thread = cluster.thread(0);
  for (const [id, type] of [FLOATS, SPARSE].entries()) {
    using row = await cluster.run(Promise.resolve(thread.getTableOrDie(id, type as typeof FLOATS).get(0)));
    for (const column of ["1", "", true, null, [1], undefined] as never[])
      assert.throws(() => row.get(column), throwsCode("OUT_OF_RANGE", /no column/), showValue(column));
  }
  await cluster.shutDown();
});

test("integers wrap around, as in C++; batches of all four kinds add up, here and on the servers", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ rowType: 1 }, { rowType: 3 }, { rowType: 2 }] });
  const thread = cluster.thread(0);
  const integers = thread.getTableOrDie(0, INTEGERS);
  const longs = thread.getTableOrDie(1, LONGS);
  const doubles = thread.getTableOrDie(2, DOUBLES);
  integers.inc(0, 0, 2 ** 31 - 1);
  integers.inc(0, 0, 1);
  longs.inc(2 ** 40, 1, 2n ** 63n - 1n);
  longs.batchInc(2 ** 40, new UpdateBatch<bigint>().update(1, 2n).update(2, 7n).update(2, -3n));
  doubles.denseBatchInc(1, new DenseUpdateBatch(2, Float64Array.of(0.1, 1e300)));
  for (let clock = 0; clock < 2; clock++) {
    using one = await cluster.run(Promise.resolve(integers.get(0)));
    using two = await cluster.run(Promise.resolve(longs.get(2 ** 40)));
    using three = await cluster.run(Promise.resolve(doubles.get(1)));
    assert.equal(one.get(0), -(2 ** 31));
    assert.deepEqual([two.get(1), two.get(2)], [-(2n ** 63n) + 1n, 4n]);
    assert.ok(two.toArray() instanceof BigInt64Array);
    assert.deepEqual([three.get(2), three.get(3)], [0.1, 1e300]);
    thread.clock();
  }
  await cluster.shutDown();
});

test("with all rows of the process cache under accessors a get of another one fails, and goes on once one is released", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ processCacheCapacity: 2 }] });
  const table = cluster.thread(0).getTableOrDie(0, FLOATS);
  const [first] = await cluster.run(Promise.all([table.get(0), table.get(1)]));
  await assert.rejects(
    cluster.run(Promise.resolve(table.get(2))),
    throwsCode("QUEUE_FULL", /all 2 rows of its process cache are under accessors/),
  );
  first.release();
  (await cluster.run(Promise.resolve(table.get(2)))).release();
  await cluster.shutDown();
});

test("rows that are prefetched hold no row of the process cache: a get finds room, however many come with it", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ processCacheCapacity: 4 }] });
  const table = cluster.thread(0).getTableOrDie(0, FLOATS);
  for (let row = 0; row < 8; row++) void table.getAsync(row);
  const rows = await cluster.run(Promise.all([table.get(100), table.get(101), table.get(102), table.get(103)]));
  await cluster.run(table.waitPendingAsyncGet());
  for (const row of rows) row.release();
  for (let row = 0; row < 8; row++) (await cluster.run(Promise.resolve(table.get(row)))).release();
  await cluster.shutDown();
});

/** Rows 0 and 7 as they lie in memory, after a read of the first. */
async function wordsOf(cluster: TableCluster, table: Table<TableRowType>): Promise<readonly number[]> {
  (await cluster.run(Promise.resolve(table.get(0)))).release();
  (await cluster.run(Promise.resolve(table.get(7)))).release();
  return [0, 7].flatMap((rowId) => {
    const { cells, start, length } = table.rows.held.placeOf(table.rows.pin(rowId));
    const bytes = cells.BYTES_PER_ELEMENT;
    return [...new Uint8Array(cells.buffer, cells.byteOffset + start * bytes, length * bytes)];
  });
}

/** Two processes create a table each after the other; what the second one is told. */
async function createDifferently(configs: readonly [TableGroupConfig, TableGroupConfig], cases: readonly Different[]): Promise<void> {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  const groups = [groupOf(cluster, 0), groupOf(cluster, 1)] as const;
  for (const group of groups) for (const [i, type] of [INTEGERS, SPARSE, SORTED].entries()) group.registerRow(i + 1, type);
  await cluster.run(Promise.all(groups.map((group, rank) => group.init({ numTables: cases.length, ...configs[rank] }))));
  for (const [id, [one, other, message]] of cases.entries()) {
    await cluster.run(groups[0].createTable(id, { ...TABLE, ...one }));
    const second = cluster.run(groups[1].createTable(id, { ...TABLE, ...other }));
    if (message === undefined) await second;
    else
      await assert.rejects(
        second,
        throwsCode("SPEC_MISMATCH", new RegExp(`table ${id}: two processes create it .*\\(there and here\\): ${message}$`)),
      );
  }
}

type Different = readonly [one: Partial<TableConfig>, other: Partial<TableConfig>, message: string | undefined];

test("two processes that create a table differently are told which field differs", async () => {
  const different: readonly Different[] = [
    [{}, { rowCapacity: 5 }, "rowCapacity is 4 and 5"],
    [{ staleness: 1 }, { staleness: 2 }, "staleness is 1 and 2"],
    [{ staleness: 3 }, { staleness: Infinity }, "staleness is 3 and Infinity"],
    [{ rowType: 0 }, { rowType: 1 }, 'rowType is left out and "i32"'],
    [{ rowType: 2 }, { rowType: 3 }, "rowType.element is .*; rowType.name is .sparse.f64. and .sorted.i64."],
    [{ processCacheCapacity: 4, oplogCapacity: 2 }, { processCacheCapacity: 9 }, undefined],
  ];
  await createDifferently([{}, {}], different);
  await createDifferently([{ snapshotClock: 3 }, { snapshotClock: 3 }], different);
});

test("a process with snapshots and one without are told, and the bound apart from it", async () => {
  await createDifferently(
    [{ snapshotClock: 3 }, {}],
    [
      [{ staleness: 1 }, { staleness: 1 }, "snapshotClock of the group is given and left out"],
      [{ staleness: 0 }, { staleness: 2 }, "staleness is 0 and 2; snapshotClock of the group is given and left out"],
      [{ staleness: Infinity }, { staleness: Infinity }, undefined],
    ],
  );
});

test("a row type that throws at the server fails the next call of the table, which names it, its module and the server; the others go on", async () => {
  const fussy = customRow({
    ...{ name: "fussy", version: 1, deterministic: true, dtype: "f64" },
    apply: ({ cells, start }, column, update) => {
      if (update === 13) throw new Error("thirteen");
      cells[start + column]! += update;
    },
  });
  const plugIns = [{ module: "rows.ts", hash: "", updaters: [], rowTypes: [fussy.plugIn] }];
  const cluster = await MemoryCluster.start({ workerCount: 2, plugIns });
  const groups = [0, 1].map((rank) => new TableGroup(() => Session.open(cluster.worker(rank).node)));
  const threads = await cluster.run(
    Promise.all(
      groups.map(async (group) => {
        group.registerRow(0, fussy);
        await group.init();
        await group.createTable(0, TABLE);
        await group.createTableDone();
        return await group.registerThread();
      }),
    ),
  );
  const [table, other] = threads.map((thread) => thread.getTableOrDie(0, fussy)) as [Table<typeof fussy>, Table<typeof fussy>];
  const valuesOf = async (from: Table<typeof fussy>): Promise<number[]> => {
    using row = await cluster.run(Promise.resolve(from.get(7)));
    return [...row.toArray()];
  };
  table.inc(7, 0, 13); // the row is not cached: only the server applies it
  table.inc(7, 1, 1);
  other.inc(7, 2, 2);
  for (const thread of threads) thread.clock();
  assert.deepEqual(await valuesOf(other), [0, 0, 2, 0], "nothing of the refused update counts, and nobody waits for it");
  await cluster.clock.advance(10);
  const message = /updates of tables\/0 were refused: server 0: row type "fussy" of rows\.ts threw.*: thirteen/;
  assert.throws(() => table.get(7), throwsCode("HANDLER_FAILED", message));
  assert.deepEqual(await valuesOf(table), [0, 0, 2, 0]);
  table.inc(7, 3, 4);
  assert.throws(() => table.inc(7, 3, 13), /thirteen/, "a cached row is changed at once: the call throws, and nothing is sent");
  for (const thread of threads) thread.clock();
  for (const from of [table, other]) assert.deepEqual(await valuesOf(from), [0, 0, 2, 4]);
  await cluster.run(Promise.all([...groups.map((group) => group.shutDown()), cluster.server().finalize(), cluster.scheduler.finalize()]));
});

test("an importance that throws is told by the next call of the table, and the updates leave with their clock", async () => {
  const fussy = customRow({
    ...{ name: "fussy", version: 1, deterministic: true, dtype: "f64" },
    apply: ({ cells, start }, column, update) => {
      cells[start + column]! += update;
    },
    importance: () => {
      throw new Error("who knows");
    },
  });
  const plugIns = [{ module: "rows.ts", hash: "", updaters: [], rowTypes: [fussy.plugIn] }];
  const cluster = await MemoryCluster.start({ plugIns });
  const group = new TableGroup(() => Session.open(cluster.worker().node));
  group.registerRow(0, fussy);
  const open = async (): Promise<TableThread> => {
    await group.init({ consistencyModel: "SSPAggr", updateSortPolicy: "RelativeMagnitude" });
    await group.createTable(0, TABLE);
    await group.createTableDone();
    return await group.registerThread();
  };
  const thread = await cluster.run(open());
  const table = thread.getTableOrDie(0, fussy);
  table.inc(7, 0, 1);
  await cluster.clock.advance(100);
  assert.throws(() => table.get(7), throwsCode("HANDLER_FAILED", /tables\/0 does not say which updates matter most: .*who knows/));
  thread.clock();
  using row = await cluster.run(Promise.resolve(table.get(7)));
  assert.equal(row.get(0), 1);
  row.release();
  await cluster.run(Promise.all([group.shutDown(), cluster.server().finalize(), cluster.scheduler.finalize()]));
});

test("a refused update is no longer seen by the process that made it, also in a row that is never read again for its age", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: Infinity, rowCapacity: 2 }] });
  const [one, two] = [0, 1].map((process) => cluster.thread(process).getTableOrDie(0, FLOATS)) as [
    Table<typeof FLOATS>,
    Table<typeof FLOATS>,
  ];
  const largest = async (table: Table<typeof FLOATS>): Promise<number> => {
    using row = await cluster.run(Promise.resolve(table.get(0)));
    return row.get(0);
  };
  for (const table of [one, two]) await largest(table);
  one.inc(0, 0, 3e38);
  cluster.thread(0).clock();
  await cluster.cluster.clock.advance(10);
  two.inc(0, 0, 2e38); // with the other's it would be infinite
  cluster.thread(1).clock();
  await cluster.cluster.clock.advance(10);
  assert.throws(() => two.get(0), throwsCode("NOT_FINITE", /updates of tables\/0 were refused/));
  assert.equal(await largest(two), Math.fround(3e38));
  await cluster.shutDown();
});

test("bad fields of a configuration are refused by name", async () => {
  const cluster = await MemoryCluster.start();
  const bad: readonly [TableGroupConfig, RegExp][] = [
    [{ numTables: -1 }, /numTables/],
    [{ numLocalAppThreads: 0 }, /numLocalAppThreads/],
    [{ consistencyModel: "SPSPush" as "SSP" }, /consistencyModel is one of SSP, SSPPush, SSPAggr, .*did you mean/],
    [{ aggressiveClock: 1 as unknown as boolean }, /aggressiveClock is true or false/],
    [{ snapshotClock: 0 }, /snapshotClock/],
    [{ bandwidthMbps: 0 }, /bandwidthMbps/],
    [{ updateSortPolicy: "LIFO" as "FIFO" }, /updateSortPolicy/],
    [{ numTabels: 1 } as TableGroupConfig, /did you mean numTables/],
  ];
  for (const [config, message] of bad) await assert.rejects(groupOf(cluster).init(config), throwsCode("BAD_ARGUMENT", message));
  const group = groupOf(cluster);
  await cluster.run(group.init());
  for (const field of [
    { staleness: -1 },
    { rowCapacity: 0 },
    { processCacheCapacity: 1.5 },
    { oplogCapacity: 0 },
    { rowOplogType: 3 },
    { threadCacheCapacity: 0 },
  ])
    await assert.rejects(group.createTable(0, { ...TABLE, ...field }), throwsCode("BAD_ARGUMENT", new RegExp(Object.keys(field)[0]!)));
});
