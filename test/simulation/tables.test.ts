// tables — Goal: tables keep Petuum's promises exactly: how fresh reads are, when they wait, that a process sees its
// own increments, and what travels.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { DenseAccessor } from "../../src/faces/tables/rows/dense-row.ts";
import { DenseUpdateBatch, type Table, UpdateBatch } from "../../src/faces/tables/table.ts";
import type { TableRowType } from "../../src/faces/tables/table-row-type.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { FLOATS, isSettled, TableCluster } from "./tables.ts";

type Floats = Table<typeof FLOATS>;

/** One column of a row, once it may be read. */
async function cellOf(table: Floats, row: number, column = 0): Promise<number> {
  using accessor = await table.get(row);
  return accessor.get(column);
}

/** Petuum's hello_ssp: every thread adds 1 to its column in every clock, and looks at everybody's. */
async function helloSsp({ processes, threads, clocks, staleness }: Readonly<Record<string, number>>): Promise<void> {
  const cluster = await TableCluster.start({
    processes: processes!,
    threads: threads!,
    tables: [{ staleness: staleness!, rowCapacity: processes! * threads! }],
  });
  const columns = processes! * threads!;
  const work = async (process: number, thread: number): Promise<void> => {
    const member = cluster.thread(process, thread);
    const table = member.getTableOrDie(0, FLOATS);
    for (let clock = 0; clock < clocks!; clock++) {
      using row = await table.get(0);
      for (let column = 0; column < columns; column++)
        assert.ok(row.get(column) >= clock - staleness!, `clock ${clock}, column ${column}: ${row.get(column)}`);
      table.inc(0, process * threads! + thread, 1);
      member.clock();
    }
    member.globalBarrier();
    using row = await table.get(0);
    assert.deepEqual(
      [...row.toArray()],
      Array.from({ length: columns }, () => clocks!),
    );
  };
  const all = cluster.threads.flatMap((members, process) => members.map((_, thread) => work(process, thread)));
  await cluster.run(Promise.all(all));
  await cluster.shutDown();
}

for (const staleness of [0, 1, 3])
  test(`hello_ssp with staleness ${staleness}: every column is at least the clock less ${staleness}, and exact after globalBarrier`, async () => {
    await helloSsp({ processes: 2, threads: 4, clocks: 2000, staleness });
  });

test("with staleness 2 and an idle peer gets at clocks 0 to 2 return at once, the one at 3 waits, and one clock of the peer frees it", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: 2 }] });
  const [busy, idle] = [cluster.thread(0), cluster.thread(1)];
  const table = busy.getTableOrDie(0, FLOATS);
  await cluster.run(cellOf(table, 0));
  for (let clock = 0; clock < 3; clock++) {
    const row = table.get(0);
    assert.ok(!(row instanceof Promise), `clock ${clock}`);
    row.release();
    busy.clock();
  }
  const waiting = Promise.resolve(table.get(0));
  const settled = isSettled(waiting);
  await cluster.cluster.clock.advance(60_000);
  assert.equal(settled(), false);
  idle.clock();
  (await cluster.run(waiting)).release();
  await cluster.shutDown();
});

test("1,000 clocks with an idle peer do not wait, and lose nothing", async () => {
  const cluster = await TableCluster.start({ processes: 2 });
  const [busy, idle] = [cluster.thread(0), cluster.thread(1)];
  const table = busy.getTableOrDie(0, FLOATS);
  for (let clock = 0; clock < 1000; clock++) {
    table.inc(0, 0, 1);
    busy.clock();
  }
  for (let clock = 0; clock < 1000; clock++) idle.clock();
  assert.equal(await cluster.run(cellOf(idle.getTableOrDie(0, FLOATS), 0)), 1000);
  await cluster.shutDown();
});

test("10,000 increments of three columns travel as one row with three columns; what cancels out does not travel", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ rowCapacity: 1000, staleness: 0 }] });
  const [session] = cluster.sessions;
  const thread = cluster.thread(0);
  const table = thread.getTableOrDie(0, FLOATS);
  session!.startRecord();
  for (let i = 0; i < 10_000; i++) table.inc(7, [1, 500, 999][i % 3]!, 1);
  thread.clock();
  assert.deepEqual(await cluster.run(Promise.all([1, 500, 999].map((column) => cellOf(table, 7, column)))), [3334, 3333, 3333]);
  const sent = session!.takeLoads().get("wb/tables/update")!.sentBytes;
  assert.ok(sent > 0 && sent < 160, `${sent} bytes: a key, a count, three columns and three numbers, with the fields of a request`);
  table.inc(7, 1, 5);
  table.inc(7, 1, -5);
  table.inc(8, 0, 0);
  thread.clock();
  await cluster.run(cellOf(table, 7));
  assert.equal(session!.takeLoads().get("wb/tables/update"), undefined);
  await cluster.shutDown();
});

