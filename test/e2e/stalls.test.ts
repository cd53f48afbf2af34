// stalls — Goal: all processes of a job stand still for longer than the heartbeat timeout, as on a machine that is
// suspended, and go on: no standby is given up, and no process warns.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster, HEARTBEAT_TIMEOUT_MS } from "./cluster.ts";

const STALLS = 3;

test("a launched job whose machine stands still while it trains keeps its standbys, and ends without a warning of any process", async () => {
  const stop = join(temporaryDirectory("stalls"), "stop");
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--job", "stalls", "--replicas", 2] });
  const script = ["test/e2e/scripts/survivor.ts", "--until", stop];
  const launch = cluster.weighbridge(["launch", ...cluster.flags, "--log-level", "info", ...script], { isGroup: true });
  const pushed = /^\[worker\/0\] pushed \d+$/;
  for (let stalls = 0; stalls < STALLS; stalls++) {
    await launch.says(pushed, launch.count(pushed) + 2);
    launch.signalGroup("SIGSTOP");
    await sleep(1.2 * HEARTBEAT_TIMEOUT_MS);
    launch.signalGroup("SIGCONT");
  }
  await launch.says(pushed, launch.count(pushed) + 2);
  await writeFile(stop, "");
  await launch.succeeds();
  for (const line of `${launch.stdout}${launch.stderr}`.split("\n")) assert.doesNotMatch(line, / (?:warn|error) /);
});
