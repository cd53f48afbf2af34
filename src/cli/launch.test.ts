// launch — Goal: a job's scheduler gets the default port if that is free, else any.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { portToWish } from "../../test/support/port-to-wish.ts";
import { type JobPlan, planJob } from "../node/launcher/job-plan.ts";
import { atFreePort } from "./launch.ts";

function planAt(schedulerPort: number): JobPlan {
  const defaults = { schedulerPort, serverCount: 1, stateDir: "none" };
  return planJob({ commandLine: { workers: 1 }, env: {}, defaults, programOf: () => ["node"] });
}

test("a job's scheduler gets the wished port if it is free, any other if it is taken", async () => {
  const wished = await portToWish();
  const free = await atFreePort(planAt, wished);
  assert.equal(free.scheduler.schedulerPort, wished);

  const other = await portToWish();
  const server = createServer().listen(other, "127.0.0.1");
  await once(server, "listening");
  const moved = await atFreePort(planAt, other);
  assert.notEqual(moved.scheduler.schedulerPort, other);
  server.close();
});
