// Goal: a server that leaves, as on SIGTERM, and whose process ends right after that is no reason to warn: it has said
// goodbye.

import assert from "node:assert/strict";
import { test } from "node:test";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { keptLog } from "./cut-links.ts";

test("a scheduler does not warn of a server that waited for the end, left and ended", async () => {
  const lines: string[] = [];
  const cluster = new SimCluster({
    seed: 1,
    serverCount: 2,
    workerCount: 1,
    optionsOf: (node) => (node === SCHEDULER_ID ? { log: keptLog(lines) } : {}),
    settle: SETTLING,
  });
  await cluster.start();
  for (const rank of [0, 1])
    cluster
      .server(rank)
      .finalize()
      .catch(() => {});
  await cluster.clock.advance(1000);
  await cluster.run(cluster.server(0).leave());
  cluster.kill(idOf("server", 0));
  await cluster.clock.advance(1000);
  const warnings = (): string[] => lines.filter((line) => line.startsWith("warn"));
  assert.deepEqual(warnings(), []);
  cluster.kill(idOf("server", 1));
  await cluster.clock.advance(1000);
  assert.match(warnings().join("\n"), /^warn link broken .*node=server 1/, "one that ends without a word is told of");
});
