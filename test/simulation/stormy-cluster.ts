// stormy-cluster — a simulated cluster whose links lose, double, swap, delay and break, by the seed: the weather that several simulations share.

import { setImmediate } from "node:timers/promises";
import type { Random } from "../../src/base/random.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";

export type StormOptions = { readonly seed: number; readonly serverCount: number; readonly workerCount: number };

/** Draws the weather from `random`, the same number of times whatever it is, and starts the cluster in it. */
export async function stormyCluster(random: Random, { seed, serverCount, workerCount }: StormOptions): Promise<SimCluster> {
  const percent = (): number => random.below(3) * 4;
  const cluster = new SimCluster({
    seed,
    serverCount,
    workerCount,
    faults: { dropPercent: percent(), duplicatePercent: percent(), reorderPercent: percent(), delayMs: 20 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + random.below(20), breakChance: random.below(3) * 0.01 },
    heartbeatTimeoutMs: 20_000,
    settle: () => setImmediate(),
  });
  await cluster.start();
  return cluster;
}
