// guests — Goal: a process with the scheduler's address alone reads and pushes beside a running job, hundreds of times,
// and the job ends without it.

import assert from "node:assert/strict";
import test from "node:test";
import { connect, isWeighbridgeError } from "weighbridge";
import type { StatusReply } from "../../src/wire/control.ts";
import { Cluster } from "./cluster.ts";

const GUESTS = 200;
const AT_A_TIME = 10;

test("hundreds of guests come and go while workers train, and the job ends while one is there", async () => {
  // Two hundred guests live in this one process: on a busy machine it may be silent for longer than others are.
  await using cluster = await Cluster.create({ servers: 2, workers: 1, flags: ["--heartbeat-timeout", "30s"] });
  const address = `weighbridge://127.0.0.1:${cluster.port}`;
  const scheduler = cluster.scheduler();
  await scheduler.says(/^waiting for/);
  const early = connect(address, { logLevel: "silent" });
  const servers = [cluster.server(0), cluster.server(1)];
  const worker = cluster.worker(0, "guest-host", String(GUESTS + 1));
  await worker.says(/^ready$/);
  await using stays = await early;
  const rounds = await stays.tensor("rounds");
  const [before = 0] = await rounds.pull();
  const statusOf = async (...flags: string[]): Promise<string> => {
    const status = cluster.weighbridge(["status", "--scheduler-port", cluster.port, ...flags]);
    await status.succeeds();
    return status.stdout;
  };
  assert.match(await statusOf(), new RegExp(`^1 guest\\nguest .*\\nguest ${stays.rank} +pid ${process.pid} `, "m"));
  const { guests = [] } = JSON.parse(await statusOf("--json")) as StatusReply;
  assert.deepEqual([guests.length, guests[0]?.node, guests[0]?.linked], [1, stays.rank, true]);
  assert.throws(
    () => stays.clock(),
    (error) => isWeighbridgeError(error, "UNSUPPORTED"),
  );
  const visit = async (): Promise<void> => {
    await using guest = await connect({ role: "guest", schedulerPort: cluster.port, logLevel: "silent" });
    const visits = await guest.embedding("visits");
    await visits.push([1], Float32Array.of(1));
    assert.ok(((await visits.pull([1]))[0] ?? 0) >= 1);
  };
  for (let done = 0; done < GUESTS; done += AT_A_TIME) await Promise.all(Array.from({ length: AT_A_TIME }, visit));
  const [after = 0] = await rounds.pull();
  assert.ok(after > before, `${before} rounds before the guests came, ${after} after`);
  // The last one ends the job, maybe before it has left itself.
  const last = await connect({ role: "guest", schedulerPort: cluster.port, logLevel: "silent" });
  await (await last.embedding("visits")).push([1], Float32Array.of(1));
  await last.close().catch((error: unknown) => assert.ok(isWeighbridgeError(error, "CLOSED"), String(error)));
  await worker.says(new RegExp(`^${GUESTS + 1} visits$`));
  for (const process of [worker, ...servers, scheduler]) await process.succeeds();
  await assert.rejects(rounds.pull(), (error) => isWeighbridgeError(error, "CLOSED") || isWeighbridgeError(error, "NODE_DEAD"));
});

test("a command that runs is listed as a tool, counts for nothing, and is forgotten when it is killed", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1 });
  const [scheduler, server] = [cluster.scheduler(), cluster.server(0)];
  const worker = cluster.worker(0, "guest-host", "1");
  await worker.says(/^ready$/);
  const flags = ["--scheduler-port", cluster.port];
  const status = async (...more: string[]): Promise<string> => {
    const asked = cluster.weighbridge(["status", ...flags, ...more]);
    await asked.succeeds();
    return asked.stdout;
  };
  const guestsNow = async (): Promise<StatusReply["guests"]> => (JSON.parse(await status("--json")) as StatusReply).guests;
  assert.equal(await guestsNow(), undefined, "one that asks does not list itself");
  const scale = cluster.weighbridge(["scale", "--servers", 2, ...flags]); // which nobody starts
  await scale.says(/waiting for server\/1/);
  assert.match(await status(), new RegExp(`^1 guest\\nguest .*\\ntool: scale +pid ${scale.pid} .* yes$`, "m"));
  assert.match(await status(), /: 2 of 2 nodes are there/);
  const [tool] = (await guestsNow()) ?? [];
  assert.deepEqual([tool?.kind, tool?.command, tool?.node], ["tool", "scale", undefined]);
  await scale.kill();
  assert.equal(await guestsNow(), undefined, "the end of its link forgets it");
  await cluster.weighbridge(["scale", "--rollback", ...flags]).succeeds();
  await using guest = await connect({ role: "guest", schedulerPort: cluster.port, logLevel: "silent" });
  await (await guest.embedding("visits")).push([1], Float32Array.of(1));
  for (const process of [worker, server, scheduler]) await process.succeeds();
});

test("workers that know the address alone ask for the counts of their job, while it forms and when it runs", async () => {
  await using cluster = await Cluster.create({ servers: 2, workers: 2 });
  const address = `weighbridge://127.0.0.1:${cluster.port}`;
  const join = async (): ReturnType<typeof connect> => await connect(address, { role: "worker", logLevel: "silent", timeoutMs: 60_000 });
  const early = join(); // before there is a scheduler
  const nodes = [cluster.scheduler(), cluster.server(0), cluster.server(1)];
  const [one, other] = await Promise.all([early, join()]);
  assert.deepEqual([one.workerCount, one.serverCount], [2, 2]);
  assert.deepEqual(new Set([one.rank, other.rank]), new Set([0, 1]));
  await other.close({ barrier: false });
  const again = await join();
  assert.equal(again.rank, other.rank);
  await Promise.all([one.close(), again.close()]);
  for (const node of nodes) await node.succeeds();
  const counts = { role: "worker", serverCount: 1, workerCount: 2, logLevel: "silent", startTimeoutMs: 300 } as const;
  await assert.rejects(connect(address, counts), (error) => isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"));
  await assert.rejects(connect(address, { role: "worker", logLevel: "silent", startTimeoutMs: 300 }), (error) =>
    isWeighbridgeError(error, "SCHEDULER_UNREACHABLE"),
  );
});

test("a guest of another job, without a scheduler, or with an address that is none, is told so", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--job", "mine"] });
  const scheduler = cluster.scheduler();
  await scheduler.says(/^waiting for/);
  const address = `weighbridge://127.0.0.1:${cluster.port}`;
  const isCode =
    (code: "WRONG_JOB" | "BAD_ARGUMENT" | "DEADLINE" | "SCHEDULER_UNREACHABLE") =>
    (error: unknown): boolean =>
      isWeighbridgeError(error, code);
  await assert.rejects(connect(`${address}/other`, { logLevel: "silent" }), isCode("WRONG_JOB"));
  await assert.rejects(connect(`${address}/mine`, { logLevel: "silent", timeoutMs: 300 }), isCode("DEADLINE"));
  await assert.rejects(connect("weighbridge://"), isCode("BAD_ARGUMENT"));
  await assert.rejects(connect("http://127.0.0.1:80"), isCode("BAD_ARGUMENT"));
  await assert.rejects(connect("weighbridge://127.0.0.1:99999"), isCode("BAD_ARGUMENT"));
  await scheduler.kill();
  await assert.rejects(connect(address, { logLevel: "silent", startTimeoutMs: 300 }), isCode("SCHEDULER_UNREACHABLE"));
});
