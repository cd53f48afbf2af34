// asleep — Goal: a node that neither hears nor says anything for an hour, and then goes on, is told that it was
// replaced or given up (FENCED), or is taken back: nobody hangs, and each push counts once. It was cut off, and its
// timers ran, or it was stopped, as by SIGSTOP or a lid that is closed, and all its timers are late. A scheduler may
// also lose its links, as when a firewall resets them, while no address of a node answers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { SETTLING } from "../support/settling.ts";
import { StoppableClock } from "./stoppable-clock.ts";

const HOUR_MS = 3_600_000;
/** Seldom, so that an hour has few events. */
const TIMES = { heartbeatIntervalMs: 60_000, heartbeatTimeoutMs: 200_000, linkTimeoutMs: 400_000 } as const;
const DEADLINE = { timeoutMs: 500_000 } as const;
const WORKERS = [0, 1];
const [HEAD, STANDBY, SLEEPY_WORKER] = [idOf("server", 0), idOf("standby", 0), idOf("worker", 1)];

/** A worker that was taken for dead has joined again when it is told so, and nothing was applied: it pushes again. */
async function push(table: Embedding): Promise<void> {
  const pushed = (): Promise<void> => table.push([7], Float32Array.of(1), DEADLINE);
  await pushed().catch(async (error: unknown) => {
    if (!isWeighbridgeError(error, "NOT_JOINED")) throw error;
    await pushed();
  });
}

/**
 * Who sleeps, and who is told that the job has gone on without it. A standby that its scheduler does not hear of is
 * given up; a scheduler that hears nobody gives up nobody (SilenceVerdicts.S1), nor one that was
 * stopped (SilenceVerdicts.S3).
 */
for (const [who, sleeper, fenced] of [
  ["head", HEAD, HEAD],
  ["standby", STANDBY, STANDBY],
  ["worker", SLEEPY_WORKER, undefined],
  ["scheduler", SCHEDULER_ID, undefined],
] as const)
  for (const how of ["cut off", "stopped", ...(who === "scheduler" ? (["cut off from closed links"] as const) : [])] as const) {
    test(`a ${who} that was ${how} goes on after an hour: ${fenced === undefined ? "all are taken back" : "whoever was given up is FENCED"}, and each push counts once`, async () => {
      let sleepy: StoppableClock | undefined;
      const optionsOf = (node: number) => {
        if (node !== sleeper) return {};
        sleepy = new StoppableClock(cluster.clock);
        return { clock: sleepy };
      };
      const cluster: SimCluster = new SimCluster({
        seed: 1,
        serverCount: 1,
        workerCount: 2,
        replicas: 2,
        ...TIMES,
        settle: SETTLING,
        optionsOf,
      });
      await cluster.start();
      const sessions = await cluster.run(Promise.all(WORKERS.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
      const spec = { dim: 1, consistency: "asp", optimizer: { type: "sum" } } as const;
      const tables = await cluster.run(Promise.all(sessions.map((session) => session.embedding("rows", { ...spec, ...DEADLINE }))));
      await cluster.run(Promise.all(tables.map(push)));
      cluster.network.isolate(cluster.hostOf(sleeper), { breakLinks: how === "cut off from closed links" });
      if (how === "stopped") sleepy?.stop();
      const awake = tables.filter((_, rank) => idOf("worker", rank) !== sleeper);
      await cluster.run(Promise.all(awake.map(push)));
      await cluster.clock.advance(HOUR_MS);
      cluster.network.heal();
      if (how === "stopped") sleepy?.goOn();
      await cluster.clock.advance(TIMES.heartbeatTimeoutMs);
      const failed = cluster.nodes().filter((node) => cluster.office(node).node.failure !== undefined);
      assert.deepEqual(failed, fenced === undefined ? [] : [fenced]);
      for (const node of failed) assert.equal(cluster.office(node).node.failure?.code, "FENCED");
      const { nodes } = cluster.scheduler.roster;
      const alive = nodes.filter(({ state }) => state === "alive").map(({ label }) => label);
      const expected = cluster.nodes().filter((node) => node !== SCHEDULER_ID && !failed.includes(node));
      assert.deepEqual(alive.sort(), expected.map((node) => cluster.hostOf(node)).sort());
      await cluster.run(Promise.all(tables.map(push)));
      await cluster.run(Promise.all(sessions.map((session) => session.barrier(DEADLINE))));
      for (const table of tables)
        assert.deepEqual([...(await cluster.run(table.pull([7], DEADLINE)))], [2 * WORKERS.length + awake.length]);
      await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.office(node).close())));
    });
  }
