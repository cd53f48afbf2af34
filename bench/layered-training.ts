// layered-training — a net of layers whose weights a shared model brings up to date through a server, over a link of a
// given speed: what a device waits for, with and without overlap. In simulated time (`runLayers`), or in whichever the
// model is in (`trainLayers`).
//
//   overlap      a layer's gradient leaves as soon as it is computed, the last layer first, and its weights are waited
//                for where the next step needs them, the first layer first; the first layer is the most urgent
//   no overlap   all gradients leave when all are computed, and all weights are there before the next step begins

import { Session } from "../src/api/session.ts";
import type { ChromeTrace } from "../src/faces/shared-model/model-statistics.ts";
import { OwnerModel } from "../src/faces/shared-model/owner-model.ts";
import type { SharedModel } from "../src/faces/shared-model/shared-model.ts";
import { SimCluster } from "../src/testing/sim-cluster.ts";

export type LayeredTraining = {
  /** Floats of each layer. */
  readonly lengths: readonly number[];
  /** To compute a layer, both ways together. */
  readonly layerMs: number;
  readonly steps: number;
  readonly overlaps: boolean;
  readonly latencyMs: number;
  readonly bytesPerMs: number;
};

export type LayeredRun = { readonly waitedMs: number; readonly allMs: number; readonly trace: ChromeTrace };

/** More than is on the way at once: the link is bounded by its speed and latency alone. */
const WINDOW_BYTES = 16 * 1024 * 1024;

export async function runLayers({ lengths, layerMs, steps, overlaps, latencyMs, bytesPerMs }: LayeredTraining): Promise<LayeredRun> {
  const network = { latencyMsMin: latencyMs, latencyMsMax: latencyMs, bytesPerMs, windowBytes: WINDOW_BYTES };
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount: 1, heartbeatTimeoutMs: 600_000, network });
  await cluster.start();
  const { clock } = cluster;
  const compute = async (ms: number): Promise<void> => await new Promise<void>((resolve) => void clock.after(ms, resolve));
  const train = async (): Promise<LayeredRun> => {
    const session = await Session.open(cluster.worker(0).node);
    const options = { session, updater: { type: "sum" }, consistency: "bsp", trace: true } as const;
    const model = new OwnerModel<Float32Array>("dist", options, { clock, timeline: () => clock.nowMs() });
    await model.init([0]);
    const times = await trainLayers(model, { lengths, layerMs, steps, overlaps }, { compute, nowMs: () => clock.nowMs() });
    return { ...times, trace: model.trace() };
  };
  return await cluster.run(train());
}

/** With a model whose device 0 was opened, and none of these keys. */
export async function trainLayers(
  model: SharedModel<Float32Array>,
  { lengths, layerMs, steps, overlaps }: Omit<LayeredTraining, "latencyMs" | "bytesPerMs">,
  { compute, nowMs }: { readonly compute: (ms: number) => Promise<void>; readonly nowMs: () => number },
): Promise<Omit<LayeredRun, "trace">> {
  for (const [key, length] of lengths.entries()) await model.initKey([length], key, 0);
  const data = lengths.map((length) => new Float32Array(length));
  const keys = [...data.keys()];
  const exchange = (key: number): void => {
    model.push(data[key]!, key, 0, -key);
    model.pullReq(data[key]!, key, 0, -key);
  };
  const fromMs = nowMs();
  for (let step = 0; step < steps; step++) {
    for (const key of keys) {
      await model.pullWait(key, 0);
      await compute(layerMs / 2);
    }
    for (const key of keys.toReversed()) {
      await compute(layerMs / 2);
      if (overlaps) exchange(key);
    }
    if (overlaps) continue;
    for (const key of keys) exchange(key);
    await model.pullWaitAll(0);
  }
  await model.pullWaitAll(0);
  return { allMs: nowMs() - fromMs, waitedMs: model.stats().devices[0]!.waitMs };
}