test("with staleness 10 one fetch serves clocks 0 to 10", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: 10 }] });
  const thread = cluster.thread(0);
  const table = thread.getTableOrDie(0, FLOATS);
  (await cluster.run(Promise.resolve(table.get(3)))).release();
  for (let clock = 0; clock <= 10; clock++) {
    (table.get(3) as DenseAccessor<"f32">).release();
    thread.clock();
    cluster.thread(1).clock();
  }
  assert.equal(table.statistics.misses, 1);
  await cluster.cluster.clock.advance(10); // the servers have heard of all clocks
  const next = table.get(3);
  assert.ok(next instanceof Promise, "clock 11 needs more");
  (await cluster.run(next)).release();
  for (let clock = 11; clock <= 20; clock++) {
    thread.clock();
    cluster.thread(1).clock();
    (table.get(3) as DenseAccessor<"f32">).release();
  }
  assert.equal(table.statistics.misses, 2);
  await cluster.shutDown();
});

test("of two tables with staleness 0 and 5 one waits while the other serves", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: 0 }, { staleness: 5 }] });
  const thread = cluster.thread(0);
  const [strict, loose] = [thread.getTableOrDie(0, FLOATS), thread.getTableOrDie(1, FLOATS)];
  await cluster.run(Promise.all([cellOf(strict, 0), cellOf(loose, 0)]));
  thread.clock();
  const waiting = cellOf(strict, 0);
  const settled = isSettled(waiting);
  await cluster.cluster.clock.advance(1000);
  assert.equal(settled(), false);
  assert.equal(await cluster.run(cellOf(loose, 0)), 0);
  cluster.thread(1).clock();
  await cluster.run(waiting);
  await cluster.shutDown();
});

test("under SSPPush a row that was read is pushed: later gets fetch nothing, and see what others added", async () => {
  const cluster = await TableCluster.start({ processes: 2, config: { consistencyModel: "SSPPush" }, tables: [{ staleness: 1 }] });
  const [reader, writer] = [cluster.thread(0), cluster.thread(1)];
  const [read, written] = [reader.getTableOrDie(0, FLOATS), writer.getTableOrDie(0, FLOATS)];
  await cluster.run(cellOf(read, 0));
  cluster.sessions[0]!.startRecord();
  for (let clock = 0; clock < 20; clock++) {
    written.inc(0, 0, 1);
    writer.clock();
    reader.clock();
    assert.ok((await cluster.run(cellOf(read, 0))) >= clock, `clock ${clock}`);
  }
  assert.equal(cluster.sessions[0]!.takeLoads().get("wb/tables/read"), undefined);
  await cluster.shutDown();
});

test("a row that was evicted is not pushed any more", async () => {
  const cluster = await TableCluster.start({
    processes: 2,
    config: { consistencyModel: "SSPPush" },
    tables: [{ staleness: 0, rowCapacity: 1000, processCacheCapacity: 1 }],
  });
  const [reader, writer] = [cluster.thread(0), cluster.thread(1)];
  const [read, written] = [reader.getTableOrDie(0, FLOATS), writer.getTableOrDie(0, FLOATS)];
  await cluster.run(cellOf(read, 0));
  await cluster.run(cellOf(read, 1)); // takes the place of row 0
  const received = (): number => cluster.groups[0]!.statistics.get(0)!.receivedBytes;
  const clockOfAll = async (): Promise<number> => {
    const before = received();
    for (let column = 0; column < 1000; column++) written.inc(0, column, 1);
    writer.clock();
    reader.clock();
    await cluster.cluster.clock.advance(100);
    return received() - before;
  };
  const first = await clockOfAll();
  const later = await clockOfAll();
  assert.equal(first, 4000, "the row was pushed once more, and was not there");
  assert.equal(later, 0);
  await cluster.shutDown();
});

