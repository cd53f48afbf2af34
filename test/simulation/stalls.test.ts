// stalls — Goal: a machine that stands still for longer than the heartbeat timeout, with all processes of a job on it,
// costs the job nothing: no standby is given up, no link is closed, no process warns.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { StallingClock } from "../../src/testing/stalling-clock.ts";
import { SETTLING } from "../support/settling.ts";
import { keptLog } from "./cut-links.ts";
import { forSeeds } from "./seeds.ts";

const TIMES = { heartbeatIntervalMs: 100, heartbeatTimeoutMs: 500 } as const;
const DEADLINE = { timeoutMs: 60_000 } as const;
const WORKERS = [0, 1];
const STALLS = 6;
const PUSHES = 400;
/** Processes of one machine do not go on in the same moment. */
const WAKE_MS = 40;

async function trainOnMachine(seed: number): Promise<void> {
  const random = new Random(seed);
  const clocks: StallingClock[] = [];
  const lines: string[] = [];
  const cluster: SimCluster = new SimCluster({
    ...{ seed, serverCount: 1, workerCount: WORKERS.length, replicas: 2, ...TIMES, settle: SETTLING, log: keptLog(lines) },
    optionsOf: () => {
      const clock = new StallingClock(cluster.clock);
      clocks.push(clock);
      return { clock };
    },
  });
  const { clock } = cluster;
  const stall = (left: number): void => {
    const ms = TIMES.heartbeatTimeoutMs * (0.5 + 2 * random.fraction());
    for (const one of clocks) clock.after(random.fraction() * WAKE_MS, () => one.stall(ms));
    // A scheduler that is held up again within its timeout spares no silence twice (SilenceVerdicts.S5).
    if (left > 1) clock.after(TIMES.heartbeatTimeoutMs * (1 + random.fraction()), () => stall(left - 1));
  };
  clock.after(random.fraction() * 200, () => stall(STALLS)); // perhaps while it starts
  await cluster.start();
  const sessions = await cluster.run(Promise.all(WORKERS.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const spec = { dim: 1, consistency: "asp", optimizer: { type: "sum" } } as const;
  const tables = await cluster.run(Promise.all(sessions.map((session) => session.embedding("rows", { ...spec, ...DEADLINE }))));
  const pushAll = tables.map(async (table) => {
    for (let push = 0; push < PUSHES; push++) await table.push([7], Float32Array.of(1), DEADLINE);
  });
  await cluster.run(Promise.all(pushAll));
  await cluster.run(Promise.all(sessions.map((session) => session.barrier(DEADLINE))));
  assert.deepEqual([...(await cluster.run(tables[0]!.pull([7], DEADLINE)))], [WORKERS.length * PUSHES]);
  clock.after(random.fraction() * 5, () => stall(1)); // also while all leave
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.office(node).finalize(DEADLINE))));
  assert.deepEqual(
    lines.filter((line) => /^(?:warn|error) /.test(line)),
    [],
  );
}

test("a machine that stands still for longer than the heartbeat timeout loses no standby, and nobody warns, also at the end", async () => {
  await forSeeds({ from: 1, count: 16 }, trainOnMachine);
});
