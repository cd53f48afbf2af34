// stormy-cluster — a simulated cluster whose links lose, double, swap, delay and break, by the seed: the weather that
// several simulations share.

import { Random } from "../../src/base/random.ts";
import { type Changes, keepChanging } from "../../src/testing/change-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";

export type StormOptions = {
  readonly seed: number;
  readonly serverCount: number;
  readonly workerCount: number;
  /** Given, parts move from server to server all the time; counts how often. */
  readonly changes?: Changes | undefined;
};

/** Between two changes of the placement. */
const PAUSE_MS_MAX = 100;

/** Draws the weather from `random`, the same number of times whatever it is, and starts the cluster in it. */
export async function stormyCluster(random: Random, { seed, serverCount, workerCount, changes }: StormOptions): Promise<SimCluster> {
  const percent = (): number => random.below(3) * 4;
  const cluster = new SimCluster({
    seed,
    serverCount,
    workerCount,
    faults: { dropPercent: percent(), duplicatePercent: percent(), reorderPercent: percent(), delayMs: 20 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + random.below(20), breakChance: random.below(3) * 0.01 },
    heartbeatTimeoutMs: 20_000,
    settle: SETTLING,
  });
  await cluster.start();
  if (changes !== undefined) keepChanging(cluster, new Random(seed), PAUSE_MS_MAX, changes);
  return cluster;
}