test("a process sees its own increments cached or not, by siblings at once, and those of threadInc after a flush or the end of the clock", async () => {
  const cluster = await TableCluster.start({ processes: 1, threads: 2 });
  const [one, two] = [cluster.thread(0, 0), cluster.thread(0, 1)];
  const [table, sibling] = [one.getTableOrDie(0, FLOATS), two.getTableOrDie(0, FLOATS)];
  table.inc(5, 0, 5); // not cached
  assert.equal(await cluster.run(cellOf(table, 5)), 5);
  table.inc(5, 0, 7); // cached
  assert.equal(await cluster.run(cellOf(sibling, 5)), 12);
  table.threadInc(5, 0, 100);
  assert.equal(await cluster.run(cellOf(table, 5)), 12);
  using own = await cluster.run(table.threadGet(5));
  assert.equal(own.get(0), 112);
  table.threadBatchInc(5, new UpdateBatch<number>().update(0, 1).update(1, 2));
  table.threadDenseBatchInc(5, new DenseUpdateBatch(0, Float32Array.of(1, 1)));
  assert.deepEqual([own.get(0), own.get(1)], [114, 3]);
  assert.equal(await cluster.run(cellOf(sibling, 5)), 12);
  table.flushThreadCache();
  assert.equal(await cluster.run(cellOf(sibling, 5)), 114);
  table.threadInc(6, 0, 1);
  one.clock();
  two.clock();
  assert.equal(await cluster.run(cellOf(sibling, 6)), 1);
  assert.equal(await cluster.run(cellOf(sibling, 5, 1)), 3);
  await cluster.shutDown();
});

test("shutDown sends what was never clocked", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ staleness: Infinity }] });
  cluster.thread(0).getTableOrDie(0, FLOATS).inc(3, 1, 7);
  const [first, second] = cluster.groups;
  const leaving = first!.shutDown();
  await cluster.cluster.clock.advance(1000);
  assert.equal(await cluster.run(cellOf(cluster.thread(1).getTableOrDie(0, FLOATS), 3, 1)), 7);
  const { server, scheduler } = { server: cluster.cluster.server(), scheduler: cluster.cluster.scheduler };
  await cluster.run(Promise.all([leaving, second!.shutDown(), server.finalize(), scheduler.finalize()]));
});

test("rows that are prefetched are there: gets after waitPendingAsyncGet do not wait, and 300 rows travel in few requests", async () => {
  const cluster = await TableCluster.start({ processes: 1, tables: [{ processCacheCapacity: 400 }] });
  const table = cluster.thread(0).getTableOrDie(0, FLOATS);
  const framesBefore = cluster.cluster.server().metrics.framesReceived;
  await cluster.run(
    (async () => {
      for (let row = 0; row < 300; row++) await table.getAsync(row);
      await table.waitPendingAsyncGet();
    })(),
  );
  assert.ok(cluster.cluster.server().metrics.framesReceived - framesBefore < 20);
  for (let row = 0; row < 300; row++) (table.get(row) as DenseAccessor<"f32">).release();
  assert.deepEqual(table.getAsync(0), undefined);
  await cluster.shutDown();
});

test("a thread that leaves early is not waited for, by its siblings or other processes", async () => {
  const cluster = await TableCluster.start({ processes: 2, threads: 2 });
  cluster.thread(0, 1).getTableOrDie(0, FLOATS).inc(0, 3, 9);
  cluster.thread(0, 1).deregisterThread();
  const others = [cluster.thread(0, 0), cluster.thread(1, 0), cluster.thread(1, 1)];
  const work = others.map(async (thread, column) => {
    const table = thread.getTableOrDie(0, FLOATS);
    for (let clock = 0; clock < 20; clock++) {
      using row = await table.get(0);
      assert.ok(row.get(2 - column) >= clock);
      table.inc(0, column, 1);
      thread.clock();
    }
    using row = await table.get(0);
    assert.equal(row.get(3), 9, "what it had not clocked was sent");
  });
  await cluster.run(Promise.all(work));
  cluster.thread(1, 0).deregisterThread();
  cluster.thread(1, 1).deregisterThread(); // the whole process leaves the clock set
  const last = cluster.thread(0, 0);
  for (let clock = 0; clock < 20; clock++) {
    last.clock();
    (await cluster.run(Promise.resolve(last.getTableOrDie(0, FLOATS).get(0)))).release();
  }
  await cluster.shutDown();
});

