// shared-model-overlap — what a device waits for when its layers are exchanged with a server while others are computed,
// and when they are not. Over a simulated link, in simulated time: the same figures on every machine.
//
//   node bench/shared-model-overlap.ts [steps]

import { type LayeredTraining, runLayers } from "./layered-training.ts";

const steps = Number(process.argv[2] ?? 20);
const NETS: Readonly<Record<string, Omit<LayeredTraining, "overlaps" | "steps">>> = {
  "6 layers of 100 ms each, 40 ms each way": { lengths: Array<number>(6).fill(250_000), layerMs: 100, latencyMs: 0, bytesPerMs: 25_000 },
  "784-100-10, 20 ms of latency": { lengths: [78_400, 100, 1000, 10], layerMs: 2, latencyMs: 20, bytesPerMs: 100_000 },
};

for (const [name, net] of Object.entries(NETS)) {
  const [on, off] = [await runLayers({ ...net, steps, overlaps: true }), await runLayers({ ...net, steps, overlaps: false })];
  const perStep = (ms: number): string => (ms / steps).toFixed(1);
  const times = `waited ${perStep(on.waitedMs)} ms a step with overlap, ${perStep(off.waitedMs)} without`;
  console.log(`${name}: ${times}: ${(on.waitedMs / off.waitedMs).toFixed(2)}; a step ${perStep(on.allMs)} and ${perStep(off.allMs)} ms`);
}
