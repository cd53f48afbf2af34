// worker-groups — Goal: a group waits for workers that may come, also those beyond the count that the job began with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { idOf } from "../../wire/node-id.ts";
import { WorkerGroups } from "./worker-groups.ts";

const holderOf = (rank: number) => ({ worker: idOf("worker", rank), incarnation: 1 });

test("a group of more workers than the job began with forms once the roster tells of them, and fails when too few are left", () => {
  const outcomes: string[] = [];
  const sync = (groups: WorkerGroups, rank: number): void => {
    const waiter = { admitted: () => outcomes.push(`${rank}`), failed: ({ code }: { code: string }) => outcomes.push(`${rank} ${code}`) };
    if (groups.ssp.sync({ ...holderOf(rank), group: 1n, version: 0, timeoutMs: 1000, waiter }) === undefined) waiter.admitted();
  };
  const groups = new WorkerGroups(new SimClock(), 1);
  groups.ssp.init({ ...holderOf(0), group: 1n, size: 3, tolerance: 0 });
  assert.throws(
    () => sync(groups, 0),
    (error) => isWeighbridgeError(error, "NODE_DEAD"),
    "nobody else is known",
  );
  for (const rank of [0, 1, 2]) groups.follow(holderOf(rank), true);
  sync(groups, 0);
  assert.deepEqual(outcomes, [], "they may come yet");
  for (const rank of [1, 2]) groups.ssp.init({ ...holderOf(rank), group: 1n, size: 3, tolerance: 0 });
  assert.deepEqual(outcomes, ["0"]);

  const left = new WorkerGroups(new SimClock(), 1);
  for (const rank of [0, 1, 2]) left.follow(holderOf(rank), true);
  left.ssp.init({ ...holderOf(0), group: 1n, size: 3, tolerance: 0 });
  sync(left, 0);
  left.follow(holderOf(2), false);
  assert.deepEqual(outcomes, ["0", "0 NODE_DEAD"]);
});
