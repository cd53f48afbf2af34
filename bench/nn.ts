// nn — how fast the layers compute in one thread: `node bench/nn.ts` prints two tables. No parameter server, no data
// set: the input is noise, which costs what digits cost.
//
// Products: GFLOP/s, 2·m·n·k operations each, of the shapes that LeNet has for a batch of 64 and of larger ones. Steps:
// milliseconds of LeNet's forward, loss and backward for a batch of 64; then layer by layer. Medians of the rounds, and
// in brackets the fastest and slowest. Each with relaxed SIMD (fused) and without (plain), interleaved.

import { parseArgs } from "node:util";
import { Random } from "../src/base/random.ts";
import { canFuse, openLayerKernels, PRODUCT, productScratchBytes } from "../src/nn/layer-kernels.ts";
import { SoftmaxCrossEntropy } from "../src/nn/losses/softmax-cross-entropy.ts";
import { createLenet, LENET_CLASSES } from "../src/nn/models/lenet.ts";
import { initializeParameters } from "../src/nn/parameter.ts";
import { Workspace } from "../src/nn/workspace.ts";
import { median } from "./statistics.ts";

const BATCH = 64;
const ROUND_COUNT = 11;
const WARM_UP_MS = 300;

type Form = "A·B" | "Aᵀ·B" | "A·Bᵀ";
type Product = { readonly name: string; readonly form: Form; readonly m: number; readonly n: number; readonly k: number };

const PRODUCTS: readonly Product[] = [
  { name: "conv1", form: "A·B", m: 6, n: 784, k: 25 },
  { name: "conv1 weights", form: "A·Bᵀ", m: 6, n: 25, k: 784 },
  { name: "conv2", form: "A·B", m: 16, n: 100, k: 150 },
  { name: "conv2 weights", form: "A·Bᵀ", m: 16, n: 150, k: 100 },
  { name: "conv2 input", form: "Aᵀ·B", m: 150, n: 100, k: 16 },
  { name: "fc1", form: "A·Bᵀ", m: 64, n: 120, k: 400 },
  { name: "fc1 weights", form: "Aᵀ·B", m: 120, n: 400, k: 64 },
  { name: "fc1 input", form: "A·B", m: 64, n: 400, k: 120 },
  { name: "256 cubed", form: "A·B", m: 256, n: 256, k: 256 },
  { name: "512 cubed", form: "A·B", m: 512, n: 512, k: 512 },
  { name: "512 cubed", form: "Aᵀ·B", m: 512, n: 512, k: 512 },
  { name: "512 cubed", form: "A·Bᵀ", m: 512, n: 512, k: 512 },
];

/** Milliseconds of each round, both sides in turn. */
function rounds(sides: readonly (() => void)[], roundMs: number): number[][] {
  const repeats = sides.map((run) => {
    for (const startedAt = performance.now(); performance.now() - startedAt < WARM_UP_MS; ) run();
    return Math.max(1, Math.round(roundMs / timeMs(run, 1)));
  });
  const times: number[][] = sides.map(() => []);
  for (let round = 0; round < ROUND_COUNT; round++) {
    for (const [side, run] of sides.entries()) times[side]!.push(timeMs(run, repeats[side]!) / repeats[side]!);
  }
  return times;
}

function timeMs(run: () => void, repeats: number): number {
  const startedAt = performance.now();
  for (let i = 0; i < repeats; i++) run();
  return performance.now() - startedAt;
}

function productRun(workspace: Workspace, { form, m, n, k }: Product): () => void {
  const random = new Random(1);
  const noise = (count: number): number => {
    const { address, values } = workspace.floats(count);
    for (let i = 0; i < count; i++) values[i] = random.fraction() - 0.5;
    return address;
  };
  const [a, b, c] = [noise(m * k), noise(k * n), noise(m * n)];
  workspace.reserveScratch(productScratchBytes(k));
  const { kernels, scratch } = workspace;
  if (form === "A·Bᵀ") return () => kernels.multiplyTransposed(m, n, k, a, b, c, 0);
  return () => kernels.multiply(m, n, k, a, b, c, form === "Aᵀ·B" ? PRODUCT.firstTransposed : 0, scratch);
}