test("a process that is killed leaves the clock set: its closed connection shows it, and the others go on long before the heartbeat timeout", async () => {
  const cluster = await TableCluster.simulate(3, { processes: 3 });
  const [first, second] = [cluster.thread(0), cluster.thread(1)];
  const tables = [first, second].map((thread) => thread.getTableOrDie(0, FLOATS));
  await cluster.run(Promise.all(tables.map((table) => cellOf(table, 0))));
  const killedAt = cluster.cluster.clock.nowMs();
  cluster.cluster.kill(idOf("worker", 2));
  const work = [first, second].map(async (thread, i) => {
    for (let clock = 0; clock < 10; clock++) {
      tables[i]!.inc(0, i, 1);
      thread.clock();
      using row = await tables[i]!.get(0);
      assert.ok(row.get(1 - i) >= clock);
    }
  });
  await cluster.run(Promise.all(work));
  const pauseMs = cluster.cluster.clock.nowMs() - killedAt;
  assert.ok(pauseMs < 1200, `${pauseMs} ms: the heartbeat's timeout is 2 s`);
});

test("under SSPAggr updates leave before their clock ends, the relatively greatest first, within the bandwidth", async () => {
  const config = { consistencyModel: "SSPAggr", updateSortPolicy: "RelativeMagnitude", serverPushRowThreshold: 1 } as const;
  const tables = [{ staleness: Infinity, rowCapacity: 1000, oplogDenseSerialized: true }];
  const cluster = await TableCluster.start({ processes: 2, tables, config: { ...config, bandwidthMbps: 0.032 } });
  const [writer, reader] = cluster.threads.map(([thread]) => thread!.getTableOrDie(0, FLOATS)) as [Floats, Floats];
  for (let row = 0; row < 5; row++) writer.inc(row, 0, row + 1);
  await cluster.cluster.clock.advance(20);
  assert.equal(await cluster.run(cellOf(reader, 4)), 5, "the greatest left first");
  assert.equal(await cluster.run(cellOf(reader, 3)), 0, "4 kB take a second");
  await cluster.cluster.clock.advance(1100);
  assert.equal(await cluster.run(cellOf(writer, 3)), 4);
  const { sentBytes } = cluster.groups[0]!.statistics.get(0)!;
  assert.ok(sentBytes < 9000, `${sentBytes} bytes`);
  cluster.thread(0).clock(); // the rest leaves with the clock
  await cluster.cluster.clock.advance(10);
  assert.equal(await cluster.run(cellOf(reader, 0)), 1);
  await cluster.shutDown();
});

test("under SSPAggr updates of rows of every type leave early by relative magnitude, also of rows that are not cached", async () => {
  const config = { consistencyModel: "SSPAggr", updateSortPolicy: "RelativeMagnitude" } as const;
  const tables = Array.from({ length: 8 }, (_, rowType) => ({ rowType, staleness: Infinity, oplogCapacity: 1 }));
  const cluster = await TableCluster.start({ processes: 2, tables, config });
  const [writer, reader] = [cluster.thread(0), cluster.thread(1)];
  const two = (table: number): number => (writer.getTableOrDie<TableRowType>(table).rowType.element === "i64" ? 2n : 2) as number;
  for (let table = 0; table < 8; table++) for (let row = 0; row < 3; row++) writer.getTableOrDie(table).inc(row, 1, two(table));
  await cluster.cluster.clock.advance(100);
  for (let table = 0; table < 8; table++) {
    using row = await cluster.run(Promise.resolve(reader.getTableOrDie(table).get(2)));
    assert.equal((row as unknown as DenseAccessor).get(1), two(table), `table ${table}`);
  }
  await cluster.shutDown();
});

