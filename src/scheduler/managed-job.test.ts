// managed-job — Goal: a scheduler that ends keeps nothing of what people asked it, no timer either.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { JournaledJob, type JournaledJobOptions } from "./managed-job.ts";

test("a scheduler that was replaced while somebody asked it ends at once: no wait of the question keeps its process", async () => {
  const clock = new SimClock();
  const journal = { location: "a disk", whenDurable: () => new Promise<void>(() => {}) };
  const surroundings = { clock, journal, scaling: {}, status: () => ({}) } as unknown as JournaledJobOptions;
  const managed = new JournaledJob(surroundings);
  const asked = [managed.status(), managed.status()];
  for (const answer of asked) answer.catch(() => {}); // looked at below
  await new Promise<void>((resolve) => void setImmediate(resolve));
  managed.close(new WeighbridgeError("FENCED", "it was replaced"));
  for (const answer of asked) await assert.rejects(answer, throwsCode("FENCED"));
  await new Promise<void>((resolve) => void setImmediate(resolve));
  assert.equal(clock.pendingCount, 0);
});
