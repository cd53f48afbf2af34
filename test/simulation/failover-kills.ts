// failover-kills — Goal: a head, a standby or the scheduler may die between any two events of a training on a server
// with a standby, and the scheduler also between any two events of a takeover. No call fails, every update counts once,
// and BSP gives the bits of a run in which nobody dies (Availability.I1 to I7 of docs/decisions/0079).

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { Session } from "../../src/api/session.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { DEADLINE, noise, SimStore, WORKERS } from "./replicated-job.ts";

const HEAD = idOf("server", 0);
const STANDBY = idOf("standby", 0);
const CLOCKS = 3;
const SIZE = 8;
/** After so many events of the training its head dies, where the scheduler is to die during the takeover. */
const HEAD_EVENTS = 60;
const RESTART_MS = 30;

export const FAILOVER_VICTIMS = ["head", "standby", "scheduler", "scheduler during a takeover"] as const;
export type FailoverVictim = (typeof FAILOVER_VICTIMS)[number];

/** What each worker read. */
type Outcome = readonly (readonly Float32Array[])[];

function newCluster(): SimCluster {
  const records: StateRecord[] = [];
  const cluster: SimCluster = new SimCluster({
    seed: 3,
    serverCount: 1,
    workerCount: WORKERS,
    replicas: 2,
    network: { latencyMsMin: 0.5, latencyMsMax: 2 },
    heartbeatIntervalMs: 50,
    heartbeatTimeoutMs: 500,
    settle: SETTLING,
    optionsOf: (node) =>
      node === SCHEDULER_ID ? { store: new SimStore(records, (written) => void cluster.clock.after(1, written)) } : { digestEntries: 20 },
  });
  return cluster;
}

async function work(session: Session): Promise<readonly Float32Array[]> {
  const { rank } = session;
  const rows = await session.embedding("rows", { dim: 1, optimizer: "sum", consistency: "asp", ...DEADLINE });
  const tensor = await session.tensor("tensor", { shape: [SIZE], consistency: "bsp", optimizer: { type: "adam" }, ...DEADLINE });
  const reads: Float32Array[] = [];
  for (let clock = 0; clock < CLOCKS; clock++) {
    const pushes = [rows.push([rank, rank], Float32Array.of(1, 1), DEADLINE), tensor.push(noise(SIZE, rank + 7 * clock), DEADLINE)];
    session.clock();
    reads.push(await rows.pull([rank], DEADLINE), await tensor.pull(DEADLINE));
    await Promise.all(pushes);
  }
  return reads;
}

/** `events`: how many pass before the victim dies. Returns whether the training was over by then, too. */
async function train(victim: FailoverVictim | undefined, events: number): Promise<{ readonly outcome: Outcome; readonly isOver: boolean }> {
  const cluster = newCluster();
  await cluster.start();
  const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
  const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node, DEADLINE))));
  let isOver = false;
  const working = Promise.all(sessions.map((session) => work(session))).finally(() => {
    isOver = true;
  });
  const pass = async (count: number): Promise<void> => {
    for (let i = 0; i < count && !isOver; i++) {
      cluster.clock.step();
      await setImmediate();
    }
  };
  if (victim === "scheduler during a takeover") {
    await pass(HEAD_EVENTS);
    cluster.kill(HEAD);
  }
  if (victim !== undefined) await pass(events);
  const wasOver = isOver;
  if (victim === "head") cluster.kill(HEAD);
  else if (victim === "standby") cluster.kill(STANDBY);
  else if (victim !== undefined) {
    cluster.kill(SCHEDULER_ID);
    cluster.clock.after(RESTART_MS, () => void cluster.startNode(SCHEDULER_ID));
  }
  const outcome = await cluster.run(working);
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
  return { outcome, isOver: wasOver };
}

/** What workers read when nobody dies. */
export async function calmTraining(): Promise<Outcome> {
  return (await train(undefined, 0)).outcome;
}

/** Returns whether the training was over before the victim died: later boundaries show nothing. */
export async function killWhileTraining(victim: FailoverVictim, events: number, expected: Outcome): Promise<boolean> {
  const { outcome, isOver } = await train(victim, events);
  assert.deepEqual(outcome, expected, `the ${victim} after ${events} events`);
  return isOver;
}
