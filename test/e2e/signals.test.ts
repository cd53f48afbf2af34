// signals — Goal: a node that is asked to end by SIGTERM ends: a server with a word to the others, and every node also
// as process 1 of a container.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Cluster } from "./cluster.ts";
import { COMMAND, isAlive, type Running, script } from "./processes.ts";

/** Makes what it runs process 1 of a namespace of its own, as a container is. */
const CONTAINER = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];
const hasContainers = spawnSync("unshare", [...CONTAINER, "true"]).status === 0;

/** Process 1 of the namespace, by its number outside of it; undefined while that is not our command yet. */
function firstProcessOf({ pid }: Running): number | undefined {
  try {
    const child = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ")[0]);
    return readFileSync(`/proc/${child}/cmdline`, "utf8").startsWith(process.execPath) ? child : undefined;
  } catch {
    return undefined; // it has not begun, or has ended
  }
}

suite("signals", { concurrency: 2 }, () => {
  test("SIGTERM makes a server leave, each of several threads too: calls to it fail at once, by its name", async () => {
    // So long that whoever waited for it would be found, on a slow machine too.
    const timeoutMs = 60_000;
    await using cluster = await Cluster.create({ servers: 3, workers: 1, flags: ["--heartbeat-timeout", `${timeoutMs}ms`] });
    const scheduler = cluster.scheduler();
    const single = cluster.server(0);
    const threads = cluster.weighbridge(["server", ...cluster.flags, "--rank", 1, "--threads", 2]);
    const worker = cluster.worker(0, "pusher");
    await worker.says(/^push works$/);
    const askedAt = performance.now();
    threads.signal("SIGTERM");
    await worker.says(/^push failed after \d+ ms: NODE_DEAD: server [12] has left/);
    const tookMs = performance.now() - askedAt;
    assert.ok(tookMs < timeoutMs / 2, `known after ${tookMs} ms`);
    for (const rank of [1, 2]) await scheduler.says(new RegExp(`^server/${rank} has left$`));
    assert.deepEqual(await threads.ends(), { code: null, signal: "SIGTERM" });
    single.signal("SIGTERM");
    await scheduler.says(/^server\/0 has left$/);
    assert.deepEqual(await single.ends(), { code: null, signal: "SIGTERM" });
    worker.endInput();
    for (const node of [worker, scheduler]) await node.succeeds();
  });

  test("SIGTERM to a server that waits for the rest of the cluster ends it without an error", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    cluster.scheduler();
    const server = cluster.server(0);
    await cluster.waitsFor(1);
    server.signal("SIGTERM");
    assert.deepEqual(await server.ends(), { code: null, signal: "SIGTERM" });
    assert.equal(server.stderr, "");
  });

  test("as process 1 of a container every node ends on SIGTERM, also before it is registered", {
    skip: !hasContainers && "this machine makes no containers for us (unshare)",
  }, async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    const contained = (...args: readonly (string | number)[]): Running =>
      cluster.run("unshare", [...CONTAINER, process.execPath, COMMAND, ...args.map(String)]);
    const starts: readonly (() => Running)[] = [
      () => contained("scheduler", "-s", 1, "-w", 1, "--scheduler-port", cluster.port),
      () => contained("server", "-s", 2, "-w", 1, "--scheduler-port", 1), // nobody is there
      () => contained("worker", "-s", 2, "-w", 1, "--scheduler-port", 1, script("pusher")),
    ];
    /** Sends SIGTERM until the node ends: the first ones may come before it listens. */
    const endOf = async (node: Running): ReturnType<Running["ends"]> => {
      for (let tries = 0; tries < 100 && node.isRunning; tries++) {
        const pid = firstProcessOf(node);
        if (pid !== undefined && isAlive(pid)) process.kill(pid, "SIGTERM");
        await sleep(100);
      }
      return await node.ends(1000);
    };
    for (const start of starts) {
      // Until then Node listens itself, and the signal ends it as any other process, now and then.
      for (let tries = 0; ; tries++) {
        const node = start();
        const { code, signal } = await endOf(node);
        if (signal === "SIGTERM" && tries < 5) continue;
        assert.equal(code, 128 + 15, node.transcript);
        break;
      }
    }
  });
});
