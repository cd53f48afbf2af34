// Goal: whatever the network does, and whenever anybody changes the consistency of a parameter, by whatever worker:
// every push counts exactly once, on every server; workers see their own async updates; nobody hangs. And changes at
// named clocks give BSP clocks the same bits in every run.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import type { Consistency } from "../../src/store/consistency.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SERVERS = 3;
const WORKERS = 3;
const CLOCKS = 10;
const SIZE = 5;
const KEYS = Array.from({ length: 12 }, (_, i) => i * 7919);
const MODES: readonly Consistency[] = ["bsp", "asp", { ssp: 1 }, { delay: 3 }];
const DEADLINE = { timeoutMs: 240_000 };

const anyMode = (random: Random): Consistency => MODES[random.below(MODES.length)] as Consistency;
const ones = (length: number): Float32Array => new Float32Array(length).fill(1);

type Models = { readonly beginnings: readonly [Consistency, Consistency]; readonly seed: number };

/** Returns how many changes there were. */
async function work(session: Session, random: Random, { beginnings, seed }: Models): Promise<number> {
  const dense = await session.tensor("dense", { shape: [SIZE], optimizer: "sum", consistency: beginnings[0], ...DEADLINE });
  const rows = await session.embedding("rows", { dim: 1, optimizer: "sum", consistency: beginnings[1], ...DEADLINE });
  let changes = 0;
  for (let clock = 0; clock < CLOCKS; clock++) {
    const calls: Promise<unknown>[] = [];
    for (const parameter of [dense, rows]) {
      if (!random.chance(0.2)) continue;
      changes++;
      const change = parameter.configure({ consistency: anyMode(random), ...(random.chance(0.3) ? { fromClock: 5 } : {}), ...DEADLINE });
      calls.push(change.then((from) => assert.ok(Number.isSafeInteger(from), `seed ${seed}: from ${from}`)));
      if (random.chance(0.5)) await change;
    }
    calls.push(dense.push(ones(SIZE), DEADLINE), rows.push(KEYS, ones(KEYS.length), DEADLINE));
    for (const count of await rows.pull(KEYS, DEADLINE)) assert.ok(count >= 0 && count <= WORKERS * CLOCKS, `seed ${seed}: read ${count}`);
    session.clock();
    if (random.chance(0.7)) await dense.pull(DEADLINE);
    await Promise.all(calls);
  }
  await session.barrier(DEADLINE);
  if (session.rank === 0) for (const parameter of [dense, rows]) await parameter.configure({ staleness: 0, ...DEADLINE });
  await session.barrier(DEADLINE);
  const total = WORKERS * CLOCKS;
  assert.deepEqual(await dense.pull(DEADLINE), new Float32Array(SIZE).fill(total), `seed ${seed}: pushes to the tensor`);
  assert.deepEqual(await rows.pull(KEYS, DEADLINE), new Float32Array(KEYS.length).fill(total), `seed ${seed}: pushes of rows`);
  return changes;
}

/** Runs what each worker does, in a cluster whose network depends on the seed alone. */
async function runAll<T>(
  seed: number,
  serverCount: number,
  job: (session: Session) => Promise<T>,
  changes?: Changes,
): Promise<readonly T[]> {
  const cluster = await stormyCluster(new Random(seed), { seed, serverCount, workerCount: WORKERS, changes });
  const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
  const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const outcomes = await cluster.run(Promise.all(sessions.map(job)));
  await cluster.finalize();
  return outcomes;
}

/** Returns how many changes there were. Throws when a push was lost or counted twice. */
export async function runModeChanges(seed: number, moves?: Changes): Promise<number> {
  const random = new Random(seed);
  const models: Models = { beginnings: [anyMode(random), anyMode(random)], seed };
  const counts = await runAll(seed, SERVERS, (session) => work(session, new Random(seed * 31 + session.rank), models), moves);
  return counts.reduce((sum, count) => sum + count, 0);
}

/**
 * BSP, from clock 4 on ASP, from clock 7 on BSP with the mean: what is read at its clocks. All workers say so, as one
 * program does.
 */
export async function runNamedChanges(
  seed: number,
  networkSeed: number,
  serverCount: number,
  moves?: Changes,
): Promise<readonly (readonly number[])[]> {
  const job = async (session: Session): Promise<number[][]> => {
    const rows = await session.embedding("rows", { dim: 1, consistency: "bsp", optimizer: { type: "adagrad" }, ...DEADLINE });
    await session.barrier(DEADLINE);
    const from = [
      await rows.configure({ consistency: "asp", fromClock: 4, ...DEADLINE }),
      await session.barrier(DEADLINE),
      await rows.configure({ consistency: { bsp: true, reduce: "mean" }, fromClock: 7, ...DEADLINE }),
    ];
    assert.deepEqual(from, [4, undefined, 7], `seed ${seed}`);
    await session.barrier(DEADLINE);
    const reads: number[][] = [];
    for (let clock = 0; clock < CLOCKS; clock++) {
      const isSync = clock < 4 || clock >= 7;
      const values = await rows.pull(KEYS, DEADLINE);
      if (isSync) reads.push([...values]);
      const gradient = KEYS.map((_, i) => Math.sin(seed + i + 3 * session.rank + clock) + (values[i] as number) / 100);
      if (isSync) await rows.push(KEYS, Float32Array.from(gradient), DEADLINE);
      session.clock();
    }
    reads.push([...(await rows.pull(KEYS, DEADLINE))]);
    return reads;
  };
  const outcomes = await runAll(networkSeed, serverCount, job, moves);
  for (const reads of outcomes) assert.deepEqual(reads, outcomes[0], `seed ${seed}: workers read the same rounds`);
  return outcomes[0] as readonly (readonly number[])[];
}
