// Goal: where more workers are allowed than the start waits for, they join a running job and leave it while BSP, SSP
// and ASP go on: every round has the updates of those who were there, every unit of an epoch is done once, and a
// scheduler that is started again knows them all. docs/decisions/0074.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { NodeOptions } from "../../src/cluster/node-options.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";

const DEADLINE = { timeoutMs: 60_000 };
const SIZE = 4;
const MAX = 5;

/** `joining`: how those who join are started. */
function rangeCluster(
  seed: number,
  { joining = {}, ...range }: { readonly most?: number | undefined; readonly joining?: Partial<NodeOptions> } = {},
): SimCluster {
  return new SimCluster({
    ...{ seed, serverCount: 2, workerCount: 2, settle: SETTLING },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500, startTimeoutMs: 3000 },
    network: { latencyMsMin: 0, latencyMsMax: 1 + (seed % 4) },
    optionsOf: (node) => {
      if (node === SCHEDULER_ID) return { workerCountMax: "most" in range ? range.most : MAX };
      return roleOf(node) === "worker" ? { rank: undefined, ...(rankOf(node) < 2 ? {} : joining) } : {};
    },
  });
}

const SPEC = { shape: [SIZE], optimizer: { type: "sum" } } as const;

/** Trains until it is told to stop, or its units are done; returns how often it pushed and which units it did. */
async function train(cluster: SimCluster, session: Session, stop: { isOver: boolean }): Promise<{ pushes: number; units: number[] }> {
  const bsp = await session.tensor("bsp", { ...SPEC, consistency: "bsp", ...DEADLINE });
  const ssp = await session.tensor("ssp", { ...SPEC, consistency: { ssp: 2 }, ...DEADLINE });
  const asp = await session.tensor("asp", { ...SPEC, consistency: "asp", ...DEADLINE });
  const units: number[] = [];
  let pushes = 0;
  const ones = new Float32Array(SIZE).fill(1);
  for await (const unit of session.units("epoch", { epoch: 0, batchCount: 120, partCount: 1, assignment: "free", ...DEADLINE })) {
    if (stop.isOver) break;
    await Promise.all([bsp.push(ones, DEADLINE), ssp.push(ones, DEADLINE), asp.push(ones, DEADLINE)]);
    pushes++;
    session.clock();
    units.push(unit.batch);
    unit.done();
    await bsp.pull(DEADLINE);
    await ssp.pull(DEADLINE);
    await new Promise<void>((go) => cluster.clock.after(5, go));
  }
  await session.leaveClocks(DEADLINE); // nobody waits for it
  return { pushes, units };
}

async function grow(seed: number): Promise<void> {
  // without a number any may come; those who join need no counts
  const cluster = rangeCluster(seed, { ...(seed % 3 === 0 ? { most: undefined } : {}), joining: { workerCount: 7, serverCount: 1 } });
  await cluster.start();
  const first = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const goOn = { isOver: false };
  const trained = first.map((session) => train(cluster, session, goOn));
  await cluster.clock.advance(60);
  const early = { isOver: false };
  const later = [2, 3, 4].map(async (rank) => {
    const office = await cluster.startNode(idOf("worker", rank));
    const session = await Session.open(office.node, DEADLINE);
    assert.equal(session.workerCount, 2);
    const outcome = await train(cluster, session, rank === 2 ? goOn : early);
    if (rank !== 2) await session.close({ barrier: false, ...DEADLINE }); // they leave; one stays
    return outcome;
  });
  await cluster.clock.advance(100);
  assert.equal(cluster.scheduler.roster.nodes.filter(({ role, state }) => role === "worker" && state === "alive").length, MAX);
  if (seed % 2 === 0) {
    cluster.kill(SCHEDULER_ID);
    await cluster.clock.advance(50);
    await cluster.run(cluster.startNode(SCHEDULER_ID));
  }
  await cluster.clock.advance(60);
  early.isOver = true;
  const outcomes = await cluster.run(Promise.all([...trained, ...later]));
  const units = outcomes.flatMap((outcome) => outcome.units);
  assert.deepEqual(
    [...new Set(units)].sort((a, b) => a - b),
    Array.from({ length: 120 }, (_, i) => i),
    "every unit was done",
  );
  const reader = first[0] as Session;
  const total = outcomes.reduce((sum, { pushes }) => sum + pushes, 0);
  const asp = await cluster.run(reader.tensor("asp", { ...SPEC, consistency: "asp", ...DEADLINE }));
  const bsp = await cluster.run(reader.tensor("bsp", { ...SPEC, consistency: "bsp", ...DEADLINE }));
  for (const tensor of [asp, bsp]) assert.equal((await cluster.run(tensor.pull(DEADLINE)))[0], total, tensor.name);
  const states = cluster.scheduler.roster.nodes.filter(({ role }) => role === "worker").map(({ rank, state }) => `${rank} ${state}`);
  assert.equal(states.filter((text) => text.endsWith("alive")).length, 3, states.join(", "));
}

test("2 workers become 5 and then 3, for 8 seeds, half of them with a scheduler that is started again", async () => {
  await forSeeds({ from: 1, count: 8 }, grow);
});

test("a worker beyond what is allowed is told so, and those that come together with the first begin with them", async () => {
  const cluster = rangeCluster(1);
  const all = [SCHEDULER_ID, ...[0, 1].map((rank) => idOf("server", rank)), ...[0, 1, 2].map((rank) => idOf("worker", rank))];
  await cluster.run(Promise.all(all.map((node) => cluster.startNode(node))));
  await cluster.run(Promise.all([3, 4].map((rank) => cluster.startNode(idOf("worker", rank)))));
  await assert.rejects(cluster.run(cluster.startNode(idOf("worker", 5))), (error: unknown) => isWeighbridgeError(error, "DEADLINE"));
});
