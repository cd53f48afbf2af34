// Goal: whatever frames are lost, doubled or swapped, and however often links break, every push to a parameter counts
// exactly once, every worker reads its own writes, no read is staler than its bound, and BSP gives the same bits in
// every run.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import type { Changes } from "../../src/testing/change-placement.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import type { KeysAndGradients } from "../../src/worker/key-lists.ts";
import { stormyCluster } from "./stormy-cluster.ts";

const SERVERS = 2;
const WORKERS = 3;
const CLOCKS = 6;
const SIZE = 40;
const STALENESS = 2;
const DEADLINE = { timeoutMs: 240_000 };

/** What one worker did, beside what it checked. */
type Report = { readonly pushed: number; readonly bsp: Float32Array };

/**
 * What comes back with the n-th push of rows, of which nobody else knows, is what at least n pushes make: later ones if
 * its answer was lost.
 */
async function checkPushPull(own: Embedding, rows: KeysAndGradients, pushed: number, seed: number): Promise<void> {
  const values = await own.pushPull(rows, [2, 1], DEADLINE);
  const [two = 0, , one = 0] = values;
  assert.ok(two >= pushed && one >= 2 * pushed && one % 2 === 0, `seed ${seed}: ${two} and ${one} after ${pushed} pushes`);
}

/** Where parts move, a push counts although what it was to bring back has another owner. */
function unlessAnswerLost(error: unknown): void {
  if (!isWeighbridgeError(error, "ANSWER_LOST")) throw error;
}

async function work(session: Session, random: Random, seed: number): Promise<Report> {
  const shared = await session.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: { ssp: STALENESS }, ...DEADLINE });
  const own = await session.embedding(`own ${session.rank}`, { dim: 2, optimizer: "sum", ...DEADLINE });
  const ssp = await session.embedding("clocks", { dim: 1, optimizer: "sum", consistency: { ssp: STALENESS }, ...DEADLINE });
  const bsp = await session.tensor("bsp", {
    shape: [SIZE],
    consistency: { bsp: true, reduce: "mean" },
    optimizer: { type: "adam" },
    ...DEADLINE,
  });
  let pushed = 0;
  for (let clock = 0; clock < CLOCKS; clock++) {
    const pushes: Promise<unknown>[] = [];
    for (let i = random.below(4); i > 0; i--) {
      pushed++;
      const ones = new Float32Array(SIZE).fill(1);
      pushes.push(
        random.chance(0.3)
          ? shared.pushPull(ones, "all", DEADLINE).catch(unlessAnswerLost)
          : shared.push(ones, { priority: random.below(3), ...DEADLINE }),
      );
      const rows = { keys: BigUint64Array.of(1n, 2n, 1n), gradients: Float32Array.of(1, 1, 1, 1, 1, 1) };
      if (random.chance(0.5)) pushes.push(own.push(rows.keys, rows.gradients, DEADLINE));
      else pushes.push(checkPushPull(own, rows, pushed, seed).catch(unlessAnswerLost));
    }
    assert.deepEqual(
      [...(await own.pull([1, 2], { priority: 2, ...DEADLINE }))],
      [2 * pushed, 2 * pushed, pushed, pushed],
      `seed ${seed}: own rows`,
    );
    pushes.push(ssp.push([session.rank], Float32Array.of(1), DEADLINE));
    pushes.push(
      bsp.push(
        Float32Array.from({ length: SIZE }, (_, i) => Math.sin(seed + i + session.rank + clock)),
        DEADLINE,
      ),
    );
    session.clock();
    const counts = await ssp.pull(
      Array.from({ length: WORKERS }, (_, rank) => rank),
      DEADLINE,
    );
    for (const count of counts) assert.ok(count >= clock + 1 - STALENESS, `seed ${seed}: read ${count} updates at clock ${clock + 1}`);
    assert.equal(counts[session.rank], clock + 1, `seed ${seed}: own update`);
    await Promise.all(pushes);
  }
  return { pushed, bsp: await bsp.pull(DEADLINE) };
}

/** Returns what the BSP tensor came to. Throws when something was lost, counted twice, or read too early. */
export async function runParameters(seed: number, networkSeed: number = seed, changes?: Changes): Promise<Float32Array> {
  const random = new Random(networkSeed);
  const cluster = await stormyCluster(random, { seed: networkSeed, serverCount: SERVERS, workerCount: WORKERS, changes });
  const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
  const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const reports = await cluster.run(Promise.all(sessions.map((session, rank) => work(session, new Random(seed * 31 + rank), seed))));
  const [first] = sessions;
  assert.ok(first !== undefined);
  const shared = await cluster.run(first.tensor("shared", { shape: [SIZE], optimizer: "sum", consistency: { ssp: STALENESS } }));
  const expected = reports.reduce((sum, { pushed }) => sum + pushed, 0);
  assert.deepEqual(await cluster.run(shared.pull()), new Float32Array(SIZE).fill(expected), `seed ${seed}: pushes to the shared tensor`);
  const [{ bsp } = { bsp: new Float32Array(0) }] = reports;
  for (const report of reports) assert.deepEqual(report.bsp, bsp, `seed ${seed}: workers read the same round`);
  await cluster.finalize();
  return bsp;
}
