// tables-promises — what tables promise, in two processes: rank 0 runs ahead while rank 1 ends only the clocks that its
// standard input says, then both add by chance and compare what they read with a model of both. What waits is told by
// order, not by time: a later read of the same server has come, and it has not.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { denseRow, type Table, TableGroup } from "weighbridge/tables";

const consistencyModel = process.argv[2]?.split("=")[1] as "SSP" | "SSPPush";
const integers = denseRow("i32");
const group = new TableGroup();
group.registerRow(0, integers);
const rank = Math.floor((await group.init({ numTables: 7, numLocalAppThreads: 1, consistencyModel }, true)) / 1000);
/** By id. */
const [STRICT, TWO, FIVE, TEN, FREE, WIDE, SMALL] = [0, 1, 2, 3, 4, 5, 6] as const;
for (const [id, staleness] of [0, 2, 5, 10, Infinity, Infinity, 3].entries())
  await group.createTable(id, {
    ...{ rowType: 0, staleness, rowCapacity: id === WIDE ? 1000 : 2, processCacheCapacity: id === SMALL ? 2 : 8 },
  });
await group.createTableDone();
const lines = createInterface({ input: process.stdin });

type Integers = Table<typeof integers>;

function table(id: number): Integers {
  return group.getTableOrDie(id, integers);
}

function require(isTrue: boolean, what: string): void {
  if (!isTrue) throw new Error(`not so: ${what}`);
}

/** A get that need not wait. */
function cellNow(id: number): number {
  const row = table(id).get(0);
  if (row instanceof Promise) throw new Error(`table ${id} waits`);
  using held = row;
  return held.get(0);
}

async function cellOf(id: number, rowId = 0, column = 0): Promise<number> {
  using row = await table(id).get(rowId);
  return row.get(column);
}

function clockBy(count: number): void {
  for (let i = 0; i < count; i++) {
    table(STRICT).inc(0, rank, 1);
    group.clock();
  }
}

async function runAhead(): Promise<void> {
  const settled = new Set<number>();
  const waits = (id: number): Promise<unknown> => cellOf(id).finally(() => settled.add(id));
  await Promise.all([STRICT, TWO, FIVE, TEN, FREE].map((id) => cellOf(id)));
  const waiting: Promise<unknown>[] = [];
  for (let clock = 1; clock <= 11; clock++) {
    clockBy(1);
    if (clock === 1) waiting.push(waits(STRICT));
    if (clock <= 2) cellNow(TWO);
    if (clock <= 5) cellNow(FIVE); // while a get of STRICT waits
    if (clock <= 10) cellNow(TEN);
    cellNow(FREE);
    if (clock === 3) waiting.push(waits(TWO));
  }
  waiting.push(waits(TEN));
  await cellOf(FREE, 1); // from the same server, asked for later
  require(settled.size === 0, `tables ${[...settled].join(", ")} wait`);
  require(table(TEN).statistics.misses === 2, "one fetch served clocks 0 to 10"); // the second one waits
  console.log("gets of staleness 0, 2 and 10 wait at clock 11, those of Infinity do not");
  clockBy(1000);
  console.log("1000 more clocks have ended");
  await Promise.all(waiting);
  console.log("they have come");
}

async function clockAsTold(): Promise<void> {
  for (let ended = 0; ended < 1011; ) {
    const [line] = (await once(lines, "line")) as [string];
    clockBy(Number(line));
    ended += Number(line);
  }
}

async function compareIncrements(): Promise<void> {
  for (const column of [0, 1]) require((await cellOf(STRICT, 0, column)) === 1011, `column ${column} has 1011 increments`);
  console.log("all increments of 1011 clocks are there");
}

/** Each process adds to a row of its own, and looks at that of the other one. */
async function sendOnce(): Promise<void> {
  const columns = [1, 500, 999];
  const sentBytes = (): number => group.statistics.get(WIDE)!.sentBytes;
  for (let i = 0; i < 10_000; i++) table(WIDE).inc(rank, columns[i % 3]!, 1);
  group.clock();
  await cellOf(STRICT); // both have ended this clock
  console.log(`10000 increments of 3 columns took ${sentBytes()} bytes`); // a key, a count, 3 columns and 3 numbers
  for (const [i, column] of columns.entries())
    require((await cellOf(WIDE, 1 - rank, column)) === (i === 0 ? 3334 : 3333), `column ${column} has come`);
}

const [ROWS, STEPS, STEPS_OF_CLOCK] = [6, 10_000, 50];
/** Numbers that look random, the same in both processes. */
function drawn(process: number, step: number, below: number): number {
  const mixed = Math.imul(Math.imul(step * 2 + process + 1, 0x9e37_79b1) ^ Math.imul(below, 0x85eb_ca6b), 0xc2b2_ae35);
  return (mixed >>> 8) % below;
}

async function compareWithModel(): Promise<void> {
  const from = table(TEN).statistics.clocks;
  /** By process, row and clock: the sum of what it adds before that clock. */
  const sums = [0, 1].map((process) =>
    Array.from({ length: ROWS }, (_, row) => {
      const prefix = [0];
      for (let step = 0, sum = 0; step < STEPS; step++) {
        if (drawn(process, step, 4) !== 0 && drawn(process, step, ROWS) === row) sum += 1 + (step % 5);
        if ((step + 1) % STEPS_OF_CLOCK === 0) prefix.push(sum);
      }
      return prefix;
    }),
  );
  const own = new Int32Array(ROWS);
  const staleness = table(SMALL).staleness;
  for (let step = 0; step < STEPS; step++) {
    const row = drawn(rank, step, ROWS);
    if (drawn(rank, step, 4) !== 0) {
      own[row]! += 1 + (step % 5);
      table(SMALL).inc(row, rank, 1 + (step % 5));
    } else {
      using read = await table(SMALL).get(row);
      const other = sums[1 - rank]![row]!;
      const least = other[Math.max(0, table(SMALL).statistics.clocks - from - staleness)]!;
      const [mine, others] = [read.get(rank), read.get(1 - rank)];
      require(mine === own[row], `row ${row} at step ${step} has ${own[row]} of this process, and not ${mine}`);
      require(others >= least && others <= other.at(-1)!, `row ${row} at step ${step} has ${others}, at least ${least}`);
    }
    if ((step + 1) % STEPS_OF_CLOCK === 0) group.clock();
  }
  group.globalBarrier();
  for (let row = 0; row < ROWS; row++)
    for (const process of [0, 1]) {
      const [sum, expected] = [await cellOf(SMALL, row, process), sums[process]![row]!.at(-1)];
      require(sum === expected, `row ${row} has ${expected} of process ${process} in the end, and not ${sum}`);
    }
  console.log(`${STEPS} operations by chance on ${ROWS} rows, of which 2 are cached, lost nothing`);
}

await (rank === 0 ? runAhead() : clockAsTold());
await compareIncrements();
await sendOnce();
await compareWithModel();
lines.close();
process.stdin.destroy();
await group.shutDown();
