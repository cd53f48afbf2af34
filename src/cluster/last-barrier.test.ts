// Goal: who waits at the last barrier says for which dead nodes, and only then.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { LastBarrier } from "./last-barrier.ts";

test("names the dead that it waits for after a second, and again when there are others", async () => {
  const clock = new SimClock();
  const entered = new Deferred<void>();
  const told: unknown[] = [];
  let dead: string[] = [];
  const barrier = new LastBarrier({
    clock,
    log: { ...SILENT_LOG, warn: (_, fields) => told.push(fields?.nodes) },
    dead: () => dead,
    enter: () => entered.promise,
    checkAlive: () => {},
  });
  const passed = barrier.pass({});
  await clock.advance(5000);
  assert.deepEqual(told, [], "nobody is dead: the others work");
  dead = ["worker 1"];
  await clock.advance(5000);
  assert.deepEqual(told, ["worker 1"]);
  dead = ["worker 1", "server 0"];
  await clock.advance(1000);
  assert.deepEqual(told, ["worker 1", "worker 1, server 0"]);
  entered.resolve();
  await passed;
  dead = ["worker 2"];
  await clock.advance(5000);
  assert.equal(told.length, 2, "it waits no longer");
});
