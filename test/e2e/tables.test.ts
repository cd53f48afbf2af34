// tables — Goal: tables keep their promises in real processes, over sockets, started by the command line.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { parse } from "yaml";
import { freePort } from "../../src/node/launcher/free-port.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { Cluster } from "./cluster.ts";
import { Processes, type Running, script, until } from "./processes.ts";

test("weighbridge launch runs hello_ssp of the examples, with one server when their number is left out", async () => {
  await using processes = new Processes();
  const launch = processes.weighbridge(["launch", "-w", 2, "examples/09-tables/main.ts"]);
  await launch.succeeds();
  assert.equal(launch.count(/thread \d+: 100 clocks, every column at most 1 behind/), 4, launch.transcript);
});

for (const [staleness, model, clocks] of [
  [0, "SSP", 2000],
  [1, "SSP", 2000],
  [3, "SSP", 2000],
  [1, "SSPPush", 500],
] as const)
  test(`hello_ssp in 2 processes with 4 threads each: ${clocks} clocks, staleness ${staleness}, ${model}`, async () => {
    await using processes = new Processes();
    const settings = [`staleness=${staleness}`, `clocks=${clocks}`, `model=${model}`];
    const launch = processes.weighbridge(["launch", "-s", 2, "-w", 2, "--", script("tables-hello"), ...settings]);
    await launch.succeeds();
    assert.equal(launch.count(/4 threads are done$/), 2, launch.transcript);
  });

for (const model of ["SSP", "SSPPush"] as const)
  test(`gets wait at the bound of their table and for nothing else, increments travel once, a cache of 2 loses nothing (${model})`, async () => {
    // Nobody dies here: a process that a busy machine holds up is not to be taken for dead.
    await using cluster = await Cluster.create({ servers: 1, workers: 2, flags: ["--heartbeat-timeout", "30000ms"] });
    cluster.scheduler();
    cluster.server(0);
    const [busy, idle] = [0, 1].map((rank) => cluster.worker(rank, "tables-promises", `model=${model}`)) as [Running, Running];
    await busy.says(/^gets of staleness 0, 2 and 10 wait at clock 11, those of Infinity do not$/);
    await busy.says(/^1000 more clocks have ended$/);
    idle.tell("1"); // one clock is what all of them wait for
    await busy.says(/^they have come$/);
    idle.tell("1010"); // it has ended as many as the other one now
    for (const worker of [busy, idle]) {
      await worker.says(/^all increments of 1011 clocks are there$/);
      await worker.says(/^10000 increments of 3 columns took 36 bytes$/);
      await worker.says(/^10000 operations by chance on 6 rows, of which 2 are cached, lost nothing$/);
      await worker.succeeds();
    }
  });

test("a process that is killed is found by its broken connection: sooner than one that fell silent before; the others go on, and end when they are done", async () => {
  // A scheduler that is held up for longer than what lies between the two deaths finds both at once.
  const flags = ["--heartbeat-timeout", "8s", "--heartbeat-interval", "100ms"];
  await using cluster = await Cluster.create({ servers: 1, workers: 3, flags });
  const scheduler = cluster.scheduler();
  cluster.server(0);
  const workers = [0, 1, 2].map((rank) => cluster.worker(rank, "tables-hello", "mode=alone", "processes=3", "threads=2", "clocks=200"));
  for (const worker of workers) await worker.says(/^at clock 20$/);
  const deaths = (): string[] => [...scheduler.stderr.matchAll(/node is dead.* node="(worker \d)"/g)].map(([, name = ""]) => name);
  workers[1]!.signal("SIGSTOP");
  await sleep(500); // it is silent for several heartbeats when the other one dies
  await workers[2]!.kill();
  await until(() => deaths().length === 2, "both to be found");
  assert.deepEqual(deaths(), ["worker 2", "worker 1"], scheduler.transcript);
  await workers[1]!.kill();
  await workers[0]!.says(/^2 threads are done$/);
  await workers[0]!.succeeds();
});

test("a process that is stopped is waited for no longer than the detection time; continued, it is told once that others went on without it, and has lost nothing", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 2 });
  cluster.scheduler();
  cluster.server(0);
  const settings = ["mode=alone", "processes=2", "threads=2"];
  const steady = cluster.worker(0, "tables-hello", ...settings, "clocks=1000");
  const stopped = cluster.worker(1, "tables-hello", ...settings, "clocks=100");
  for (const worker of [steady, stopped]) await worker.says(/^at clock 20$/);
  stopped.signal("SIGSTOP");
  await steady.says(/^at clock 300$/); // its bound is 1: it does not wait for the other one
  stopped.signal("SIGCONT");
  // Each has seen all of its increments.
  for (const worker of [stopped, steady]) await worker.says(/^2 threads are done$/);
  assert.equal(stopped.count(/^taken out: worker 1 was taken for dead, .*others have gone on without it/), 1, stopped.transcript);
  const deaths = steady.stderr.match(/a worker is dead: reads, rounds and barriers go on without it node="worker 1"/g);
  assert.equal(deaths?.length, 1, steady.transcript);
  for (const worker of [stopped, steady]) await worker.succeeds();
});

test("when a process of a host map is killed the other one ends as soon as that is known, and says why", async () => {
  await using processes = new Processes();
  const ports = `ports=${await freePort("127.0.0.1")},${await freePort("127.0.0.1")}`;
  const [first, second] = [0, 1].map((client) =>
    processes.run(process.execPath, [script("tables-hello"), "mode=alone", ports, `client=${client}`, "clocks=400"], {}),
  );
  assert.ok(first !== undefined && second !== undefined);
  for (const client of [first, second]) await client.says(/^at clock 20$/);
  await second.kill();
  await first.fails(/NODE_DEAD/, 30_000);
});

test("two processes of a host map start their servers themselves, and the first one the scheduler; both write their statistics", async () => {
  await using processes = new Processes();
  const ports = `ports=${await freePort("127.0.0.1")},${await freePort("127.0.0.1")}`;
  const stats = join(temporaryDirectory("statistics"), "hello");
  const clients = [0, 1].map((client) =>
    processes.run(process.execPath, [script("tables-hello"), ports, `client=${client}`, "clocks=50", `stats=${stats}`], {}),
  );
  for (const client of clients) {
    await client.succeeds();
    assert.equal(client.count(/^4 threads are done$/), 1, client.transcript);
  }
  for (const rank of [0, 1]) {
    const text = await readFile(`${stats}.${rank}.yaml`, "utf8");
    const { "table 0": table } = parse(text) as Record<string, Record<string, number | Record<string, number>>>;
    assert.ok((table?.bytesPerClock as number) > 0, text);
    for (const thread of [1, 2, 3, 4]) {
      const counts = table?.[`thread ${1000 * rank + 200 + thread}`] as Record<string, number>;
      assert.deepEqual([counts.gets, counts.incs], [51, 50], text);
    }
  }
});
