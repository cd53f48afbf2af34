// Goal: replicated servers begin with a checkpoint on both copies: the standby has what its head has, and takes over
// with it. A standby that comes later is filled by its head, whatever checkpoint it was told to begin with.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { PART_COUNT } from "../../src/keys/part.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { digestOf } from "../../src/server/replication/state-digest.ts";
import type { Server } from "../../src/server/server.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const ROOT = "/checkpoints";
const [HEAD, STANDBY] = [idOf("server", 0), idOf("standby", 0)];
const OPTIMIZER = { type: "adam" } as const;

async function opened(disk: SimDisk, { isRestored }: { readonly isRestored: boolean }): Promise<{ cluster: SimCluster; session: Session }> {
  const cluster: SimCluster = new SimCluster({
    seed: isRestored ? 4 : 3, // another run of the job
    serverCount: 1,
    workerCount: 1,
    replicas: 2,
    settle: SETTLING,
    optionsOf: () => {
      const { layer } = disk.mount(cluster.clock, 2);
      const files = { checkpointFiles: new ServerFiles(ROOT, layer), digestEntries: 1 };
      return isRestored ? { ...files, restoreFrom: () => openCheckpoint(ROOT, { layer }) } : files;
    },
  });
  await cluster.start();
  return { cluster, session: await cluster.run(Session.open(cluster.worker(0).node)) };
}

async function pushedRows({ cluster, session }: { cluster: SimCluster; session: Session }, pushes: number): Promise<Float32Array> {
  const rows = await cluster.run(session.embedding("rows", { dim: 4, optimizer: OPTIMIZER }));
  for (let i = 0; i < pushes; i++) await cluster.run(rows.push([1, 2], new Float32Array(8).fill(i + 1)));
  return await cluster.run(rows.pull([1, 2]));
}

function digests(cluster: SimCluster, node: number): number[] {
  const { parameters } = cluster.office(node).server as Server;
  return Array.from({ length: PART_COUNT }, (_, part) => digestOf(parameters, part));
}

test("both copies begin with a checkpoint, the standby goes on with it, and a later one is filled", async () => {
  const disk = new SimDisk(new Random(1), ROOT);
  const first = await opened(disk, { isRestored: false });
  const saved = await pushedRows(first, 3);
  await first.cluster.run(first.session.checkpoint().saved);
  await first.cluster.run(Promise.all(first.cluster.nodes().map((node) => first.cluster.running(node)?.close())));

  const second = await opened(disk, { isRestored: true });
  const { cluster } = second;
  assert.deepEqual(await pushedRows(second, 0), saved);
  assert.deepEqual(digests(cluster, STANDBY), digests(cluster, HEAD));
  const pushed = await pushedRows(second, 2);
  cluster.kill(HEAD);
  assert.deepEqual(await pushedRows(second, 0), pushed, "the standby has taken over");
  const later = await cluster.run(cluster.startNode(HEAD));
  await pushedRows(second, 1);
  await cluster.clock.advance(1000);
  assert.equal(later.server?.parameters.isRestoring, false);
  assert.deepEqual(
    Array.from({ length: PART_COUNT }, (_, part) => digestOf((later.server as Server).parameters, part)),
    digests(cluster, STANDBY),
    "it was filled",
  );
  await cluster.run(Promise.all(cluster.nodes().map((node) => cluster.running(node)?.close())));
});
