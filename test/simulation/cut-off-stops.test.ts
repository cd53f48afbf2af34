// Goal: what servers leave that are killed while they stop keeps no job from starting: it is set aside, on all servers
// at once, and the start goes on from the checkpoint.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { openCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import type { SegmentLog } from "../../src/node/durable/segment-log.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { rankOf, roleOf, SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { stopLog } from "./planned-stops.ts";
import { type Mount, SimDisk } from "./sim-disk.ts";

const SERVERS = 2;
/** A stop ends long before that. */
const STOP_MS_MAX = 1000;
const ROOT = "/checkpoints";
const SPEC = { dim: 4, optimizer: "sum" } as const;
const KEYS = Array.from({ length: 200 }, (_, i) => i);

const ONES = new Float32Array(SPEC.dim * KEYS.length).fill(1);

class Stage {
  /** Ranks of which what was left was set aside. */
  readonly aside: number[] = [];
  readonly #random = new Random(3);
  readonly #disk = new SimDisk(this.#random, "/stopped");
  readonly #checkpoints = new SimDisk(new Random(4), ROOT);
  #mounts: Mount[] = [];
  #runs = 0;

  /** `found`: ranks for which something was left; left out, the job is the first one. */
  cluster(found?: readonly number[]): SimCluster {
    this.#mounts = [];
    const cluster: SimCluster = new SimCluster({
      ...{ seed: 1, serverCount: SERVERS, workerCount: 1, settle: SETTLING, startTimeoutMs: 10_000 },
      optionsOf: (node) => {
        if (node === SCHEDULER_ID) return { jobId: `sim/${++this.#runs}` };
        if (roleOf(node) !== "server") return {};
        const rank = rankOf(node);
        const logOf = (): SegmentLog => {
          const mount = this.#disk.mount(cluster.clock, 1);
          this.#mounts.push(mount);
          return stopLog({ mount, random: this.#random, clock: cluster.clock, log: SILENT_LOG, rank });
        };
        const setAside = async (): Promise<void> => void this.aside.push(rank);
        const stops = { logOf: async () => logOf(), found: found?.includes(rank) ? logOf() : undefined, setAside };
        const { layer } = this.#checkpoints.mount(cluster.clock, 0);
        const start = found === undefined ? {} : { restoreFrom: () => openCheckpoint(ROOT, { layer }) };
        return { stops, fillBytes: 200, checkpointFiles: new ServerFiles(ROOT, layer), ...start };
      },
    });
    return cluster;
  }

  die(): void {
    for (const mount of this.#mounts) mount.die();
  }

  /** The servers of which something was left. */
  async left(cluster: SimCluster): Promise<number[]> {
    const { layer } = this.#disk.mount(cluster.clock, 0);
    const names = async (rank: number): Promise<readonly string[]> => await layer.list(`/stopped/server-${rank}`).catch(() => []);
    const ranks = [];
    for (let rank = 0; rank < SERVERS; rank++) if ((await names(rank)).some((name) => name.startsWith("log-"))) ranks.push(rank);
    return ranks;
  }
}

test("after servers were killed while they stopped, at whichever moment before their state was saved, the next job goes on from the checkpoint", async () => {
  let cutOff = 0;
  for (let afterMs = 1; ; afterMs += 5) {
    assert.ok(afterMs < STOP_MS_MAX, "a stop that is not cut off ends");
    const stage = new Stage();
    const first = stage.cluster();
    await first.start();
    const session = await first.run(Session.open(first.worker(0).node));
    const rows = await first.run(session.embedding("rows", SPEC));
    await first.run(rows.push(KEYS, ONES));
    await first.run(session.checkpoint().saved);
    await first.run(rows.push(KEYS, ONES));
    const stops = Promise.race([0, 1].map((rank) => first.server(rank).node.leave()));
    let isSaved = false;
    void stops.then(() => {
      isSaved = true;
    });
    await first.clock.advance(afterMs);
    if (isSaved) break;
    stage.die();
    for (const node of first.nodes()) first.kill(node);
    const left = await stage.left(first);
    const second = stage.cluster(left);
    try {
      await second.start();
    } catch (thrown) {
      assert.ok(isWeighbridgeError(thrown, "FENCED"), String(thrown));
      break; // what was left was whole, and is of another run
    }
    assert.deepEqual(
      stage.aside.sort((a, b) => a - b),
      left,
      `killed after ${afterMs} ms`,
    );
    cutOff += left.length;
    const next = await second.run(Session.open(second.worker(0).node));
    const restored = await second.run(next.embedding("rows", SPEC));
    assert.deepEqual(await second.run(restored.pull(KEYS)), ONES, `killed after ${afterMs} ms`);
  }
  assert.ok(cutOff > 10, `${cutOff} stops were cut off`);
});
