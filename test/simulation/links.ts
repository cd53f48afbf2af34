// Goal: whatever frames are lost, doubled or swapped, and however often links break, encoded pushes count exactly once,
// key lists that are named are the ones that were meant, every worker reads its own writes, and nothing that top-k
// keeps is lost.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SERVERS = 2;
const WORKERS = 3;
const CLOCKS = 5;
const SIZE = 300;
const DEADLINE = { timeoutMs: 240_000 };
/** Long enough to be named on each of two servers. */
const LISTED = 80;
const LISTS = 3;

const SHARED = { shape: [SIZE], optimizer: "sum", link: { push: { topK: 0.1 } } } as const;
const BSP = { shape: [SIZE], consistency: "bsp", optimizer: { type: "adam" }, link: { push: "int8", pull: "bf16" } } as const;
/** Small whole numbers are exact in both. */
const ROWS = { dim: 2, optimizer: "sum", link: { push: "fp16", pull: "bf16", keyCache: true } } as const;

/** A cluster without faults. */
export function quietCluster(options: Partial<SimClusterOptions> = {}): SimCluster {
  return new SimCluster({ seed: 1, serverCount: 1, workerCount: 1, settle: SETTLING, ...options });
}

export function keyList(list: number, count: number = LISTED): BigUint64Array {
  return BigUint64Array.from({ length: count }, (_, i) => BigInt(list * 10_000 + ((i * 37) % count)));
}

async function work(session: Session, random: Random, seed: number): Promise<{ pushed: number; bsp: Float32Array }> {
  const shared = await session.tensor("shared", { ...SHARED, ...DEADLINE });
  const bsp = await session.tensor("bsp", { ...BSP, ...DEADLINE });
  const own = await session.embedding(`own ${session.rank}`, { ...ROWS, ...DEADLINE });
  const counts = new Array<number>(LISTS).fill(0);
  const ones = new Float32Array(LISTED * 2).fill(1);
  let pushed = 0;
  for (let clock = 0; clock < CLOCKS; clock++) {
    const pushes: Promise<unknown>[] = [];
    for (let i = random.below(4); i > 0; i--) {
      pushed++;
      pushes.push(shared.push(new Float32Array(SIZE).fill(1), { priority: random.below(3), ...DEADLINE }));
      const list = random.below(LISTS);
      counts[list]!++;
      pushes.push(own.push(keyList(list), ones, { priority: random.below(3), ...DEADLINE }));
    }
    for (let list = 0; list < LISTS; list++) {
      const rows = await own.pull(keyList(list), { priority: 2, ...DEADLINE });
      assert.deepEqual(rows, new Float32Array(LISTED * 2).fill(counts[list] as number), `seed ${seed}: own rows of list ${list}`);
    }
    const gradient = Float32Array.from({ length: SIZE }, (_, i) => Math.sin(seed + i + session.rank + clock));
    pushes.push(bsp.push(gradient, DEADLINE));
    session.clock();
    await Promise.all(pushes);
  }
  await shared.flushResidual(DEADLINE);
  return { pushed, bsp: await bsp.pull(DEADLINE) };
}

/** Returns what the BSP tensor came to. Throws when something was lost, counted twice, or read too early. */
export async function runLinks(seed: number, networkSeed: number = seed, changes?: Changes): Promise<Float32Array> {
  const random = new Random(networkSeed);
  const cluster = await stormyCluster(random, { seed: networkSeed, serverCount: SERVERS, workerCount: WORKERS, changes });
  const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
  const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const reports = await cluster.run(Promise.all(sessions.map((session, rank) => work(session, new Random(seed * 31 + rank), seed))));
  const [first] = sessions;
  const [report] = reports;
  assert.ok(first !== undefined && report !== undefined);
  const shared = await cluster.run(first.tensor("shared", SHARED));
  const expected = reports.reduce((sum, { pushed }) => sum + pushed, 0);
  assert.deepEqual(await cluster.run(shared.pull()), new Float32Array(SIZE).fill(expected), `seed ${seed}: pushes to the shared tensor`);
  for (const { bsp } of reports) assert.deepEqual(bsp, report.bsp, `seed ${seed}: workers read the same round`);
  await cluster.finalize();
  return report.bsp;
}
