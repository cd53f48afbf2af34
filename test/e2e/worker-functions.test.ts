// Goal: in real processes a server calls workers that nobody dials: those that live answer, calls to one that is killed
// end, and its next incarnation is called.

import { test } from "node:test";
import { Cluster } from "./cluster.ts";
import { script } from "./processes.ts";

test("a server calls a worker from a module of functions; the call ends when the worker is killed, and reaches the one that takes its place", async () => {
  await using cluster = await Cluster.create({ servers: 1, workers: 2, flags: ["--functions", script("reach-functions")] });
  cluster.scheduler();
  const server = cluster.server(0);
  const requester = cluster.worker(0, "reach");
  const first = cluster.worker(1, "reach");
  const [, pid] = await first.says(/serving in process (\d+)$/);
  await requester.says(new RegExp(`^at first: process ${pid}$`));
  await requester.says(/^nobody there: NO_ROUTE$/);
  await requester.says(/^too late: DEADLINE$/);
  await requester.says(/^waiting$/);
  await first.kill();
  await requester.says(/^killed: NODE_DEAD$/);
  await requester.says(/^gone: NODE_DEAD$/);
  const second = cluster.worker(1, "reach");
  const [, again] = await second.says(/serving in process (\d+)$/);
  await requester.says(new RegExp(`^again: process ${again}$`));
  await requester.succeeds();
  await second.succeeds();
  await server.succeeds();
});
