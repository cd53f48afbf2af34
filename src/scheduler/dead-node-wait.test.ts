// dead-node-wait.test — Goal: nodes that are done wait for the dead as long as a node may take to start, and no shorter
// or longer.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { rankOf, roleOf, SCHEDULER_ID } from "../wire/node-id.ts";
import type { NodeState, RosterView } from "../wire/roster.ts";
import { DeadNodeWait } from "./dead-node-wait.ts";

const [SERVER, WORKER_0, WORKER_1] = [8, 9, 11] as const;

function rosterOf(states: Readonly<Record<number, NodeState>>): RosterView {
  const nodes = Object.entries(states).map(([id, state]) => {
    const node = Number(id);
    return { node, role: roleOf(node), rank: rankOf(node), state, address: "", label: "", incarnation: 1 };
  });
  return { version: 1, nodes } as RosterView;
}

function stage() {
  const clock = new SimClock();
  const errors: WeighbridgeError[] = [];
  const told: string[] = [];
  const wait = new DeadNodeWait({
    clock,
    startTimeoutMs: 1000,
    onOnlyDead: (names) => told.push(names.join()),
    dismiss: () => {},
    giveUp: (error) => errors.push(error),
  });
  return { clock, errors, told, wait };
}

const ONE_DEAD = rosterOf({ [SERVER]: "alive", [WORKER_0]: "alive", [WORKER_1]: "dead" });
const ALL_DONE = new Set([SCHEDULER_ID, SERVER, WORKER_0]);

test("ends the job, naming the dead, when all others have been done for the time of a start", async () => {
  const { clock, errors, told, wait } = stage();
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(999);
  assert.equal(errors.length, 0);
  await clock.advance(1);
  const [error] = errors as [WeighbridgeError];
  assert.match(error.message, /everybody else is done, and worker 1 died and did not come back within 1000 ms/);
  assert.equal(error.code, "NODE_DEAD");
  assert.deepEqual(told, ["worker 1"]);
});

test("as long as one of the living is not done, the scheduler among them, nobody is given up (DeadNodeWait.W1)", async () => {
  const { clock, errors, told, wait } = stage();
  for (const missing of [SCHEDULER_ID, SERVER, WORKER_0]) {
    wait.review(ONE_DEAD, new Set([...ALL_DONE].filter((node) => node !== missing)));
    await clock.advance(5000);
  }
  assert.deepEqual([errors.length, told.length], [0, 0]);
  wait.review(ONE_DEAD, ALL_DONE);
  assert.deepEqual(told, ["worker 1"], "who knows better may say so");
  await clock.advance(0);
  assert.equal(errors.length, 1, "it is dead for longer than a start takes");
});

test("who died a while ago has what is left of its time, and further news do not begin it anew", async () => {
  const { clock, errors, wait } = stage();
  wait.review(ONE_DEAD, new Set([SCHEDULER_ID]));
  await clock.advance(600);
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(300);
  wait.review(rosterOf({ [SERVER]: "dead", [WORKER_0]: "alive", [WORKER_1]: "dead" }), ALL_DONE);
  await clock.advance(99);
  assert.equal(errors.length, 0);
  await clock.advance(1);
  assert.match((errors as [WeighbridgeError])[0].message, /and worker 1 died and/, "the server may come back yet");
});

test("nobody gives up on a node that came back in time, and the next death has its whole time again", async () => {
  const { clock, errors, wait } = stage();
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(900);
  wait.review(rosterOf({ [SERVER]: "alive", [WORKER_0]: "alive", [WORKER_1]: "alive" }), ALL_DONE);
  await clock.advance(5000);
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(900);
  assert.equal(errors.length, 0);
  await clock.advance(100);
  assert.equal(errors.length, 1);
});

test("without dead nodes, and once closed, nothing ends", async () => {
  const { clock, errors, told, wait } = stage();
  wait.review(rosterOf({ [SERVER]: "alive", [WORKER_0]: "left" }), ALL_DONE);
  await clock.advance(5000);
  wait.review(ONE_DEAD, ALL_DONE);
  wait.close();
  await clock.advance(5000);
  assert.deepEqual([errors.length, told], [0, ["worker 1"]]);
});

test("a worker whose process has ended with an error is not waited for, once all others are done (DeadNodeWait.W3)", async () => {
  const { clock, errors, wait } = stage();
  wait.ended(WORKER_1, 3);
  wait.review(ONE_DEAD, new Set([SCHEDULER_ID, SERVER]));
  await clock.advance(5000);
  assert.equal(errors.length, 0, "worker 0 still works");
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(0);
  assert.match(
    errors[0]?.message ?? "",
    /^everybody else is done, and worker 1 died: its process ended with exit code 3, without session\.close\(\)$/,
  );
});

test("a worker that came back after an error is waited for again when it dies (DeadNodeWait.W3)", async () => {
  const { clock, errors, wait } = stage();
  wait.ended(WORKER_1, 3);
  wait.review(ONE_DEAD, new Set());
  wait.review(rosterOf({ [SERVER]: "alive", [WORKER_0]: "alive", [WORKER_1]: "alive" }), new Set());
  wait.review(ONE_DEAD, ALL_DONE);
  await clock.advance(999);
  assert.equal(errors.length, 0);
});