type Step = { readonly run: () => void; readonly layerMs: ReadonlyMap<string, number> };

/** A step, and another one that notes what each layer takes. */
function lenetSteps(workspace: Workspace): { readonly run: () => void; readonly layerTimes: (count: number) => Step["layerMs"] } {
  const network = createLenet(workspace, { sampleCountMax: BATCH });
  const loss = new SoftmaxCrossEntropy(workspace, { classCount: LENET_CLASSES, sampleCountMax: BATCH });
  initializeParameters(workspace, network.parameters, 1);
  const random = new Random(2);
  network.input.sampleCount = BATCH;
  for (let i = 0; i < network.input.values.length; i++) network.input.values[i] = random.fraction();
  const labels = Uint8Array.from({ length: BATCH }, () => random.below(LENET_CLASSES));
  const run = (): void => {
    loss.compute(network.forward({ isTraining: true }), labels);
    network.backward(loss.gradient);
  };
  const layerTimes = (count: number): Map<string, number> => {
    const spent = new Map<string, number>();
    const timed = <T>(name: string, work: () => T): T => {
      const startedAt = performance.now();
      const result = work();
      spent.set(name, (spent.get(name) ?? 0) + (performance.now() - startedAt) / count);
      return result;
    };
    for (let i = 0; i < count; i++) {
      let activations = network.input;
      for (const layer of network.layers) activations = timed(`${layer.name} forward`, () => layer.forward(activations, true));
      timed("loss", () => loss.compute(activations, labels));
      let gradient = loss.gradient;
      for (const layer of network.layers.toReversed()) {
        gradient = timed(`${layer.name} backward`, () => layer.backward(gradient, () => {})) ?? gradient;
      }
    }
    return spent;
  };
  return { run, layerTimes };
}

function described(list: readonly number[], digits: number): string {
  return `${median(list).toFixed(digits)} (${Math.min(...list).toFixed(digits)} to ${Math.max(...list).toFixed(digits)})`;
}

const { values: options } = parseArgs({
  options: { "round-ms": { type: "string", default: "40" }, layers: { type: "boolean", default: false } },
});
const roundMs = Number(options["round-ms"]);
const builds = canFuse() ? [true, false] : [false];
const names = builds.map((isFused) => (isFused ? "fused" : "plain"));
const open = (isFused: boolean): Workspace => new Workspace({ openKernels: (arena) => openLayerKernels(arena, isFused) });

const steps = builds.map((isFused) => lenetSteps(open(isFused)));
const stepTimes = rounds(
  steps.map(({ run }) => run),
  roundMs,
);
console.log(`| LeNet step, batch ${BATCH} | ${names.map((name) => `${name} ms`).join(" | ")} |\n|---|${"---|".repeat(builds.length)}`);
console.log(`| forward, loss, backward | ${stepTimes.map((times) => described(times, 2)).join(" | ")} |`);
if (options.layers) {
  const layers = steps.map(({ layerTimes }) => layerTimes(100));
  for (const name of layers[0]!.keys()) console.log(`| ${name} | ${layers.map((times) => times.get(name)!.toFixed(2)).join(" | ")} |`);
}
console.log(`\n| product, m × n × k | ${names.map((name) => `${name} GFLOP/s`).join(" | ")} |\n|---|${"---|".repeat(builds.length)}`);
const workspaces = builds.map(open);
for (const product of PRODUCTS) {
  const { name, form, m, n, k } = product;
  const times = rounds(
    workspaces.map((workspace) => productRun(workspace, product)),
    roundMs / 4,
  );
  const rates = times.map((list) =>
    described(
      list.map((ms) => (2 * m * n * k) / ms / 1e6),
      1,
    ),
  );
  console.log(`| ${name}, ${form}, ${m} × ${n} × ${k} | ${rates.join(" | ")} |`);
}
