// missing-parameter-log.test — Goal: a server whose parameter is missing names it in its log, and says so once, not
// with every call.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { type Log, SILENT_LOG } from "../../src/base/log.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";

const CALL_COUNT = 300;

/** A cluster of one server and two workers, and what the server warns of failed requests. */
async function startCluster(): Promise<{ cluster: SimCluster; warnings: string[]; sessions: Session[] }> {
  const warnings: string[] = [];
  const log: Log = {
    ...SILENT_LOG,
    warn: (message, fields) => {
      if (message === "a request failed") warnings.push(JSON.stringify(fields));
    },
  };
  const optionsOf = (node: number): { log?: Log } => (node === idOf("server", 0) ? { log } : {});
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 2, optionsOf });
  await cluster.start();
  const sessions = [];
  for (const rank of [0, 1]) sessions.push(await cluster.run(Session.open(cluster.worker(rank).node)));
  return { cluster, warnings, sessions };
}

async function assertMissing(cluster: SimCluster, call: () => Promise<unknown>, message: RegExp): Promise<void> {
  for (let i = 0; i < CALL_COUNT; i++) await assert.rejects(cluster.run(call()), { code: "UNKNOWN_PARAMETER", message });
}

test("calls of a parameter that somebody has cleared are logged once, with the parameter's and the function's name", async () => {
  const { cluster, warnings, sessions } = await startCluster();
  const [one, two] = sessions as [Session, Session];
  const handle = await cluster.run(one.tensor("weights", { shape: [2], optimizer: "sum" }));
  await cluster.run((await cluster.run(two.tensor("weights", { shape: [2], optimizer: "sum" }))).drop());
  await assertMissing(cluster, () => handle.pull(), /no parameter "weights": it was dropped; make it again with tensor\(\)$/);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /"node":"worker 0","function":"wb\/tensor\/pull",.*no parameter \\"weights\\": it was dropped/);
});

test("calls of a parameter that a restarted server never had are logged once, with the parameter's name", async () => {
  const { cluster, warnings, sessions } = await startCluster();
  const [one] = sessions as [Session, Session];
  const table = await cluster.run(one.embedding("users", { dim: 2, optimizer: "sum" }));
  const server = idOf("server", 0);
  cluster.kill(server);
  await cluster.run(cluster.startNode(server));
  await cluster.clock.advance(500);
  await assertMissing(
    cluster,
    () => table.pull([1]),
    /no parameter "users": the server was restarted, .*; make it again with embedding\(\)$/,
  );
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /"function":"wb\/parameter\/state",.*no parameter \\"users\\": the server was restarted/);
});
