// tables-programs — programs drawn by seed, of two processes with three threads each on two tables, next to a plain
// model of what they may read.

import assert from "node:assert/strict";
import { reasonOf } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { DenseRowType } from "../../src/faces/tables/rows/dense-row.ts";
import { DenseUpdateBatch, type Table, UpdateBatch } from "../../src/faces/tables/table.ts";
import type { TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import type { TableThread } from "../../src/faces/tables/table-thread.ts";
import type { SimCluster, SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { refill } from "./refill.ts";
import { INTEGERS, TableCluster } from "./tables.ts";

const PROCESSES = 2;
const THREADS = 3;
const TABLES = 2;
const ROWS = 12;
/** A thread holds one row and waits for another one, and some are on their way: all others may be evicted. */
const CACHED_ROWS = 2 * THREADS + 2;
/** Each process has so many columns of its own. */
const OWN_COLUMNS = 2;
const COLUMNS = PROCESSES * OWN_COLUMNS;

type Added = {
  readonly process: number;
  readonly table: number;
  readonly row: number;
  readonly column: number;
  readonly amount: number;
  stamp: number;
};

/**
 * What happens to the cluster meanwhile: nothing; frames are lost, doubled and swapped; links between processes and
 * servers are cut for a while; a process is declared dead and returns; a process is killed; the head of a server with a
 * standby is killed; the same after its standby was killed and another one was filled.
 */
type Trouble = "none" | "losses" | "cuts" | "death" | "kill" | "failover" | "refill";

export type ProgramOptions = {
  readonly trouble: Trouble;
  readonly config: TableGroupConfig;
  /** Of each thread. */
  readonly operations: number;
};

/** What all threads have added, by the book. */
class Model {
  readonly added: Added[] = [];

  /** What a process has added to a column, of the clocks below `below`. */
  sum(table: number, row: number, column: number, below = Infinity): number {
    let total = 0;
    for (const one of this.added)
      if (one.table === table && one.row === row && one.column === column && one.stamp < below) total += one.amount;
    return total;
  }
}

class Program {
  readonly #thread: TableThread;
  readonly #tables: readonly Table<DenseRowType<"i32">>[];
  readonly #random: Random;
  readonly #model: Model;
  readonly #process: number;
  readonly #stalenessOf: readonly number[];
  readonly #isLoose: () => boolean;
  /** What threadInc added and nobody else sees. */
  #private: Added[] = [];
  readonly name: string;

  constructor(
    cluster: TableCluster,
    model: Model,
    at: { seed: number; process: number; thread: number; stalenessOf: readonly number[]; isLoose: () => boolean },
  ) {
    const { seed, process, thread, stalenessOf, isLoose } = at;
    this.#thread = cluster.thread(process, thread);
    this.#tables = stalenessOf.map((_, id) => this.#thread.getTableOrDie(id, INTEGERS));
    this.#random = new Random(10_000 * seed + 100 * process + thread);
    this.#model = model;
    this.#process = process;
    this.#stalenessOf = stalenessOf;
    this.#isLoose = isLoose;
    this.name = `seed ${seed}, thread ${process}.${thread}`;
  }

  get clocks(): number {
    return this.#thread.clocks;
  }

  #draw(table: number): Added {
    const row = this.#random.below(ROWS);
    const column = this.#process * OWN_COLUMNS + this.#random.below(OWN_COLUMNS);
    return { process: this.#process, table, row, column, amount: this.#random.below(7) - 2, stamp: this.#thread.clocks };
  }

  add(): void {
    const table = this.#random.below(this.#tables.length);
    const handle = this.#tables[table]!;
    const drawn = this.#draw(table);
    const { row, column, amount } = drawn;
    const kind = this.#random.below(6);
    const isPrivate = kind >= 3;
    if (kind % 3 === 0) {
      (isPrivate ? this.#private : this.#model.added).push(drawn);
      if (isPrivate) handle.threadInc(row, column, amount);
      else handle.inc(row, column, amount);
    } else if (kind % 3 === 1) {
      const again = { ...drawn, amount: 3 };
      (isPrivate ? this.#private : this.#model.added).push(drawn, again);
      const batch = new UpdateBatch().update(column, amount).update(column, 3);
      if (isPrivate) handle.threadBatchInc(row, batch);
      else handle.batchInc(row, batch);
    } else {
      const first = this.#process * OWN_COLUMNS;
      const amounts = [amount, -amount];
      for (let i = 0; i < OWN_COLUMNS; i++)
        (isPrivate ? this.#private : this.#model.added).push({ ...drawn, column: first + i, amount: amounts[i]! });
      const batch = new DenseUpdateBatch(first, Int32Array.from(amounts));
      if (isPrivate) handle.threadDenseBatchInc(row, batch);
      else handle.denseBatchInc(row, batch);
    }
  }

  flush(table: number): void {
    const flushed = this.#private.filter((one) => one.table === table);
    this.#private = this.#private.filter((one) => one.table !== table);
    for (const one of flushed) this.#model.added.push({ ...one, stamp: this.#thread.clocks });
  }

  clock(): void {
    for (let table = 0; table < this.#tables.length; table++) this.flush(table);
    this.#thread.clock();
  }

  #check(table: number, row: number, read: (column: number) => number, need: number): void {
    for (let column = 0; column < COLUMNS; column++) {
      const seen = read(column);
      const isOwn = Math.floor(column / OWN_COLUMNS) === this.#process;
      // Amounts are of both signs: what may be missing is anything from a prefix of what each thread added on.
      const bounds = isOwn ? exact(this.#model.sum(table, row, column)) : this.#range(table, row, column, need);
      assert.ok(
        seen >= bounds.least && seen <= bounds.most,
        `${this.name} at clock ${this.#thread.clocks}: table ${table}, row ${row}, column ${column} is ${seen}, not ${bounds.least} to ${bounds.most}`,
      );
    }
  }

  /** A copy of the thread's own has what this thread added to it alone, and some of what all others did. */
  #checkCopy(table: number, row: number, column: number, seen: number): void {
    let [least, most] = [0, 0];
    for (const one of this.#private) {
      if (one.table !== table || one.row !== row || one.column !== column) continue;
      least += one.amount;
      most += one.amount;
    }
    const { least: lowest, most: highest } = this.#range(table, row, column, 0);
    assert.ok(seen >= least + lowest && seen <= most + highest, `${this.name}: its copy has ${seen} in column ${column} of row ${row}`);
  }

  /** Of another process: all of the clocks before `need`, and any of the later increments. */
  #range(table: number, row: number, column: number, need: number): { least: number; most: number } {
    const from = this.#isLoose() ? 0 : this.#model.sum(table, row, column, need);
    let [least, most] = [from, from];
    for (const one of this.#model.added) {
      if (one.table !== table || one.row !== row || one.column !== column || (!this.#isLoose() && one.stamp < need)) continue;
      if (one.amount < 0) least += one.amount;
      else most += one.amount;
    }
    return { least, most };
  }

  async read(held: Disposable[]): Promise<void> {
    const table = this.#random.below(this.#tables.length);
    const row = this.#random.below(ROWS);
    const need = this.#thread.clocks - this.#stalenessOf[table]!;
    if (this.#random.chance(0.2)) {
      using copy = await this.#tables[table]!.threadGet(row);
      for (let column = 0; column < COLUMNS; column++) this.#checkCopy(table, row, column, copy.get(column));
      return;
    }
    const accessor = await this.#tables[table]!.get(row);
    this.#check(table, row, (column) => accessor.get(column), need);
    if (this.#random.chance(0.15) && held.length === 0) held.push(accessor);
    else accessor.release();
    if (this.#random.chance(0.4)) held.shift()?.[Symbol.dispose]();
  }

  async step(held: Disposable[], pause: (ms: number) => Promise<void>): Promise<void> {
    const random = this.#random;
    const table = random.below(this.#tables.length);
    const handle = this.#tables[table]!;
    const drawn = random.below(20);
    if (drawn < 10) this.add();
    else if (drawn < 15) await this.read(held);
    else if (drawn === 15) {
      handle.flushThreadCache();
      this.flush(table);
    } else if (drawn === 16) await (random.chance(0.5) ? handle.getAsync(random.below(ROWS)) : handle.getAsyncForced(random.below(ROWS)));
    else if (drawn < 19) this.clock();
    else await pause(random.below(25));
  }
}

function exact(sum: number): { least: number; most: number } {
  return { least: sum, most: sum };
}

/** Throws what does not fit the model. */
async function runPrograms(seed: number, { trouble, config, operations }: ProgramOptions): Promise<void> {
  const random = new Random(seed);
  const stalenessOf = Array.from({ length: TABLES }, (_, table) => table + random.below(4));
  const tables = stalenessOf.map((staleness) => ({
    ...{ rowType: 1, rowCapacity: COLUMNS, staleness, processCacheCapacity: CACHED_ROWS, oplogCapacity: 1 + random.below(5) },
  }));
  const faults = trouble === "losses" ? { faults: { dropPercent: 5, duplicatePercent: 5, reorderPercent: 5, delayMs: 20 } } : {};
  const sim: Partial<SimClusterOptions> = { ...faults, ...(trouble === "cuts" || trouble === "death" ? { resendTimeoutMs: 100 } : {}) };
  const isReplicated = trouble === "failover" || trouble === "refill";
  const replicas = isReplicated ? { replicas: 2 } : {};
  const servers = 1 + random.below(3);
  const cluster = await TableCluster.simulate(
    seed,
    { processes: PROCESSES, servers, threads: THREADS, tables, config },
    { ...sim, ...replicas },
  );
  const model = new Model();
  const { clock } = cluster.cluster;
  const pause = (ms: number): Promise<void> => new Promise((resolve) => clock.after(ms, resolve));
  let isLoose = false;
  let isKilled = false;
  const isKillable = trouble === "kill";
  const working = new Set(cluster.threads.flat());
  const loosen = (): void => {
    isLoose = true;
  };
  const kill = (): void => {
    if (isKilled) return;
    loosen();
    isKilled = true;
    for (const member of cluster.threads[PROCESSES - 1] ?? []) working.delete(member);
    cluster.cluster.kill(idOf("worker", PROCESSES - 1));
  };
  const struck = random.below(servers);
  const killHead = (): void => cluster.cluster.kill(idOf("server", struck));
  let isRefilling = trouble === "refill";
  const refilled = (): void => {
    isRefilling = false;
    killHead();
  };
  if (isRefilling)
    clock.after(random.below(100), () => void refill(cluster.cluster, struck).then(() => clock.after(random.below(30), refilled)));
  makeTrouble(cluster.cluster, trouble, { random, servers, loosen, kill, killHead });

  const work = async (process: number, thread: number): Promise<void> => {
    const member = cluster.thread(process, thread);
    const program = new Program(cluster, model, { seed, process, thread, stalenessOf, isLoose: () => isLoose });
    const held: Disposable[] = [];
    const isOver = (): boolean => isKilled && process === PROCESSES - 1;
    for (let step = 0; (step < operations || isRefilling) && !isOver(); step++) await program.step(held, pause);
    if (isOver()) return;
    for (const accessor of held) accessor[Symbol.dispose]();
    working.delete(member);
    for (; working.size > 0 && !isOver(); program.clock()) await pause(10); // others wait
    if (!isOver()) program.clock();
  };
  const done = cluster.threads.map(async (members, process) => {
    await Promise.all(members.map((_, thread) => work(process, thread))).catch((thrown: unknown) => {
      if (!(isKilled && process === PROCESSES - 1)) throw thrown;
    });
  });
  await cluster.run(Promise.all(isKillable ? done.slice(0, 1) : done));
  if (isKillable) kill();
  await checkEnd(cluster, model, isKilled ? [0] : [0, 1]);
  if (!isKillable && !isReplicated) await cluster.shutDown();
}

/** In the end these processes see all that each of them has added. */
async function checkEnd(cluster: TableCluster<SimCluster>, model: Model, processes: readonly number[]): Promise<void> {
  const { clock, network } = cluster.cluster;
  network.heal();
  await clock.advance(3000);
  const members = processes.flatMap((process) => cluster.threads[process] as readonly TableThread[]);
  const highest = Math.max(...members.map(({ clocks }) => clocks));
  for (const member of members) {
    while (member.clocks < highest) member.clock();
    member.globalBarrier();
  }
  await clock.advance(3000);
  for (const process of processes)
    for (let table = 0; table < TABLES; table++)
      for (let row = 0; row < ROWS; row++) {
        using accessor = await cluster.run(Promise.resolve(cluster.thread(process).getTableOrDie(table, INTEGERS).get(row)));
        for (let column = 0; column < COLUMNS; column++) {
          if (!processes.includes(Math.floor(column / OWN_COLUMNS))) continue;
          const where = `table ${table}, row ${row}, column ${column} in the end, by process ${process}`;
          assert.equal(accessor.get(column), model.sum(table, row, column), where);
        }
      }
}

type Levers = {
  readonly random: Random;
  readonly servers: number;
  /** The bounds of what others have added are off: one of them was taken for dead. */
  readonly loosen: () => void;
  readonly kill: () => void;
  readonly killHead: () => void;
};

function makeTrouble({ clock, network }: SimCluster, trouble: Trouble, { random, servers, loosen, kill, killHead }: Levers): void {
  if (trouble === "cuts")
    for (let cut = 0; cut < 3; cut++) {
      const [worker, server] = [`worker-${random.below(PROCESSES)}`, `server-${random.below(servers)}`];
      const atMs = random.below(800);
      const options = { breakLinks: random.chance(0.5), isOneWay: random.chance(0.3) };
      clock.after(atMs, () => network.partition(worker, server, options));
      clock.after(atMs + 100 + random.below(900), () => network.heal(worker, server));
    }
  const atMs = random.below(500);
  if (trouble === "death") {
    clock.after(atMs, () => {
      loosen();
      network.partition("worker-1", "scheduler", { breakLinks: random.chance(0.5) });
    });
    clock.after(atMs + 3000 + random.below(2000), () => network.heal("worker-1"));
  }
  if (trouble === "kill") clock.after(atMs, kill);
  if (trouble === "failover") clock.after(atMs, killHead);
}

/** Runs the programs of these seeds. */
export async function runProgramSeeds(from: number, count: number, options: ProgramOptions): Promise<void> {
  for (let seed = from; seed < from + count; seed++) {
    try {
      await runPrograms(seed, options);
    } catch (cause) {
      throw new Error(`seed ${seed}: ${reasonOf(cause)}`, { cause });
    }
  }
}
