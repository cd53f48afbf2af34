// scheduler-state — Goal: a scheduler that is killed and started again goes on with the job as it wrote it down, and a
// job that ends leaves nothing behind.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { readLines } from "../../src/node/state/record-lines.ts";
import { applyRecord, emptyState, type SchedulerState } from "../../src/scheduler/scheduler-state.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster } from "./cluster.ts";
import { until } from "./processes.ts";

function stateIn(directory: string): SchedulerState {
  const path = join(directory, "records");
  return readLines(readFileSync(path, "utf8"), path).records.reduce(applyRecord, emptyState());
}

suite("scheduler-state", { concurrency: 2 }, () => {
  test("a killed scheduler that is started again: the job goes on with its run, incarnations, placement and catalogue, and leaves nothing at its end", async () => {
    const root = temporaryDirectory("state");
    await using cluster = await Cluster.create({ servers: 2, workers: 2, flags: ["--job", "durable", "--state-dir", root] });
    const directory = join(root, `durable@${cluster.port}`);
    const killed = cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const workers = [cluster.worker(0, "reader"), cluster.worker(1, "reader", "--remake")];
    for (const worker of workers) await worker.says(/^reads 1 to 1$/);
    const before = stateIn(directory);
    assert.deepEqual([before.placement?.epoch, before.incarnations.size, [...before.catalogue.entries.keys()]], [1, 4, ["e"]]);
    await killed.kill();
    const scheduler = cluster.scheduler();
    await scheduler.says(/^the cluster is complete/);
    const after = stateIn(directory);
    assert.ok(after.term > before.term);
    assert.deepEqual({ ...after, term: before.term }, before);

    const second = cluster.scheduler(); // as by mistake
    await second.fails(/STATE_HELD|uses the state in|PORT_IN_USE/);

    for (const worker of workers) worker.endInput();
    for (const worker of workers) await worker.says(/^made again: reads 1 to 1$/);
    for (const node of [...workers, ...servers, scheduler]) await node.succeeds();
    for (const worker of workers) assert.equal(worker.count(/failed/), 0);
    assert.deepEqual(readdirSync(root), []);
  });

  test("a job that fails because a dead worker does not come back says whom it waits for, and leaves no state", async () => {
    const root = temporaryDirectory("state");
    const flags = ["--job", "failing", "--state-dir", root, "--heartbeat-timeout", "1500ms", "--start-timeout", "15000ms"];
    await using cluster = await Cluster.create({ servers: 1, workers: 2, flags });
    const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
    const [worker, dead] = [cluster.worker(0, "reader"), cluster.worker(1, "reader")];
    for (const node of [worker, dead]) await node.says(/^reads 0 to 0$/);
    await server.says(/^server\/0 ready {2}\S+ {2}job failing$/);
    await dead.kill();
    worker.endInput();
    await until(() => /the end of the job waits for nodes that are gone.*worker 1/.test(worker.stderr), "the words");
    for (const node of [worker, server, scheduler]) await node.fails(/NODE_DEAD: .*worker 1 died and did not come back within 15000 ms/);
    assert.deepEqual(readdirSync(root), []);
  });

  test("a job that is killed as a whole leaves a state that the next one sets aside and says so", async () => {
    const root = temporaryDirectory("state");
    const flags = ["--job", "durable", "--state-dir", root, "--heartbeat-timeout", "500ms"];
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags });
    const directory = join(root, `durable@${cluster.port}`);
    const first = [cluster.scheduler(), cluster.server(0), cluster.worker(0, "pusher")];
    await first[2]?.says(/^push works$/);
    await Promise.all(first.map((node) => node.kill()));
    const run = stateIn(directory).job;
    const [scheduler, server, worker] = [cluster.scheduler(), cluster.server(0), cluster.worker(0, "pusher")];
    await worker.says(/^push works$/);
    await until(() => /set aside: none of its nodes came back within 500 ms/.test(scheduler.stderr), "the message");
    assert.notEqual(stateIn(directory).job, run);
    assert.deepEqual(readdirSync(directory).sort(), ["lock", "records", "records.aside"]);
    worker.endInput();
    for (const node of [worker, server, scheduler]) await node.succeeds();
    assert.deepEqual(readdirSync(directory), ["records.aside"]);
  });
});
