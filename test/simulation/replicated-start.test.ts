// Goal: a copy of a replicated server that dies while the job starts costs the job its standby and nothing else.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { OfficeOptions } from "../../src/testing/start-office.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { RosterEntry } from "../../src/wire/roster.ts";
import { SETTLING } from "../support/settling.ts";
import { keptLog } from "./cut-links.ts";
import { forSeeds } from "./seeds.ts";

const [HEAD, STANDBY, WORKER] = [idOf("server", 0), idOf("standby", 0), idOf("worker", 1)];
const DEADLINE = { timeoutMs: 60_000 } as const;

/** Starts a job whose `victim` is killed soon after all have registered. Its workers push to it if it starts. */
async function startAndKill(seed: number, victim: number, withinMs = 4): Promise<void> {
  const random = new Random(seed);
  let isKilled = false;
  const kept = keptLog([]);
  const log: Log = {
    ...kept,
    info: (message) => {
      if (message !== "the cluster is complete" || isKilled) return;
      isKilled = true;
      cluster.clock.after(random.fraction() * withinMs, () => {
        cluster.network.crash(cluster.hostOf(victim)); // it is no office yet
      });
    },
  };
  const heartbeats = { heartbeatIntervalMs: 100, heartbeatTimeoutMs: 500 };
  const cluster: SimCluster = new SimCluster({ seed, serverCount: 1, workerCount: 2, replicas: 2, settle: SETTLING, log, ...heartbeats });
  const starts = cluster.nodes().map((node) => ({ node, started: cluster.startNode(node) }));
  for (const { started } of starts) started.catch(() => {}); // looked at below
  const living = starts.filter(({ node }) => node !== victim);
  await cluster.run(Promise.all(living.map(({ started }) => started)));
  assert.ok(isKilled);
  const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  const tensors = await cluster.run(
    Promise.all(sessions.map((session) => session.tensor("w", { shape: [2], optimizer: "sum", consistency: "asp", ...DEADLINE }))),
  );
  await cluster.run(Promise.all(tensors.map((tensor) => tensor.push(Float32Array.of(1, 2), DEADLINE))));
  await cluster.run(Promise.all(sessions.map((session) => session.barrier(DEADLINE))));
  assert.deepEqual([...(await cluster.run(tensors[0]!.pull(DEADLINE)))], [2, 4]);
  await cluster.run(Promise.all(living.map(({ node }) => cluster.running(node)?.close())));
}

for (const [who, victim] of [
  ["head", HEAD],
  ["standby", STANDBY],
] as const)
  test(`a ${who} that dies between registering and the start of the job does not end it: a rank needs one copy`, async () => {
    await forSeeds({ from: 1, count: 12 }, async (seed) => await startAndKill(seed, victim));
  });

const COPY_DIES = "a copy that dies while others are missing is not waited for: the job starts without it, and fills the next one";

test(COPY_DIES, async () => {
  await forSeeds({ from: 1, count: 6 }, async (seed) => await killBeforeAllHaveCome(seed, seed % 2 === 0 ? HEAD : STANDBY));
});

/** Then another copy comes, and the first one is killed: its value lives on. */
async function killBeforeAllHaveCome(seed: number, victim: number): Promise<void> {
  const sizes = { serverCount: 1, workerCount: 1, replicas: 2, heartbeatIntervalMs: 100, heartbeatTimeoutMs: 500 };
  const lines: string[] = [];
  // Either may lead.
  const optionsOf = (node: number): Partial<OfficeOptions> => (node === STANDBY ? { role: "server" } : {});
  const cluster = new SimCluster({ seed, ...sizes, optionsOf, settle: SETTLING, log: keptLog(lines) });
  const { clock, network } = cluster;
  const nodes = [SCHEDULER_ID, HEAD, STANDBY];
  const started = nodes.map((node) => cluster.startNode(node));
  for (const node of started) node.catch(() => {}); // one of them is killed
  await clock.advance(100 + new Random(seed).below(200));
  network.crash(cluster.hostOf(victim)); // it is no office yet
  const atMs = clock.nowMs();
  await cluster.run(cluster.startNode(idOf("worker", 0)));
  assert.ok(clock.nowMs() - atMs < 3000, `it takes ${clock.nowMs() - atMs} ms`);
  const warnings = lines.filter((text) => text.includes("the job starts with"));
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /^warn the job starts with one copy of some servers, standby 0 is missing: start another copy/);
  await cluster.run(Promise.all(started.filter((_, index) => nodes[index] !== victim)));
  if (victim === HEAD) cluster.takenOver(0);
  const session = await cluster.run(Session.open(cluster.worker(0).node, DEADLINE));
  const tensor = await cluster.run(session.tensor("w", { shape: [2], optimizer: "sum", consistency: "asp", ...DEADLINE }));
  await cluster.run(tensor.push(Float32Array.of(1, 2), DEADLINE));
  await cluster.run(cluster.startNode(STANDBY, "another-host"));
  const standby = (): RosterEntry | undefined => cluster.worker(0).node.roster.nodes.find(({ node }) => node === STANDBY);
  while (standby()?.state !== "alive" || standby()?.isFilling === true) await clock.advance(10);
  cluster.kill(HEAD);
  assert.deepEqual([...(await cluster.run(tensor.pull(DEADLINE)))], [1, 2]);
  cluster.takenOver(0);
  await cluster.run(Promise.all([SCHEDULER_ID, HEAD, idOf("worker", 0)].map((node) => cluster.running(node)?.close())));
}

test("a worker that dies while the job starts ends it, in words that say who died and what to do", async () => {
  await assert.rejects(
    startAndKill(1, WORKER, 0),
    throwsCode(
      "NODE_DEAD",
      /^the job could not start: worker 1 died before all nodes had started; see its log, then start all nodes again$/,
    ),
  );
});
