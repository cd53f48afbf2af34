// Goal: a scheduler that reaches no node for a while, or is stopped, and comes back, hurts nobody: no server is
// replaced, no node is taken for dead or FENCED, no call fails, every push counts once, and BSP has the bits of a calm
// run.

import assert from "node:assert/strict";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { keptLog } from "./cut-links.ts";
import { noise } from "./replicated-job.ts";
import { StoppableClock } from "./stoppable-clock.ts";

const [SERVERS, WORKERS, SIZE] = [2, 2, 16] as const;
const TIMEOUT_MS = 5000;
const DEADLINE = { timeoutMs: 60_000 } as const;
/** A worker makes a step about this often, for this long. */
const STEP_MS = 150;
const STEPS = 160;

export const CUT_FAULTS = ["cut off", "cut off, links closed", "stopped, links closed"] as const;

export type CutOptions = {
  readonly replicas: 1 | 2;
  /** What the workers do meanwhile. */
  readonly work: "train" | "rest";
  /** Left out, nothing happens to the scheduler. */
  readonly fault?: (typeof CUT_FAULTS)[number];
};

/** Returns the bits of the parameter that all train under BSP, and the log of all nodes. */
export async function runCutScheduler(
  seed: number,
  { replicas, work, fault }: CutOptions,
): Promise<{ bits: Float32Array; lines: string[] }> {
  const random = new Random(seed);
  const lines: string[] = [];
  const seen: string[] = [];
  let before: readonly string[] | undefined;
  let schedulerClock: StoppableClock | undefined;
  const cluster: SimCluster = new SimCluster({
    seed,
    serverCount: SERVERS,
    workerCount: WORKERS,
    replicas,
    heartbeatIntervalMs: 1000,
    heartbeatTimeoutMs: TIMEOUT_MS,
    settle: SETTLING,
    log: keptLog(lines),
    optionsOf: (node) => {
      if (node !== SCHEDULER_ID) return { onRoster: (roster) => void (before === undefined || seen.push(...unlike(roster, before))) };
      schedulerClock = new StoppableClock(cluster.clock);
      return { clock: schedulerClock };
    },
  });
  await cluster.start();
  before = entries(cluster);
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const trained = work === "train" ? Promise.all(sessions.map((session, rank) => train(cluster, session, seed + rank))) : undefined;
  trained?.catch(() => {}); // looked at below
  await cluster.clock.advance(random.below(3000) + random.fraction());
  if (fault !== undefined) {
    const [host, isStopped] = [cluster.hostOf(SCHEDULER_ID), fault.startsWith("stopped")];
    cluster.network.isolate(host, { breakLinks: fault === "cut off, links closed" });
    if (isStopped) schedulerClock?.stop();
    await cluster.clock.advance(6000 + random.below(3000));
    if (isStopped) cluster.network.breakLinks(host);
    cluster.network.heal();
    if (isStopped) schedulerClock?.goOn();
  }
  const sums = trained === undefined ? [] : await cluster.run(trained);
  await cluster.clock.advance(3 * TIMEOUT_MS);
  assert.deepEqual(seen, [], `seed ${seed}: what rosters said of nodes that are well`);
  assert.deepEqual(entries(cluster), before, `seed ${seed}: all nodes are what they were`);
  for (const node of cluster.nodes()) assert.equal(cluster.office(node).failure, undefined, `seed ${seed}`);
  const told = lines.filter((line) => /is dead|takes over|FENCED|NODE_DEAD/.test(line));
  assert.deepEqual(told, [], `seed ${seed}`);
  for (const read of sums) assert.deepEqual(read, sums[0], `seed ${seed}: workers read the same`);
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.office(node).close())));
  return { bits: sums[0] ?? new Float32Array(0), lines };
}

type Entries = readonly { readonly node: number; readonly state: string; readonly incarnation: number }[];

function entries(cluster: SimCluster): string[] {
  return words(cluster.scheduler.roster.nodes);
}

function words(nodes: Entries): string[] {
  return nodes.map(({ node, state, incarnation }) => `${node} ${state} ${incarnation}`);
}

function unlike({ nodes }: { readonly nodes: Entries }, before: readonly string[]): string[] {
  return words(nodes).filter((entry) => !before.includes(entry));
}

/** A round of the BSP tensor and an async push each step. Returns what both workers read at the end. */
async function train(cluster: SimCluster, session: Session, seed: number): Promise<Float32Array> {
  const optimizer = { type: "adam" } as const;
  const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: { bsp: true, reduce: "mean" }, optimizer, ...DEADLINE });
  const counts = await session.embedding("counts", { dim: 1, consistency: "asp", optimizer: { type: "sum" }, ...DEADLINE });
  for (let step = 0; step < STEPS; step++) {
    await Promise.all([
      tensor.push(noise(SIZE, seed + 7 * step), DEADLINE),
      counts.push([1, 2, 3], Float32Array.of(1, 1, 1), DEADLINE),
      new Promise<void>((resolve) => void cluster.clock.after(STEP_MS, resolve)),
    ]);
    session.clock();
    await tensor.pull(DEADLINE);
  }
  await session.barrier(DEADLINE);
  assert.deepEqual([...(await counts.pull([1, 2, 3], DEADLINE))], Array(3).fill(WORKERS * STEPS), "each push counts once");
  return await tensor.pull(DEADLINE);
}
