// train — the demo's script, for every role. Servers add; workers learn to foretell clicks, each from its own stream of impressions, all on
// the same weights, without waiting for each other. It imports only what any user's script could.

import { parseArgs } from "node:util";
import { Group, KVServer, KVWorker, type Postoffice } from "weighbridge/kv";
import { start } from "weighbridge/node";
import { ClickWorld, FEATURE_COUNT, type Impressions } from "./click-world.ts";
import { Learner } from "./learner.ts";
import { type Quality, qualityOf } from "./quality.ts";
import { sendReport, type Traffic } from "./report.ts";

const APP = 0;
const WORLD_SEED = 10;
const HELD_OUT_SEED = 1;
const HELD_OUT_COUNT = 10_000;
const BATCH_COUNT = 128;
/** Pushes on their way at a time: enough that nobody waits for the network, few enough that weights are fresh. */
const PUSHES_MAX = 4;
const PROGRESS_MS = 100;
const QUALITY_MS = 500;
const LOSS_MEMORY = 0.98;
const KEY_BYTES = 8;
const VALUE_BYTES = 4;

/** Evenly over all 64-bit numbers, so that every server has as many: feature i has the middle of the i-th piece. */
const KEYS = BigUint64Array.from({ length: FEATURE_COUNT }, (_, i) => (2n ** 64n * BigInt(2 * i + 1)) / BigInt(2 * FEATURE_COUNT));

async function work(office: Postoffice, stepCount: number): Promise<void> {
  const kv = new KVWorker(office, APP);
  const world = new ClickWorld(WORLD_SEED);
  const heldOut = world.draw(HELD_OUT_COUNT, HELD_OUT_SEED);
  const rank = office.myRank;
  sendReport({ kind: "ready", rank, before: await quality(kv, heldOut) });
  await office.barrier(0, Group.WORKERS);
  const traffic = await train({ kv, world, rank, stepCount, heldOut });
  sendReport({ kind: "done", rank, traffic });
  await office.barrier(0, Group.WORKERS);
  if (rank > 0) return;
  const keysPerServer = office.serverKeyRanges().map(({ begin, end }) => KEYS.filter((key) => key >= begin && key < end).length);
  sendReport({ kind: "result", result: { after: await quality(kv, heldOut), best: qualityOf(world.trueWeights, heldOut), keysPerServer } });
}

async function quality(kv: KVWorker, heldOut: Impressions): Promise<Quality> {
  const weights = new Float32Array(FEATURE_COUNT);
  await kv.wait(kv.pull(KEYS, weights));
  return qualityOf(weights, heldOut);
}

type Training = {
  readonly kv: KVWorker;
  readonly world: ClickWorld;
  readonly rank: number;
  readonly stepCount: number;
  readonly heldOut: Impressions;
};

async function train({ kv, world, rank, stepCount, heldOut }: Training): Promise<Traffic> {
  const learner = new Learner();
  const pushes: number[] = [];
  const startedAt = performance.now();
  let weightCount = 0;
  let loss = Math.LN2;
  let progressAt = 0;
  let qualityAt = 0;
  // Every worker its own impressions, and a new batch for every step.
  const draw = (step: number): Impressions => world.draw(BATCH_COUNT, (step + 1) * 0x1_0000 + rank);
  let batch = draw(0);
  for (let step = 0; step < stepCount; step++) {
    const features = learner.featuresOf(batch);
    const keys = BigUint64Array.from(features.unique, (feature) => KEYS[feature] as bigint);
    // No wait for the pushes before: a pull sees what this worker pushed.
    const weights = new Float32Array(keys.length);
    const pulled = kv.pull(keys, weights);
    const next = draw(step + 1); // While the pull is on its way.
    await kv.wait(pulled);
    const changes = new Float32Array(keys.length);
    loss = LOSS_MEMORY * loss + (1 - LOSS_MEMORY) * learner.learn(batch, features, weights, changes);
    pushes.push(kv.push(keys, changes));
    if (pushes.length > PUSHES_MAX) await kv.wait(pushes.shift() as number);
    weightCount += 2 * keys.length;
    batch = next;
    const now = performance.now();
    if (now >= progressAt) {
      progressAt = now + PROGRESS_MS;
      sendReport({ kind: "progress", rank, step: step + 1, loss });
    }
    if (rank === 0 && now >= qualityAt) {
      qualityAt = now + QUALITY_MS;
      sendReport({ kind: "quality", quality: await quality(kv, heldOut) });
    }
  }
  await Promise.all(pushes.map((push) => kv.wait(push)));
  const seconds = (performance.now() - startedAt) / 1000;
  return { seconds, updateCount: stepCount, weightCount, byteCount: weightCount * (KEY_BYTES + VALUE_BYTES) };
}

const { values: options } = parseArgs({ options: { steps: { type: "string", default: "1000" } } });
const office = await start();
if (office.isServer) new KVServer(office, APP);
if (office.isWorker) await work(office, Number(options.steps));
await office.finalize();
