// Goal: a model of so many parameters that its manifest, and what a server reports of it, are larger than a control
// frame is saved and restored by the command line, which has no other way to the servers.

import { type RestoredCheckpoint, restoreCheckpoint, type TakenCheckpoint, takeCheckpoint } from "../../src/api/checkpoint.ts";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { withServers } from "../../src/cli/cluster-client.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

export const LARGE_MODEL_PARAMETERS = 900;
const ROOT = "/checkpoints";
const SCHEDULER = "sim://scheduler:1";

async function startCluster(disk: SimDisk, seed: number): Promise<SimCluster> {
  const cluster: SimCluster = new SimCluster({
    seed,
    serverCount: 2,
    workerCount: 1,
    settle: SETTLING,
    optionsOf: () => ({ checkpointFiles: new ServerFiles(ROOT, disk.mount(cluster.clock, 0).layer) }),
  });
  await cluster.start();
  return cluster;
}

export async function saveLargeManifest(): Promise<{
  readonly manifestBytes: number;
  readonly saved: TakenCheckpoint;
  readonly restored: RestoredCheckpoint;
}> {
  const disk = new SimDisk(new Random(1), ROOT);
  const first = await startCluster(disk, 1);
  const request = (cluster: SimCluster) => ({
    command: "checkpoint save",
    targets: [{ kind: "named", addresses: [SCHEDULER] } as const],
    findMs: 10_000,
    timeoutMs: 60_000,
    transport: cluster.network.host("command-line"),
    clock: cluster.clock,
  });
  const session = await first.run(Session.open(first.worker(0).node));
  const names = Array.from({ length: LARGE_MODEL_PARAMETERS }, (_, i) => `layers/${i}/${"of a model with long names/".repeat(8)}weights`);
  await first.run(Promise.all(names.map((name) => session.tensor(name, { shape: [2], optimizer: "sum" }))));
  session.clock();
  const createdAt = new Date(0).toISOString();
  const saved = await first.run(withServers(request(first), (servers) => takeCheckpoint(servers, { createdAt })));
  await first.finalize();
  const second = await startCluster(disk, 2);
  const restored = await second.run(withServers(request(second), (servers) => restoreCheckpoint(servers)));
  await second.finalize();
  await using reader = await openCheckpoint(ROOT, { layer: disk.mount(second.clock, 0).layer });
  return { manifestBytes: JSON.stringify(reader.manifest).length, saved, restored };
}
