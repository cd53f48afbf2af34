// Goal: a node of a command gives back the memory of its start once, when it is quiet, and never while it is busy.

import assert from "node:assert/strict";
import { test } from "node:test";
import { releaseStartMemory } from "./start-memory.ts";

test("a node that is quiet gives back the memory of its start, once", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let count = 0;
  const metrics = { framesReceived: 100 };
  releaseStartMemory(metrics, () => count++);
  t.mock.timers.tick(1999);
  assert.equal(count, 0);
  metrics.framesReceived += 4; // heartbeats
  t.mock.timers.tick(1);
  assert.equal(count, 1);
  t.mock.timers.tick(60_000);
  assert.equal(count, 1);
});

test("a node that is busy is not stopped for it, and is left alone when it stays busy", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let count = 0;
  const metrics = { framesReceived: 0 };
  releaseStartMemory(metrics, () => count++);
  for (let i = 0; i < 10; i++) {
    metrics.framesReceived += 1000;
    t.mock.timers.tick(2000);
  }
  assert.equal(count, 0);
  t.mock.timers.tick(60_000);
  assert.equal(count, 0);
});

test("the collection shrinks the young generation that a start has made large", async () => {
  const { getHeapSpaceStatistics } = await import("node:v8");
  const youngBytes = (): number => getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space")?.physical_space_size ?? 0;
  const kept: unknown[] = [];
  for (let i = 0; i < 400_000; i++) kept.push({ i });
  assert.equal(kept.length, 400_000);
  const before = youngBytes();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setInterval(() => youngBytes() < before / 2 && resolve(), 50);
  releaseStartMemory({ framesReceived: 0 });
  await promise;
  clearInterval(timer);
});
