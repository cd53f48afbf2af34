// launch — Goal: a job's scheduler gets the default port if that is free, else any. The end of both processes of a
// server says what is lost.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { portToWish } from "../../test/support/port-to-wish.ts";
import { type JobPlan, planJob } from "../node/launcher/job-plan.ts";
import { atFreePort, bothLostText } from "./launch.ts";

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

test("when both processes of a server have ended, one line names the server, what is lost and the newest checkpoint", async () => {
  const lost = "both processes of server/0 have ended, and what it held";
  assert.equal(await bothLostText("server/0", undefined), `${lost} is lost: the job has no --checkpoint-dir`);
  const directory = mkdtempSync(join(tmpdir(), "wb-lost-"));
  assert.match(await bothLostText("server/0", directory), new RegExp(`^${lost} is lost: there is no checkpoint in .*$`));
  for (const name of ["step-000002", "step-000010"]) mkdirSync(join(directory, name));
  const newest = join(directory, "step-000010");
  assert.equal(await bothLostText("server/0", directory), `${lost} since the last checkpoint, ${newest}, is lost`);
  rmSync(directory, { recursive: true });
});