test("statistics tell of every table and thread what it did, how far behind rows were, and what travelled for each clock", async () => {
  const cluster = await TableCluster.start({ processes: 1, threads: 2, tables: [{ staleness: 3 }] });
  const [one, two] = [cluster.thread(0, 0), cluster.thread(0, 1)];
  const table = one.getTableOrDie(0, FLOATS);
  await cluster.run(cellOf(table, 0));
  for (let clock = 0; clock < 3; clock++) {
    table.inc(0, 0, 1);
    one.clock();
    two.clock();
    await cluster.run(cellOf(table, 0));
  }
  const { misses, hits, gets, incs, clocks, staleness } = table.statistics;
  assert.deepEqual({ misses, hits, gets, incs, clocks }, { misses: 1, hits: 3, gets: 4, incs: 3, clocks: 3 });
  assert.deepEqual(staleness.slice(0, 5), [1, 1, 1, 1, 0]);
  await cluster.shutDown();
  const [group] = cluster.groups;
  const totals = group!.statistics.get(0)!;
  assert.deepEqual([...totals.threads.keys()], [one.id, two.id]);
  assert.ok(totals.sentBytes > 0 && totals.bytesPerClock === (totals.sentBytes + totals.receivedBytes) / 3);
  assert.match(group!.statisticsText, /^table 0:\n {2}sentBytes: \d+\n.* {4}hits: 3\n.*staleness: \[1, 1, 1, 1, 0/s);
});

test("updates that could not be sent because a server was away leave with a later clock, and shutDown tells of those that never did", async () => {
  const cluster = await TableCluster.simulate(5, { processes: 2, tables: [{ staleness: Infinity }] }, { linkTimeoutMs: 500 });
  const { network, clock } = cluster.cluster;
  const [writer, reader] = [cluster.thread(0), cluster.thread(1)];
  const [written, read] = [writer.getTableOrDie(0, FLOATS), reader.getTableOrDie(0, FLOATS)];
  network.partition("worker-0", "server-0", { breakLinks: true });
  network.partition("worker-0", "scheduler", { breakLinks: true });
  await clock.advance(2500); // the process is taken for dead, and knows nobody
  for (let i = 0; i < 3; i++) {
    written.inc(7, 0, 1);
    writer.clock();
    await clock.advance(500);
  }
  network.heal();
  await clock.advance(3000);
  assert.throws(() => written.inc(7, 0, 1), throwsCode("NOT_JOINED", /taken for dead, .*others have gone on without it/));
  written.inc(7, 0, 1); // it was told so once
  writer.clock();
  await clock.advance(1000);
  assert.equal(await cluster.run(cellOf(read, 7)), 4);
  cluster.cluster.kill(idOf("server", 0));
  await clock.advance(3000); // known to be dead: what is added from now on does not leave
  written.inc(7, 0, 1);
  const leaving = cluster.groups.map((group) => group.shutDown());
  const [first] = await cluster.run(Promise.allSettled([...leaving, cluster.cluster.scheduler.finalize()]));
  const told = throwsCode("NODE_DEAD", /updates of 1 rows of tables\/0 were not sent: .*server 0/);
  await assert.rejects(Promise.reject((first as PromiseRejectedResult).reason), told);
});

test("a process that was taken for dead learns it from what servers refuse, before the scheduler has told it, and once", async () => {
  for (const { what, staleness } of [
    { what: "updates, a clock and a read", staleness: 0 },
    { what: "a clock and a read", staleness: 0 },
    { what: "updates and a clock", staleness: 100 },
    { what: "a clock", staleness: 100 },
  ]) {
    const cluster = await TableCluster.simulate(6, { processes: 2, tables: [{ staleness }] });
    const { network, clock } = cluster.cluster;
    const [out, other] = [cluster.thread(0), cluster.thread(1)];
    const [table, theirs] = [out.getTableOrDie(0, FLOATS), other.getTableOrDie(0, FLOATS)];
    await cluster.run(cellOf(table, 7));
    network.partition("worker-0", "scheduler", { breakLinks: true });
    await clock.advance(5000);
    for (let step = 0; step < 3; step++) other.clock();
    await cluster.run(cellOf(theirs, 7)); // the others have gone on
    if (what.includes("updates")) table.inc(7, 0, 1);
    out.clock();
    const told = throwsCode("NOT_JOINED", /^worker 0 was taken for dead.* others have gone on without it; it joins again once/);
    if (what.includes("read")) await assert.rejects(cluster.run(cellOf(table, 7)), told, what);
    else {
      await clock.advance(100); // a round trip
      assert.throws(() => table.inc(7, 0, 0), told, what);
    }
    network.heal();
    await clock.advance(3000);
    table.inc(7, 1, 1); // it was told so once
    for (let step = 0; step < 8; step++) out.clock();
    other.clock();
    if (staleness === 0) {
      assert.equal(await cluster.run(cellOf(theirs, 7, 1)), 1, what);
      assert.equal(await cluster.run(cellOf(theirs, 7)), what.includes("updates") ? 1 : 0, "what was refused has left again");
    }
    await cluster.shutDown();
  }
});
