// Goal: a group of tables runs over the session of a cluster inside the process, as over one that `init` opens.

import assert from "node:assert/strict";
import { test } from "node:test";
import { denseRow } from "../faces/tables/rows/dense-row.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { EmbeddedCluster } from "./embedded-cluster.ts";
import { TableGroup } from "./tables-session.ts";

test("a group takes the session of an embedded cluster, and closes it", async () => {
  await using cluster = await EmbeddedCluster.start();
  const group = new TableGroup({ session: cluster.session });
  group.registerRow(0, denseRow("f32"));
  await group.init();
  await group.createTable(0, { rowType: 0, rowCapacity: 4, processCacheCapacity: 4 });
  await group.createTableDone();
  const thread = await group.registerThread();
  const table = thread.getTableOrDie(0);
  table.inc(0, 1, 2.5);
  thread.clock();
  const row = await table.get(0);
  assert.equal(row.get(1), 2.5);
  row.release();
  await group.shutDown();
  await assert.rejects(cluster.session.barrier(), throwsCode("CLOSED"));
});

test("options that do not fit are refused: unknown ones, no session, and a host map beside one", async () => {
  assert.throws(() => new TableGroup({ sesion: 1 } as object), throwsCode("BAD_ARGUMENT", /did you mean session/));
  for (const session of [null, 3, {}] as never[])
    assert.throws(() => new TableGroup({ session }), throwsCode("BAD_ARGUMENT", /session must be .* EmbeddedCluster.*, got/));
  await using cluster = await EmbeddedCluster.start();
  const group = new TableGroup({ session: cluster.session });
  const hostMap = [{ id: 0, host: "127.0.0.1", port: 9000 }];
  await assert.rejects(group.init({ hostMap, clientId: 0 }), throwsCode("BAD_ARGUMENT", /hostMap is for .*session/));
});
