// Goal: rows of every type through the process cache: what all threads added is there after a barrier, whatever was
// evicted in between, and a row that has no room for what is added says so, to whoever adds or reads, and never hangs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Random } from "../../src/base/random.ts";
import { DenseUpdateBatch, type Table, UpdateBatch } from "../../src/faces/tables/table.ts";
import type { TableThread } from "../../src/faces/tables/table-thread.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SentUpdates } from "../../src/worker/tables/sent-updates.ts";
import { FEATURES, PRODUCTS, SORTED, SPARSE, TableCluster } from "./tables.ts";

const ROWS = 6;
const COLUMNS = 8;
const FIRST_ID = 4;

type Tables = readonly [Table<typeof SPARSE>, Table<typeof SORTED>, Table<typeof FEATURES>, Table<typeof PRODUCTS>];

function tablesOf(member: TableThread): Tables {
  return [
    member.getTableOrDie(0, SPARSE),
    member.getTableOrDie(1, SORTED),
    member.getTableOrDie(2, FEATURES),
    member.getTableOrDie(3, PRODUCTS),
  ];
}

/** What every column has to be, by table, row and column. */
class Model {
  readonly #values = new Map<string, number>();

  add(table: number, row: number, column: number, update: number): void {
    const value = this.get(table, row, column);
    this.#values.set(`${table} ${row} ${column}`, table === 3 ? value * update : value + update);
  }

  get(table: number, row: number, column: number): number {
    return this.#values.get(`${table} ${row} ${column}`) ?? (table === 3 ? 1 : 0);
  }
}

function add(tables: Tables, model: Model, random: Random): void {
  const [table, row, column] = [random.below(4), random.below(ROWS), random.below(COLUMNS)];
  const update = table === 3 ? ([2, 0.5, -1][random.below(3)] as number) : random.below(5) - 2;
  if (table === 1) tables[1].inc(row, column, BigInt(update));
  else tables[table as 0 | 2 | 3].inc(row, column, update);
  model.add(table, row, column, update);
}

for (const staleness of [0, 2])
  test(`rows of every type have after a barrier what 4 threads of 2 processes added, with 3 of 6 rows cached and staleness ${staleness}`, async () => {
    const table = { staleness, rowCapacity: COLUMNS, processCacheCapacity: 3 };
    const tables = [0, 1, 2, 3].map((i) => ({ ...table, rowType: FIRST_ID + i }));
    const cluster = await TableCluster.start({ processes: 2, threads: 2, servers: 2, tables });
    const model = new Model();
    const work = async (member: TableThread, seed: number): Promise<void> => {
      const random = new Random(seed);
      const opened = tablesOf(member);
      for (let clock = 0; clock < 60; clock++) {
        for (let i = 0; i < 5; i++) {
          add(opened, model, random);
          using row = await opened[random.below(4) as 0].get(random.below(ROWS));
          row.get(random.below(COLUMNS));
        }
        member.clock();
      }
      member.globalBarrier();
    };
    await cluster.run(Promise.all(cluster.threads.flat().map((member, i) => work(member, 100 + i))));
    for (const member of [cluster.thread(0), cluster.thread(1, 1)]) {
      for (const [i, opened] of tablesOf(member).entries()) {
        for (let row = 0; row < ROWS; row++) {
          using accessor = await cluster.run(Promise.resolve((opened as Tables[0]).get(row)));
          for (let column = 0; column < COLUMNS; column++)
            assert.equal(Number(accessor.get(column)), model.get(i, row, column), `table ${i}, row ${row}, column ${column}`);
        }
      }
    }
    await cluster.shutDown();
  });

const FULL = throwsCode("OUT_OF_RANGE", /room for 2 columns other than 0, and not for one more: raise rowCapacity/);

const SMALL = { rowType: FIRST_ID, rowCapacity: 2 };

/** The columns of row 1 that are not 0, and their values. */
async function read(cluster: TableCluster, table: Table<typeof SPARSE>): Promise<unknown> {
  using row = await cluster.run(Promise.resolve(table.get(1)));
  return [...row];
}

test("one column more than a sparse row has room for throws where it is added, and changes neither the row nor the oplog", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [SMALL] });
  const member = cluster.thread(0);
  const table = member.getTableOrDie(0, SPARSE);
  await read(cluster, table);
  for (const column of [1, 2]) table.inc(1, column, 1);
  assert.throws(() => table.inc(1, 3, 1), FULL);
  table.inc(1, 2, 1);
  const expected = [
    [1, 1],
    [2, 2],
  ];
  assert.deepEqual(await read(cluster, table), expected);
  member.clock();
  assert.deepEqual(await read(cluster, table), expected);
  await cluster.shutDown();
});

test("a batch of which one column finds no room in a sparse row is refused whole, also in a thread's own copy", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [SMALL] });
  const member = cluster.thread(0);
  const table = member.getTableOrDie(0, SPARSE);
  await read(cluster, table);
  const batch = new UpdateBatch<number>().update(1, 1).update(2, 1).update(3, 1);
  const dense = new DenseUpdateBatch(4, Float64Array.of(1, 1, 1));
  assert.throws(() => table.batchInc(1, batch), FULL);
  assert.throws(() => table.denseBatchInc(1, dense), FULL);
  assert.throws(() => table.batchInc(2, batch), FULL, "a row that is not cached: its updates find no room");
  table.threadInc(1, 9, 1);
  assert.throws(() => table.threadBatchInc(1, batch), FULL);
  assert.throws(() => table.threadDenseBatchInc(1, dense), FULL);
  table.flushThreadCache();
  assert.deepEqual(await read(cluster, table), [[9, 1]], "nothing of any batch");
  member.clock();
  assert.deepEqual(await read(cluster, table), [[9, 1]], "nor on the server");
  await cluster.shutDown();
});

