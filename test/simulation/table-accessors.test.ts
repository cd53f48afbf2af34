// table-accessors — Goal: an accessor reads the row that it was got for, one consistent state of it, until it is
// released, and nothing afterwards.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import type { SparseAccessor } from "../../src/faces/tables/rows/sparse-row.ts";
import type { TableThread } from "../../src/faces/tables/table-thread.ts";
import type { RowElement } from "../../src/kernel/row-element.ts";
import { MemoryCluster } from "../../src/testing/memory-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { ProcessTable } from "../../src/worker/tables/process-table.ts";
import { TableCounters } from "../../src/worker/tables/table-statistics.ts";
import { ThreadRows } from "../../src/worker/tables/thread-rows.ts";
import { DOUBLES, FLOATS, SORTED, SPARSE, TableCluster } from "./tables.ts";

const entriesOf = <E extends RowElement>(row: SparseAccessor<E>): (readonly [number, number])[] =>
  [...row].map(([column, value]) => [column, Number(value)] as const);

test("entries of a sparse row stay where they are under an accessor, whatever siblings and servers add", async () => {
  const cluster = await TableCluster.start({ processes: 2, threads: 2, tables: [{ rowType: 4, rowCapacity: 8, staleness: 2 }] });
  const [own, sibling, other] = [cluster.thread(0), cluster.thread(0, 1), cluster.thread(1)].map((thread) =>
    thread.getTableOrDie(0, SPARSE),
  );
  own!.inc(0, 5, 1);
  own!.inc(0, 9, 2);
  const row = await cluster.run(Promise.resolve(own!.get(0)));
  const iterator = row[Symbol.iterator]();
  assert.deepEqual(iterator.next().value, [5, 1]);
  sibling!.inc(0, 1, 7); // in front of both
  sibling!.inc(0, 9, -2); // an entry less
  other!.inc(0, 0, 4);
  for (let clock = 0; clock < 3; clock++) for (const threads of cluster.threads) for (const thread of threads) thread.clock();
  const refreshed = await cluster.run(Promise.resolve(sibling!.get(0)));
  assert.deepEqual(entriesOf(refreshed), [
    [0, 4],
    [1, 7],
    [5, 1],
  ]);
  assert.deepEqual([...iterator], [[9, 2]]);
  assert.deepEqual([row.size, row.columnAt(1), row.valueAt(1), row.get(1)], [2, 9, 2, 0]);
  assert.deepEqual([...row.toArrays().columns], [5, 9]);
  row.release();
  refreshed.release();
  await cluster.shutDown();
});

test("entries of a sorted row and of a thread's own copy stay where they are under an accessor, too", async () => {
  const cluster = await TableCluster.start({ processes: 1, threads: 2, tables: [{ rowType: 5, rowCapacity: 8 }] });
  const [own, sibling] = [0, 1].map((thread) => cluster.thread(0, thread).getTableOrDie(0, SORTED));
  own!.inc(0, 5, 10n);
  own!.inc(0, 9, 20n);
  const row = await cluster.run(Promise.resolve(own!.get(0)));
  const copy = await cluster.run(own!.threadGet(0));
  sibling!.inc(0, 5, 100n);
  own!.threadInc(0, 7, 50n);
  assert.deepEqual(entriesOf(row), [
    [9, 20],
    [5, 10],
  ]);
  assert.deepEqual(entriesOf(copy), [
    [9, 20],
    [5, 10],
  ]);
  assert.deepEqual(entriesOf(own!.get(0) as SparseAccessor<"i64">), [
    [5, 110],
    [9, 20],
  ]);
  assert.deepEqual(entriesOf(await cluster.run(own!.threadGet(0))), [
    [7, 50],
    [9, 20],
    [5, 10],
  ]);
  await cluster.shutDown();
});

test("an accessor that was released throws whenever it is used again, however many others were got since", async () => {
  const cluster = await TableCluster.start({ processes: 1 });
  const thread = cluster.thread(0) as TableThread;
  const table = thread.getTableOrDie(0, FLOATS);
  table.inc(1, 0, 3);
  const released = await cluster.run(Promise.resolve(table.get(0)));
  released.release();
  for (let i = 0; i < 1000; i++) {
    using row = await cluster.run(Promise.resolve(table.get(1)));
    assert.equal(row.get(0), 3);
    assert.throws(() => released.get(0), throwsCode("CLOSED", /row 0 was released/));
  }
  assert.throws(() => released.release(), throwsCode("CLOSED", /row 0 was released/));
  assert.equal(released.isReleased, true);
  released[Symbol.dispose](); // a second time does nothing
  await cluster.shutDown();
});

test("tryGet gives what get would give at once, and nothing where get would wait", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: 1 }] });
  const [own, other] = [cluster.thread(0), cluster.thread(1)];
  const table = own.getTableOrDie(0, FLOATS);
  assert.equal(table.tryGet(7), undefined, "it was never read");
  assert.deepEqual([table.statistics.gets, table.statistics.misses], [0, 0], "a get that follows is counted");
  (await cluster.run(Promise.resolve(table.get(7)))).release();
  table.inc(7, 3, 2);
  const row = table.tryGet(7);
  assert.deepEqual([row?.get(3), row?.rowId, row?.isReleased], [2, 7, false]);
  row?.release();
  assert.throws(() => row?.get(3), throwsCode("CLOSED", /row 7 was released/));
  own.clock();
  table.tryGet(7)?.release();
  own.clock(); // the other one has not ended its first clock: two behind
  assert.equal(table.tryGet(7), undefined, "it is too old");
  other.clock();
  const fresh = await cluster.run(Promise.resolve(table.get(7)));
  assert.ok(fresh.clock >= 1);
  fresh.release();
  assert.deepEqual([table.statistics.gets, table.statistics.misses], [4, 2]);
  assert.throws(() => table.tryGet(-1), throwsCode("BAD_ARGUMENT"));
  own.deregisterThread();
  assert.throws(() => table.tryGet(7), throwsCode("CLOSED"));
  await cluster.shutDown();
});

test("a process cache reads and adds to rows of a table with a packed link, and who pulls them over the link sees the same", async () => {
  const cluster = await MemoryCluster.start({ serverCount: 2, workerCount: 1 });
  const session = await cluster.run(Session.open(cluster.worker(0).node));
  const link = { push: "packed", pull: "packed" } as const;
  const rows = await cluster.run(session.embedding("packed", { dim: 8, optimizer: "sum", dtype: "f64", consistency: { ssp: 0 }, link }));
  const sizes = { elements: 8, slotCount: 4, oplogRows: 4, staleness: 0, secret: 1 };
  const flags = { isExact: false, subscribes: false, sendsWholeRows: false, replays: true };
  const table = rows.openWith((client) => new ProcessTable({ client, updates: DOUBLES, ...sizes, ...flags }));
  const thread = new ThreadRows(table, { clock: 0 }, new TableCounters());
  await cluster.run(
    rows.push(
      [3, 4],
      Float64Array.from({ length: 16 }, (_, i) => (i === 2 ? 0.5 : 0)),
    ),
  );
  thread.inc(3, 6, 5);
  thread.handOver();
  table.updates.send(0);
  const slot = await cluster.run(table.read(3, 0));
  assert.deepEqual([...table.place.cells.slice(slot * 8, slot * 8 + 8)], [0, 0, 0.5, 0, 0, 0, 5, 0]);
  assert.deepEqual([...(await cluster.run(rows.pull([3])))], [0, 0, 0.5, 0, 0, 0, 5, 0]);
});
