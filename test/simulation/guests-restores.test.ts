// Goal: a guest that comes while servers restore their checkpoint waits for them, as workers do: it finds what was
// saved, and cannot change what the job begins with. docs/decisions/0069.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { sleep } from "../../src/base/deferred.ts";
import { Random } from "../../src/base/random.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const ROOT = "/checkpoints";
const DEADLINE = { timeoutMs: 120_000 } as const;
/** Longer than a node may be unreachable. */
const RESTORE_MS = 40_000;
const SERVERS = [idOf("server", 0), idOf("server", 1)];
const SPEC = { dim: 1, consistency: "asp", optimizer: { type: "sum" } } as const;

/** A job on this disk; `isRestored`: servers begin with what is there, and need long for it. */
function clusterOn(disk: SimDisk, { isRestored }: { readonly isRestored: boolean }): SimCluster {
  const cluster: SimCluster = new SimCluster({
    ...{ seed: isRestored ? 4 : 3, serverCount: 2, workerCount: 0, settle: SETTLING, startTimeoutMs: 100_000 },
    optionsOf: () => {
      const { layer } = disk.mount(cluster.clock, 2);
      const files = { checkpointFiles: new ServerFiles(ROOT, layer) };
      let opened = 0; // the first time to see whether it can be
      const restoreFrom = async (): ReturnType<typeof openCheckpoint> => {
        if (++opened > 1) await sleep(cluster.clock, RESTORE_MS);
        return await openCheckpoint(ROOT, { layer });
      };
      return isRestored ? { ...files, restoreFrom } : files;
    },
  });
  return cluster;
}

async function sessionOf(cluster: SimCluster): Promise<Session> {
  return await Session.open(await cluster.startGuest("guest"), DEADLINE);
}

/** A disk with a checkpoint in which these rows are 3. */
async function savedRows(keys: readonly number[]): Promise<SimDisk> {
  const disk = new SimDisk(new Random(1), ROOT);
  const cluster = clusterOn(disk, { isRestored: false });
  await cluster.start();
  const session = await cluster.run(sessionOf(cluster));
  const rows = await cluster.run(session.embedding("rows", { ...SPEC, ...DEADLINE }));
  await cluster.run(rows.push(keys, new Float32Array(keys.length).fill(3)));
  await cluster.run(session.checkpoint(DEADLINE).saved);
  await cluster.run(Promise.all([SCHEDULER_ID, ...SERVERS].map((node) => cluster.running(node)?.close())));
  return disk;
}

const KEYS = Array.from({ length: 16 }, (_, key) => key);

test("a guest that connects while servers restore waits for them, and cannot make a name before they have it", async () => {
  const cluster = clusterOn(await savedRows(KEYS), { isRestored: true });
  const starting = cluster.start();
  await cluster.clock.advance(10_000); // they restore
  const opening = sessionOf(cluster);
  const other = opening.then((session) => session.embedding("rows", { ...SPEC, dim: 2, ...DEADLINE }));
  await Promise.all([cluster.run(starting), assert.rejects(cluster.run(other), throwsCode("SPEC_MISMATCH", /rows is there already/))]);
  const rows = await cluster.run((await opening).embedding("rows", { ...SPEC, ...DEADLINE }));
  assert.deepEqual(await cluster.run(rows.pull(KEYS)), new Float32Array(KEYS.length).fill(3));
});

test("calls of a guest to a server that is started again wait until that has restored its checkpoint", async () => {
  const cluster = clusterOn(await savedRows(KEYS), { isRestored: true });
  await cluster.start();
  const session = await cluster.run(sessionOf(cluster));
  const rows = await cluster.run(session.embedding("rows", { ...SPEC, ...DEADLINE }));
  await cluster.run(rows.push(KEYS, new Float32Array(KEYS.length).fill(1)));
  cluster.kill(SERVERS[1] as number);
  await cluster.clock.advance(5000); // it is declared dead
  const atMs = cluster.clock.nowMs();
  const starting = cluster.startNode(SERVERS[1] as number);
  await cluster.clock.advance(1000);
  const pulled = await cluster.run(rows.pull(KEYS, DEADLINE));
  assert.ok(cluster.clock.nowMs() - atMs >= RESTORE_MS, "it waited");
  assert.deepEqual(new Set(pulled), new Set([3, 4]), "server 1 has what was saved");
  await cluster.run(starting);
});