test("a row that two processes fill beyond its room is what came first, and the other process is told when it reads and when it ends", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [SMALL] });
  const [first, second] = [cluster.thread(0).getTableOrDie(0, SPARSE), cluster.thread(1).getTableOrDie(0, SPARSE)];
  for (const column of [1, 2]) first.inc(1, column, 1);
  for (const process of [0, 1]) cluster.thread(process).clock();
  for (const column of [3, 4]) second.inc(1, column, 1);
  await assert.rejects(cluster.run(Promise.resolve(second.get(1))), FULL, "its own do not fit over the row that comes");
  cluster.thread(1).clock();
  await assert.rejects(cluster.shutDown(), FULL, "the server refused them");
});

test("one column more than an oplog has room for throws where it is added, and the row does not have it", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [SMALL] });
  const member = cluster.thread(0);
  const table = member.getTableOrDie(0, SPARSE);
  for (const column of [1, 2]) table.inc(1, column, 1);
  member.clock();
  assert.deepEqual(await read(cluster, table), [
    [1, 1],
    [2, 1],
  ]);
  for (const column of [1, 2]) table.inc(1, column, -1);
  assert.throws(() => table.inc(1, 3, 1), FULL, "the row is empty by now; the oplog has -1 for two columns");
  table.inc(1, 3, 0);
  assert.deepEqual(await read(cluster, table), []);
  member.clock();
  table.inc(1, 3, 1);
  assert.deepEqual(await read(cluster, table), [[3, 1]]);
  await cluster.shutDown();
});

test("updates that do not fit in with those of another thread fail the next call, once, and the others count", async () => {
  const cluster = await TableCluster.start({ processes: 1, threads: 2, tables: [SMALL] });
  const [first, second] = [cluster.thread(0), cluster.thread(0, 1)];
  const [one, other] = [first.getTableOrDie(0, SPARSE), second.getTableOrDie(0, SPARSE)];
  for (const column of [1, 2]) one.inc(1, column, 1);
  for (const column of [3, 4]) other.inc(1, column, 1);
  other.inc(2, 5, 1);
  for (const member of [first, second]) member.clock();
  assert.throws(() => one.inc(1, 1, 1), FULL);
  assert.deepEqual(await read(cluster, one), [
    [1, 1],
    [2, 1],
  ]);
  using row = await cluster.run(Promise.resolve(other.get(2)));
  assert.deepEqual([...row], [[5, 1]], "a row that was handed over behind it");
  row.release();
  await cluster.shutDown();
});

test("what a thread added to its own copy and finds no room in the process's row for is told by the flush, and counts for nothing", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [SMALL] });
  const member = cluster.thread(0);
  const table = member.getTableOrDie(0, SPARSE);
  await read(cluster, table);
  table.threadInc(1, 3, 1);
  table.threadInc(2, 4, 1);
  for (const column of [1, 2]) table.inc(1, column, 1);
  assert.throws(() => table.flushThreadCache(), FULL);
  member.clock();
  assert.deepEqual(await read(cluster, table), [
    [1, 1],
    [2, 1],
  ]);
  using row = await cluster.run(Promise.resolve(table.get(2)));
  assert.deepEqual([...row], [[4, 1]], "another row leaves with the clock");
  row.release();
  await cluster.shutDown();
});

test("a pushed row without room for what the process added is not kept, and whoever reads it is told", async () => {
  const cluster = await TableCluster.start({ processes: 2, config: { consistencyModel: "SSPPush" }, tables: [SMALL] });
  const [first, second] = [cluster.thread(0).getTableOrDie(0, SPARSE), cluster.thread(1).getTableOrDie(0, SPARSE)];
  await read(cluster, second);
  cluster.thread(1).clock();
  for (const column of [3, 4]) second.inc(1, column, 1);
  for (const column of [1, 2]) first.inc(1, column, 1);
  cluster.thread(0).clock();
  await assert.rejects(cluster.run(Promise.resolve(second.get(1))), FULL, "it waits for the push");
  cluster.thread(1).clock();
  await assert.rejects(cluster.shutDown(), FULL, "the server refused them");
});

test("updates of two clocks that have no room in one sum leave by clock", () => {
  const sent = new SentUpdates(SPARSE);
  const length = SPARSE.elements(2);
  const spanOf = (columns: readonly number[]): { cells: Float64Array<ArrayBuffer>; start: number; length: number } => {
    const span = { cells: new Float64Array(length), start: 0, length };
    for (const column of columns) SPARSE.add(span, column, 1);
    return span;
  };
  sent.add(1, 0, spanOf([1, 2]));
  sent.add(2, 0, spanOf([1]));
  sent.add(1, 1, spanOf([3]));
  sent.add(2, 1, spanOf([2]));
  assert.deepEqual(sent.take(1, false), [
    { clock: 0, rows: new Map([[1, spanOf([1, 2]).cells]]) },
    {
      clock: 1,
      rows: new Map([
        [1, spanOf([3]).cells],
        [2, spanOf([1, 2]).cells],
      ]),
    },
  ]);
  assert.equal(sent.waitingCount, 0);
});
