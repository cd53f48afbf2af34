// recovery — Goal: nodes that are killed, stopped and restarted by the system's own signals, and a job that goes on.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Cluster, HEARTBEAT_TIMEOUT_MS } from "./cluster.ts";
import { never, type Running, until } from "./processes.ts";

/** Time for the news of a death to be noticed and passed on, on a busy machine. */
const NEWS_MS = 3000;
const AWAY = /warn .*the scheduler at \S+ is away, dialing it again/;

async function pushed(worker: Running): Promise<number> {
  const count = worker.count(/^pushed \d+$/);
  return Number((await worker.says(/^pushed (\d+)$/, count + 1))[1]);
}

// Two at a time: they mostly wait.
suite("recovery", { concurrency: 2 }, () => {
  test("a killed server: waits fail in time by its name, and a restarted one takes its rank back, again and again", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 1 });
    const scheduler = cluster.scheduler();
    const first = cluster.server(0);
    let second = cluster.server(1);
    const worker = cluster.worker(0, "pusher");
    await worker.says(/^push works$/);
    for (let holder = 2; holder <= 4; holder++) {
      await second.kill();
      const killedAt = performance.now();
      const [, message] = await worker.says(/^push failed after \d+ ms: NODE_DEAD: (.*)$/, holder - 1);
      assert.match(String(message), /server 1/);
      const tookMs = performance.now() - killedAt;
      assert.ok(tookMs < HEARTBEAT_TIMEOUT_MS + NEWS_MS, `known after ${tookMs} ms`);
      second = cluster.server(1);
      await worker.says(/^push works again$/, holder - 1);
      await scheduler.says(new RegExp(`^server/1 ready again .* incarnation ${holder}$`));
    }
    worker.endInput();
    for (const node of [worker, first, second, scheduler]) await node.succeeds();
  });

  test("a server that is restarted empty, and on which one worker makes the parameter again: the other is told, and never reads the new values unawares", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 2 });
    const scheduler = cluster.scheduler();
    const [first, killed] = [cluster.server(0), cluster.server(1)];
    const [reader, maker] = [cluster.worker(0, "reader"), cluster.worker(1, "reader", "--remake")];
    await reader.says(/^reads 1 to 1$/);
    await maker.says(/^reads 1 to 1$/);
    await killed.kill();
    await reader.says(/^read failed: NODE_DEAD: .*server 1/);
    const restarted = cluster.server(1);
    await maker.says(/^reads 0 to 1$/);
    await reader.says(
      /^read failed: UNKNOWN_PARAMETER: no parameter "e" as this worker knew it: server 1 was restarted \(incarnation 2\) .*embedding\(\)/,
    );
    for (const worker of [reader, maker]) worker.endInput();
    for (const worker of [reader, maker]) await worker.says(/^made again: reads 0 to 1$/);
    for (const node of [reader, maker, first, restarted, scheduler]) await node.succeeds();
    assert.equal(reader.count(/^reads 0/), 0);
  });

  test("a server that is stopped for a moment loses nothing", async () => {
    // Also where the machine makes that moment longer.
    await using cluster = await Cluster.create({
      servers: 2,
      workers: 1,
      flags: ["--heartbeat-timeout", `${10 * HEARTBEAT_TIMEOUT_MS}ms`],
    });
    const scheduler = cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const worker = cluster.worker(0, "pusher", "--verify");
    await worker.says(/^push works$/);
    servers[1]?.signal("SIGSTOP");
    await never(() => worker.count(/^push failed/) > 0, "a push failed", HEARTBEAT_TIMEOUT_MS / 4);
    servers[1]?.signal("SIGCONT");
    const before = await pushed(worker);
    assert.ok((await pushed(worker)) > before);
    worker.endInput();
    await worker.says(/^verified \d+ pushes$/);
    for (const node of [worker, ...servers, scheduler]) await node.succeeds();
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("a server that is stopped for long is dead, and heard of again when it goes on", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 1 });
    const scheduler = cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const worker = cluster.worker(0, "pusher");
    await worker.says(/^push works$/);
    servers[0]?.signal("SIGSTOP");
    await worker.says(/^push failed after \d+ ms: NODE_DEAD: .*server 0/);
    servers[0]?.signal("SIGCONT");
    await worker.says(/^push works again$/);
    await scheduler.says(/^server\/0 is heard of again /);
    worker.endInput();
    for (const node of [worker, ...servers, scheduler]) await node.succeeds();
  });

  test("a worker that is killed inside a barrier and restarted counts once", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 3 });
    const scheduler = cluster.scheduler();
    const server = cluster.server(0);
    const [first, victim, late] = [cluster.worker(0, "barrier"), cluster.worker(1, "barrier"), cluster.worker(2, "barrier", "--wait")];
    await first.says(/^entering$/);
    await victim.says(/^entering$/);
    await late.says(/^started/);
    await victim.kill();
    const restarted = cluster.worker(1, "barrier");
    await restarted.says(/^started, recovery true$/);
    await restarted.says(/^entering$/);
    await first.says(/^barrier failed: .*worker 1/);
    await first.says(/^entering$/, 2);
    await never(() => first.count(/^passed$/) + restarted.count(/^passed$/) > 0, "the barrier was passed without worker 2", 500);
    late.endInput();
    for (const node of [first, restarted, late, server, scheduler]) await node.succeeds();
    for (const node of [first, restarted, late]) assert.equal(node.count(/^passed$/), 1);
  });

  test("a worker that is stopped before a barrier fails it for the others by its name, and takes part when it goes on", async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 2 });
    const scheduler = cluster.scheduler();
    const server = cluster.server(0);
    const [first, stopped] = [cluster.worker(0, "barrier"), cluster.worker(1, "barrier", "--wait")];
    await first.says(/^entering$/);
    await stopped.says(/^started/);
    stopped.signal("SIGSTOP");
    await first.says(/^barrier failed: .*worker 1/);
    stopped.signal("SIGCONT");
    await scheduler.says(/^worker\/1 is heard of again /);
    stopped.endInput();
    for (const node of [first, stopped, server, scheduler]) await node.succeeds();
    for (const node of [first, stopped]) assert.equal(node.count(/^passed$/), 1);
  });

  test("the scheduler is killed and restarted while workers push: they go on, and the barrier after it works", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 2 });
    const killed = cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const workers = [cluster.worker(0, "pusher", "--verify"), cluster.worker(1, "pusher", "--verify")];
    for (const worker of workers) await worker.says(/^push works$/);
    await killed.kill();
    for (const node of [...workers, ...servers]) await until(() => AWAY.test(node.stderr), `${node.name} to mention it`, NEWS_MS);
    for (const worker of workers) {
      const before = await pushed(worker);
      assert.ok((await pushed(worker)) > before, "the workers go on without a scheduler");
    }
    const scheduler = cluster.scheduler();
    await scheduler.says(/^the cluster is complete/);
    for (const worker of workers) {
      const before = await pushed(worker);
      assert.ok((await pushed(worker)) > before);
      worker.endInput();
    }
    for (const node of [...workers, ...servers, scheduler]) await node.succeeds();
    for (const worker of workers) assert.equal(worker.count(/^push failed/), 0);
  });

  test("a scheduler that is stopped for longer than the start timeout and goes on finds the server there, and nobody has noticed", async () => {
    const timeoutMs = 1000;
    const startTimeoutMs = 2500;
    await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--heartbeat-timeout", `${timeoutMs}ms`] });
    const scheduler = cluster.scheduler();
    const worker = cluster.worker(0, "pusher", "--verify");
    await cluster.waitsFor(1); // The server has little time to find the others.
    const server = cluster.weighbridge(["server", ...cluster.flags, "--start-timeout", `${startTimeoutMs}ms`]);
    await worker.says(/^push works$/);
    scheduler.signal("SIGSTOP");
    for (const node of [worker, server]) await until(() => AWAY.test(node.stderr), `${node.name} to mention it`, timeoutMs + NEWS_MS);
    await never(() => !server.isRunning, "the server ended", startTimeoutMs + 500);
    scheduler.signal("SIGCONT");
    for (const node of [worker, server])
      await until(() => /the scheduler at \S+ is back/.test(node.stderr), `${node.name} to find it`, NEWS_MS);
    const before = await pushed(worker);
    assert.ok((await pushed(worker)) > before);
    worker.endInput();
    await worker.says(/^verified \d+ pushes$/);
    for (const node of [worker, server, scheduler]) await node.succeeds();
    assert.equal(worker.count(/^push failed/), 0);
  });

  test("a worker that is killed while it pushes takes its rank back, again and again, and nobody else notices", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 2 });
    const scheduler = cluster.scheduler();
    const servers = [cluster.server(0), cluster.server(1)];
    const steady = cluster.worker(0, "pusher", "--verify");
    let victim = cluster.worker(1, "pusher");
    await steady.says(/^push works$/);
    for (let holder = 2; holder <= 4; holder++) {
      await victim.says(/^push works$/);
      await victim.kill();
      victim = cluster.worker(1, "pusher");
      await scheduler.says(new RegExp(`^worker/1 ready again .* incarnation ${holder}$`));
    }
    await victim.says(/^push works$/);
    for (const worker of [steady, victim]) worker.endInput();
    for (const node of [steady, victim, ...servers, scheduler]) await node.succeeds();
    assert.equal(steady.count(/^push failed/), 0);
  });

  test("a server dies while the scheduler is away: both come back, and the job goes on", async () => {
    await using cluster = await Cluster.create({ servers: 2, workers: 1 });
    const killed = cluster.scheduler();
    const first = cluster.server(0);
    let second = cluster.server(1);
    const worker = cluster.worker(0, "pusher");
    await worker.says(/^push works$/);
    await killed.kill();
    await second.kill();
    const scheduler = cluster.scheduler();
    second = cluster.server(1);
    await worker.says(/^push failed after \d+ ms: NODE_DEAD: .*server 1/);
    await worker.says(/^push works again$/);
    worker.endInput();
    for (const node of [worker, first, second, scheduler]) await node.succeeds();
  });
});
