// Goal: servers leave in order while a guest is frozen, as one whose event loop is busy: no call of it fails, and what
// was acknowledged counts once. docs/decisions/0073.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { forSeeds } from "./seeds.ts";

const DEADLINE = { timeoutMs: 60_000 };
const FROZEN_MS = 1000;
/** Longer than a server waits (Retirement.R2). */
const LONG_MS = 9000;
const KEYS = Array.from({ length: 48 }, (_, i) => i * 97);
const SPEC = { dim: 1, consistency: "asp", optimizer: { type: "sum" } } as const;

/** 3 servers, whose processes end when they are retired. */
async function started(seed: number, { replicas, frozenMs }: Ice): Promise<SimCluster> {
  const cluster = new SimCluster({
    ...{ seed, serverCount: 3, workerCount: 1, replicas, settle: SETTLING, placement: "ring" },
    ...{ heartbeatIntervalMs: 50, heartbeatTimeoutMs: 2 * frozenMs, network: { latencyMsMin: 0, latencyMsMax: seed % 4 } },
  });
  await cluster.start();
  const roles = replicas === 1 ? (["server"] as const) : (["server", "standby"] as const);
  for (const role of roles)
    for (const rank of [0, 1, 2])
      cluster
        .office(idOf(role, rank))
        .finalize()
        .catch(() => {}); // the job's end
  return cluster;
}

async function scaleTo(cluster: SimCluster, to: number): Promise<void> {
  const { node } = cluster.scheduler;
  assert.ok(node instanceof SchedulerNode);
  const { scaling } = node.scheduler;
  const end = await scaling.request({ to }).then((number) => scaling.ended(number));
  assert.equal(end.outcome, "done", end.reason);
}

/** Pushes and pulls until `isOver`; what fails is kept. */
async function work(cluster: SimCluster, session: Session, isOver: () => boolean, failures: string[]): Promise<number> {
  const rows = await session.embedding("rows", { ...SPEC, ...DEADLINE });
  let acknowledged = 0;
  const failed =
    (what: string) =>
    (thrown: unknown): void =>
      void failures.push(`${what}: ${String(thrown)}`);
  while (!isOver()) {
    const pushed = rows.push(KEYS, new Float32Array(KEYS.length).fill(1), DEADLINE).then(() => acknowledged++, failed("push"));
    const before = acknowledged;
    const pulled = rows.pull(KEYS, DEADLINE).then((sums) => {
      if (sums.some((sum) => sum < before)) failures.push(`a read behind ${before} updates saw ${Math.min(...sums)}`);
    }, failed("pull"));
    await Promise.all([pushed, pulled]);
    await new Promise<void>((go) => cluster.clock.after(1 + cluster.random.below(20), go));
  }
  return acknowledged;
}

type Ice = { readonly replicas: number; readonly frozenMs: number };

/** Guest 0 is frozen for so long in each of two changes. Returns what failed. */
async function frozen(seed: number, { replicas, frozenMs }: Ice): Promise<readonly string[]> {
  const cluster = await started(seed, { replicas, frozenMs });
  const worker = await cluster.run(Session.open(cluster.worker(0).node, DEADLINE));
  const rows = await cluster.run(worker.embedding("rows", { ...SPEC, ...DEADLINE }));
  const guests = await cluster.run(Promise.all(["guest-0", "guest-1"].map((host) => cluster.startGuest(host))));
  const sessions = await cluster.run(Promise.all(guests.map((guest) => Session.open(guest, DEADLINE))));
  const failures: string[] = [];
  let isOver = false;
  const working = Promise.all([worker, ...sessions].map((session) => work(cluster, session, () => isOver, failures)));
  for (const to of [2, 1]) {
    await cluster.clock.advance(cluster.random.below(60));
    const scaled = scaleTo(cluster, to);
    await cluster.clock.advance(cluster.random.below(120));
    cluster.network.isolate("guest-0");
    cluster.clock.after(frozenMs, () => cluster.network.heal("guest-0"));
    await cluster.run(scaled);
    await cluster.clock.advance(frozenMs);
  }
  isOver = true;
  const counts = await cluster.run(working);
  const acknowledged = counts.reduce((a, b) => a + b);
  for (const sum of await cluster.run(rows.pull(KEYS, DEADLINE)))
    assert.ok(
      sum >= acknowledged && sum <= acknowledged + failures.length,
      `${acknowledged} acknowledged, ${sum} counted; ${failures.join()}`,
    );
  for (const guest of guests) assert.equal(guest.failure, undefined);
  return failures;
}

for (const [replicas, count] of [
  [1, 8],
  [2, 2],
] as const)
  test(`3 servers become 2 and 1 while a guest is frozen for a second, with replicas ${replicas}: no call fails, and each counts once, for ${count} seeds`, async () => {
    await forSeeds({ from: 1, count }, async (seed) => assert.deepEqual(await frozen(seed, { replicas, frozenMs: FROZEN_MS }), []));
  });

test("a guest that is frozen for longer than servers wait loses no read, and of updates only those that had left, which count once at most, for 2 seeds", async () => {
  const seen = new Set<string>();
  await forSeeds({ from: 1, count: 2 }, async (seed) => {
    const failures = await frozen(seed, { replicas: 1, frozenMs: LONG_MS });
    for (const text of failures) assert.match(text, /^push: .*the update had left and may have been applied, once at most/);
    for (const text of failures) seen.add(text);
  });
  assert.ok(seen.size > 0, "servers waited after all");
});
