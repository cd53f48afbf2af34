// busy-loop — Goal: a worker that computes for longer than the heartbeat timeout in one turn of its loop is not taken
// for dead; a process that is stopped is, as ever (tables.test.ts).

import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster } from "./cluster.ts";
import { script } from "./processes.ts";

/** Far longer than a loaded machine holds up a process that does not compute. */
const FLAGS = ["--heartbeat-interval", "200ms", "--heartbeat-timeout", "1200ms", "--log-level", "info"] as const;
const BUSY_MS = 3500;

for (const [mode, expected] of [
  ["tables", /^read 2 behind the barrier$/],
  ["model", /^round 2: 4$/],
] as const)
  test(`a worker that computes past the heartbeat timeout is waited for, and its updates are seen (${mode})`, async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 2, flags: FLAGS });
    const scheduler = cluster.scheduler();
    cluster.server(0);
    const workers = [0, 1].map((rank) => cluster.worker(rank, "busy-loop", `mode=${mode}`, `busy=${BUSY_MS}`));
    for (const worker of workers) await worker.says(expected);
    for (const worker of workers) await worker.succeeds();
    const told = scheduler.stderr.split("\n").filter((line) => /worker 1/.test(line) && /warn|error/.test(line));
    assert.equal(told.length, 2, scheduler.transcript);
    assert.match(told[0] ?? "", /the loop of a node is busy, and its process runs: it is waited for node="worker 1"/);
    assert.match(told[1] ?? "", /the loop of a node turns again node="worker 1"/);
    assert.doesNotMatch(scheduler.stderr, /is dead/, scheduler.transcript);
  });

test("while the process of a scheduler computes, also past loopTimeoutMs, its nodes wait for it: none dials again, and none is dead when it turns again", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: FLAGS });
  const host = cluster.run(process.execPath, [script("busy-host"), String(cluster.port), String(BUSY_MS)], {});
  const server = cluster.server(0);
  await host.succeeds();
  await server.succeeds();
  assert.match(host.stdout, /^pulled -?3$/m);
  assert.doesNotMatch(server.stderr, /dialing again|opening it anew|cannot be reached/, server.transcript);
  assert.match(server.stderr, /the scheduler's loop is busy, its process runs: waiting for it/, server.transcript);
  assert.doesNotMatch(host.stderr, /a node is dead/, host.transcript);
});
