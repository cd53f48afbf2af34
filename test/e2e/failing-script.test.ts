// failing-script — Goal: a node whose script throws ends right away and says why, also when the script is a node of a
// cluster by then.

import assert from "node:assert/strict";
import test from "node:test";
import { Cluster } from "./cluster.ts";
import { Processes, script } from "./processes.ts";

for (const door of ["start", "connect"]) {
  test(`a worker whose script throws after ${door}() ends with 1`, async () => {
    await using cluster = await Cluster.create({ servers: 1, workers: 1 });
    cluster.scheduler();
    cluster.server(0);
    const worker = cluster.worker(0, "throws", door);
    await worker.fails(/Error: my own bug\n {4}at .*throws\.ts/);
  });
}

test("a server whose script throws ends with 1", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1 });
  cluster.scheduler();
  cluster.worker(0, "member");
  const server = cluster.weighbridge(["server", ...cluster.flags, script("throws"), "start"]);
  await server.fails(/Error: my own bug/);
});

test("an error of ours that a script does not catch is told in a line, and ends it with 1", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--start-timeout", "300ms"] });
  const worker = cluster.worker(0, "throws", "connect");
  await worker.fails(/^weighbridge: SCHEDULER_UNREACHABLE: .*\n$/m);
  assert.doesNotMatch(worker.stderr, /\n {4}at /, "no stack");
});

test("launch tells in which line of a script an error of ours arose, with its stack when it is asked to be verbose", async () => {
  await using processes = new Processes();
  const [brief, verbose] = [[], ["--verbose"]].map((flags) =>
    processes.weighbridge(["launch", "-s", 1, "-w", 1, "--all-roles", ...flags, "--", script("throws"), "connect"]),
  );
  // Either may be the first to end.
  const last =
    /^weighbridge: (scheduler|server\/0) ended with exit code 2: weighbridge: BAD_CONFIG: connect\(\) joins as a worker or a guest/m;
  await brief?.refuses(last);
  assert.doesNotMatch(brief?.stderr ?? "", / {4}at /, "no stack");
  assert.match(brief?.stderr ?? "", /^weighbridge: (scheduler|server\/0) ended .* \(\S*throws\.ts:\d+:\d+\)$/m, "but the line");
  await verbose?.refuses(last);
  assert.match(verbose?.stderr ?? "", /^\[(scheduler|server\/0)\] {5}at .*throws\.ts:\d+/m);
});

test("a worker whose server dies ends with 1 and the server's name, when its script does not catch that", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1 });
  cluster.scheduler();
  const server = cluster.server(0);
  const worker = cluster.worker(0, "puller");
  await worker.says(/pulling/);
  await server.kill();
  await worker.fails(/^weighbridge: NODE_DEAD: .*server 0.*$/m);
});

test("what fails in the code of the server while a function runs belongs to no function, and ends the server", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--functions", script("leaky-functions")] });
  cluster.scheduler();
  const server = cluster.server(0);
  cluster.worker(0, "leaky", "fatal");
  await server.fails(/Error: a fault of the server/);
  assert.doesNotMatch(server.transcript, /the function fatal started/);
});

test("a function that throws something without a text, or leaves a rejection behind, is told of by name, and its server lives", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 1, flags: ["--functions", script("leaky-functions")] });
  cluster.scheduler();
  const server = cluster.server(0);
  const worker = cluster.worker(0, "leaky");
  await worker.succeeds();
  await worker.says(/^textless: HANDLER_FAILED .*textless: \{\}$/);
  await worker.says(/^the server lives: 1,2$/);
  await server.succeeds();
  for (const [count, word] of [
    ["1", "one"],
    ["2", "two"],
  ])
    assert.match(server.transcript, new RegExp(`the function leaky started and did not await has failed.*about ${word}.*count=${count}`));
});
