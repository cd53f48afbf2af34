// table-program-thread — a thread of the system that runs a program drawn by seed on tables (table-programs.ts). Every
// thread has a column of its own, and knows what all others add in each clock: so each checks what it reads of all.

import { workerData } from "node:worker_threads";
import { Random } from "../../src/base/random.ts";
import { denseRow } from "../../src/faces/tables/rows/dense-row.ts";
import { DenseUpdateBatch, UpdateBatch } from "../../src/faces/tables/table.ts";
import { attachTableThread } from "../../src/node/tables-threads.ts";

export type ProgramData = {
  readonly seed: number;
  /** Of all threads of all processes, and which of them this one is. */
  readonly members: number;
  readonly member: number;
  readonly clocks: number;
  readonly rows: number;
  readonly stalenessOf: readonly number[];
};

/** What a thread adds to a row of a table in a clock: a number from 0 to 3. */
function amountOf(seed: number, member: number, table: number, row: number, clock: number): number {
  return new Random(seed * 7919 + member * 104_729 + table * 1_299_709 + row * 15_485_863 + clock).below(4);
}

const { seed, members, member, clocks, rows, stalenessOf } = workerData as ProgramData;
const integers = denseRow("i32");
const thread = await attachTableThread({ 0: integers });
const tables = stalenessOf.map((_, id) => thread.getTableOrDie(id, integers));
const random = new Random(seed * 1000 + member);
/** By table and row: what each thread has added at the clocks before an index. */
const sums = stalenessOf.map((_, table) =>
  Array.from({ length: rows }, (__, row) =>
    Array.from({ length: members }, (___, other) => {
      const prefix = [0];
      for (let clock = 0; clock < clocks; clock++) prefix.push(prefix[clock]! + amountOf(seed, other, table, row, clock));
      return prefix;
    }),
  ),
);

async function check(table: number, row: number, addedNow: number): Promise<void> {
  const clock = thread.clocks;
  const need = Math.max(0, clock - stalenessOf[table]!);
  using accessor = await tables[table]!.get(row);
  for (let other = 0; other < members; other++) {
    const seen = accessor.get(other);
    const prefix = sums[table]![row]![other]!;
    const at = `seed ${seed}, thread ${member} at clock ${clock}: table ${table}, row ${row}, column ${other} is ${seen}`;
    if (other === member) {
      if (seen !== prefix[clock]! + addedNow) throw new Error(`${at}, not ${prefix[clock]! + addedNow}`);
    } else if (seen < prefix[Math.min(need, clocks)]! || seen > prefix[clocks]!)
      throw new Error(`${at}, not from ${prefix[Math.min(need, clocks)]} to ${prefix[clocks]}`);
  }
}

for (let clock = 0; clock < clocks; clock++) {
  for (let step = 0; step < rows * tables.length; step++) {
    const [table, row] = [step % tables.length, (Math.floor(step / tables.length) + clock) % rows];
    const handle = tables[table]!;
    const amount = amountOf(seed, member, table, row, clock);
    const kind = random.below(5);
    if (random.chance(0.3)) await check(table, row, 0);
    if (kind === 0) handle.inc(row, member, amount);
    else if (kind === 1) handle.batchInc(row, new UpdateBatch().update(member, amount - 5).update(member, 5));
    else if (kind === 2) handle.denseBatchInc(row, new DenseUpdateBatch(member, Int32Array.of(amount)));
    else if (kind === 3) {
      handle.threadInc(row, member, amount);
      if (random.chance(0.5)) (await handle.threadGet(row)).release();
      if (random.chance(0.3)) await check(table, row, 0);
      handle.flushThreadCache();
    } else {
      handle.threadInc(row, member, amount);
      if (random.chance(0.5)) {
        using own = await handle.threadGet(row);
        const expected = sums[table]![row]![member]![clock]! + amount;
        if (own.get(member) !== expected)
          throw new Error(`seed ${seed}, thread ${member}: its own copy has ${own.get(member)}, not ${expected}`);
      }
      continue; // it is flushed with the clock
    }
    if (random.chance(0.5)) await check(table, row, amount);
    if (random.chance(0.05)) await handle.getAsyncForced(random.below(rows));
  }
  thread.clock();
  if (random.chance(0.1)) await new Promise((resolve) => setTimeout(resolve, random.below(4)));
}
thread.globalBarrier();
for (let table = 0; table < tables.length; table++)
  for (let row = 0; row < rows; row++) {
    using accessor = await tables[table]!.get(row);
    for (let other = 0; other < members; other++) {
      const expected = sums[table]![row]![other]![clocks]!;
      if (accessor.get(other) !== expected)
        throw new Error(
          `seed ${seed}, thread ${member}: table ${table}, row ${row}, column ${other} is ${accessor.get(other)} in the end, not ${expected}`,
        );
    }
  }
thread.deregisterThread();
