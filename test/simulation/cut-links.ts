// Goal: a worker and a server that cannot reach each other, both ways or one way, for any time: an update that was
// acknowledged counts once, one that failed counts once or not at all, and never later than a read that did not show
// it.

import assert from "node:assert/strict";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Log } from "../../src/base/log.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";

export const HEARTBEAT_TIMEOUT_MS = 2000;
export const LINK_TIMEOUT_MS = 6000;
const PUSHES = 40;
const READER = 1;

export function cutCluster(options: Partial<SimClusterOptions> = {}): SimCluster {
  return new SimCluster({
    seed: 1,
    serverCount: 1,
    workerCount: 2,
    heartbeatTimeoutMs: HEARTBEAT_TIMEOUT_MS,
    linkTimeoutMs: LINK_TIMEOUT_MS,
    settle: SETTLING,
    ...options,
  });
}

/** Keeps the lines of a log, each as "message key=value …". */
export function keptLog(lines: string[]): Log {
  const keep =
    (level: string) =>
    (message: string, fields: object = {}): void =>
      void lines.push([level, message, ...Object.entries(fields).map(([name, value]) => `${name}=${String(value)}`)].join(" "));
  return { error: keep("error"), warn: keep("warn"), info: keep("info"), debug: keep("debug") };
}

type Outcome = "acknowledged" | "failed";

/** Pushes 1 to a key of its own, time after time, whether the ones before have ended or not. */
async function push(kv: KVWorker, cluster: SimCluster, random: Random): Promise<Outcome[]> {
  const outcomes: Promise<Outcome>[] = [];
  for (let i = 0; i < PUSHES; i++) {
    const pushed = kv.wait(kv.push(BigUint64Array.of(BigInt(i)), Float32Array.of(1), { priority: random.below(3) }));
    outcomes.push(
      pushed.then(
        () => "acknowledged",
        (error: unknown) => {
          assert.ok(isWeighbridgeError(error, "LINK_LOST"), String(error));
          return "failed";
        },
      ),
    );
    await new Promise<void>((resolve) => cluster.clock.after(random.below(600), resolve));
  }
  return await Promise.all(outcomes);
}

/** Throws when an update was lost, counted twice or applied after a read had not shown it. Returns how many failed. */
export async function runCutLinks(seed: number): Promise<number> {
  const random = new Random(seed);
  const lossy = {
    dropPercent: random.below(2) * 5,
    duplicatePercent: random.below(2) * 5,
    reorderPercent: random.below(2) * 5,
    delayMs: 20,
  };
  const cluster = cutCluster({ seed, ...(random.chance(0.3) ? { faults: lossy } : {}) });
  await cluster.start();
  new KVServer(cluster.server(0), 0);
  const kv = new KVWorker(cluster.worker(0), 0);
  const other = new KVWorker(cluster.worker(READER), 0);
  const [worker, server] = ["worker-0", "server-0"] as const;
  const [from, to] = random.chance(0.5) ? [worker, server] : [server, worker];
  for (let atMs = random.below(4000), cut = 0; cut < 2; cut++) {
    const options = { isOneWay: random.chance(0.6), breakLinks: random.chance(0.3) };
    cluster.clock.after(atMs, () => cluster.network.partition(from, to, options));
    atMs += random.below(2 * LINK_TIMEOUT_MS);
    cluster.clock.after(atMs, () => cluster.network.heal());
    atMs += random.below(4000);
  }
  const outcomes = await cluster.run(push(kv, cluster, random));
  cluster.network.heal();
  const read = async (reader: KVWorker): Promise<Float32Array> => {
    const values = new Float32Array(PUSHES);
    for (;;) {
      try {
        await reader.wait(
          reader.pull(
            BigUint64Array.from({ length: PUSHES }, (_, i) => BigInt(i)),
            values,
          ),
        );
        return values;
      } catch (thrown) {
        assert.ok(isWeighbridgeError(thrown, "LINK_LOST") && thrown.retryable, String(thrown));
        await new Promise<void>((resolve) => cluster.clock.after(100, resolve));
      }
    }
  };
  const shown = await cluster.run(read(kv)); // by the worker that was cut off: what it gave up cannot come later
  outcomes.forEach((outcome, i) => {
    const value = shown[i] as number;
    if (outcome === "acknowledged") assert.equal(value, 1, `seed ${seed}: update ${i} was acknowledged`);
    else assert.ok(value === 0 || value === 1, `seed ${seed}: update ${i} failed, and counts ${value} times`);
  });
  await cluster.clock.advance(3 * LINK_TIMEOUT_MS);
  assert.deepEqual(await cluster.run(read(other)), shown, `seed ${seed}: nothing is applied later`);
  await cluster.finalize();
  return outcomes.filter((outcome) => outcome === "failed").length;
}
