// gpu-rounds — rounds of level 1 on one card, on the backend itself, without the engine above it: how fast they run
// beside a plain copy of the same run. Needs CUDA (LD_LIBRARY_PATH with the driver and NVRTC):
//   node bench/gpu-rounds.ts [--devices 4] [--megabytes 256] [--keys 1000]
//
// Times are between events on the card, medians of turns in which every case runs once, so that a slow spell of the
// card hits all alike. Bytes are those that must move: for the sum one read of every device's gradient, for the update
// a read and a write of the weights (and of each slot), for the hand-out one write for every device. Values are checked
// at the end of each case.
//
// Copies between the card and the host, as level 2 and updaters of users have them, run while another key is reduced
// again and again; beside them a plain copy to or from pinned memory on an idle card. Their times are the host's, from
// the call to its end.

import { parseArgs } from "node:util";
import { assert } from "../src/base/assert.ts";
import { type Cuda, openCuda } from "../src/gpu/cuda.ts";
import { CudaBackend } from "../src/gpu/cuda-backend.ts";
import type { CudaStream } from "../src/gpu/cuda-stream.ts";
import type { DeviceTensor } from "../src/gpu/device-tensor.ts";
import { FLOAT_BYTES } from "../src/kernel/elements.ts";
import { koffi } from "../src/node/native-calls.ts";
import { type OptimizerSpec, resolveOptimizer } from "../src/store/updaters/optimizer-spec.ts";
import type { KeyPlan, ModelTask } from "../src/worker/level-one/model-backend.ts";
import { cudaHere } from "./cuda-here.ts";
import { median } from "./statistics.ts";

const TURNS = 25;
/** What prepares many small keys has to be compiled by then. */
const WARM_UP_TURNS = 30;
const { values: options } = parseArgs({
  options: {
    devices: { type: "string", default: "4" },
    megabytes: { type: "string", default: "256" },
    keys: { type: "string", default: "1000" },
  },
});
const deviceCount = Number(options.devices);
const largeLength = (Number(options.megabytes) * 2 ** 20) / FLOAT_BYTES;
const keyCount = Number(options.keys);
const SMALL_LENGTH = 1024;
const RATE = 0.5;

type Case = { readonly name: string; readonly bytes: number; run(): Promise<number>; check(): Promise<void> };

const devices = Array.from({ length: deviceCount }, (_, device) => device);

function planOf(index: number, length: number): KeyPlan {
  return { key: index, index, shape: [length], length, resultLength: length, operation: "sum" };
}

/** Milliseconds on the card between events around what `act` puts on the stream. */
async function timed(stream: CudaStream, act: () => Promise<void> | void): Promise<number> {
  const [start, end] = [stream.card.timedEvent(), stream.card.timedEvent()];
  stream.recordInto(start);
  const done = act();
  stream.recordInto(end);
  await done;
  await stream.card.waits.whenDone(end);
  const ms = end.msSince(start);
  start.close();
  end.close();
  return ms;
}

/** Keys of one length, updated by one optimizer, with gradients of 1, 2, … on the devices. */
class Rounds {
  readonly name: string;
  readonly bytes: number;
  readonly #backend: CudaBackend;
  readonly #plans: readonly KeyPlan[];
  readonly #gradients: readonly (readonly DeviceTensor[])[];
  readonly #pulled: readonly (readonly DeviceTensor[])[];
  readonly #updates: boolean;
  #round = 0;

  constructor(
    name: string,
    backend: CudaBackend,
    cuda: Cuda,
    optimizer: OptimizerSpec | undefined,
    slotCount: number,
    length: number,
    count: number,
  ) {
    this.name = name;
    this.#backend = backend;
    this.#updates = optimizer !== undefined;
    this.#plans = Array.from({ length: count }, (_, index) => planOf(index, length));
    for (const plan of this.#plans) backend.openKey(plan, optimizer === undefined ? undefined : resolveOptimizer(optimizer));
    const spans = (): readonly (readonly DeviceTensor[])[] =>
      devices.map((device) => {
        const all = cuda.device(device).allocate([count * length]);
        all.fill(device + 1);
        return this.#plans.map(({ index }) => all.view(index * length, [length]));
      });
    this.#gradients = spans();
    this.#pulled = spans();
    this.bytes = FLOAT_BYTES * length * count * (2 * deviceCount + (this.#updates ? 2 : 1) + 2 * slotCount);
  }

  async run(): Promise<number> {
    this.#round++;
    const version = (this.#round % 2) as 0 | 1;
    const tasks = this.#plans.map((plan): ModelTask => {
      const sources = devices.map((device) => this.#gradients[device]![plan.index]!.ref);
      const targets = devices.map((device) => this.#pulled[device]![plan.index]!.ref);
      return { kind: "reduce", plan, round: this.#round, version, sources, targets };
    });
    const { runner } = this.#backend;
    assert(runner.kind === "batch", "CUDA runs batches");
    return timed(this.#backend.stream, () => runner.runBatch(tasks));
  }

  /** Plain SGD and sums are checked; what other optimizers make of it is for their tests. */
  async check(): Promise<void> {
    const sum = (deviceCount * (deviceCount + 1)) / 2;
    for (const pulled of this.#pulled) {
      const values = await pulled.at(-1)!.toArray();
      const [first, last] = [Number(values[0]), Number(values.at(-1))];
      assert(first === last, `${this.name}: ${first} and ${last}`);
      if (this.#updates ? this.name.includes("sgd") : true) {
        const expected = this.#updates ? -RATE * sum * this.#round : sum;
        assert(first === expected, `${this.name}: ${first}, not ${expected}`);
      }
    }
  }
}

async function openBackend(cuda: Cuda): Promise<CudaBackend> {
  const backend = new CudaBackend({ openCuda: async () => cuda, ownsCuda: false, dtype: "f32" });
  await backend.open(devices);
  return backend;
}

async function plainCopy(cuda: Cuda): Promise<Case> {
  const device = cuda.device(0);
  const [from, to] = [device.allocate([4 * largeLength]), device.allocate([4 * largeLength])];
  from.fill(1.5);
  const check = async (): Promise<void> => {
    const last = await to.view(4 * largeLength - 1, [1]).toArray();
    assert(last[0] === 1.5, `the copy has ${last[0]}`);
  };
  return {
    name: "plain copy on the card",
    bytes: 2 * from.byteCount,
    run: () => timed(device.stream, () => to.copyFromTensor(from)),
    check,
  };
}

/** Results of a key go to the host and back, plainly, or as level 2 gets them while another key is reduced. */
async function hostCopies(cuda: Cuda): Promise<readonly string[]> {
  const backend = await openBackend(cuda);
  const reduced = new Rounds("sgd", backend, cuda, { type: "sgd", learningRate: RATE }, 0, largeLength, 1);
  const plan = planOf(1, largeLength);
  backend.openKey(plan, undefined);
  const device = cuda.device(0);
  const tensor = device.allocate([largeLength]);
  const pinned = device.pinned(largeLength);
  const wall = async (act: () => Promise<unknown>): Promise<number> => {
    const fromMs = performance.now();
    await act();
    return performance.now() - fromMs;
  };
  const times: Record<"plainOut" | "out" | "plainBack" | "back", number[]> = { plainOut: [], out: [], plainBack: [], back: [] };
  let roundsMeanwhile = 0;
  /** The key of `reduced` has rounds, one after the other, until `act` has ended. */
  const whileReducing = async (act: () => Promise<unknown>): Promise<number> => {
    let isOver = false;
    const rounds = (async (): Promise<void> => {
      for (; !isOver; roundsMeanwhile++) await reduced.run();
    })();
    const ms = await wall(act);
    isOver = true;
    await rounds;
    return ms;
  };
  for (let turn = -2; turn < TURNS; turn++) {
    const plainOut = await wall(() => tensor.copyTo(pinned));
    let values = new Float32Array(0);
    const out = await whileReducing(async () => {
      values = (await backend.borrowResult(plan, 0)) as Float32Array<ArrayBuffer>;
    });
    const plainBack = await wall(() => tensor.copyFrom(pinned));
    values.fill(turn);
    const back = await whileReducing(() => backend.returnResult(plan, 0, values));
    if (turn < 0) continue;
    for (const [name, ms] of Object.entries({ plainOut, out, plainBack, back })) times[name as keyof typeof times].push(ms);
  }
  const last = (await backend.borrowResult(plan, 0))[largeLength - 1];
  assert(last === TURNS - 1, `the result has ${last}`);
  const line = (name: string, ours: readonly number[], plain: readonly number[]): string => {
    const rate = (values: readonly number[]): number => (largeLength * FLOAT_BYTES) / median(values) / 1e6;
    return `${name.padEnd(34)} ${rate(ours).toFixed(1)} GB/s; a plain pinned copy ${rate(plain).toFixed(1)}: ${(rate(ours) / rate(plain)).toFixed(2)}`;
  };
  return [
    line("a result to the host", times.out, times.plainOut),
    line("a result from the host", times.back, times.plainBack),
    `rounds reduced during each of these copies: ${(roundsMeanwhile / (2 * (TURNS + 2))).toFixed(1)}`,
  ];
}

const MB = 2 ** 20;

async function main(): Promise<void> {
  const cuda = await cudaHere(() => openCuda({ nativeCalls: koffi, devicesPerCard: deviceCount }));
  const { card } = cuda.device(0);
  console.log(`${card.title}, ${card.architecture}; ${deviceCount} logical devices`);
  const of = async (name: string, spec: OptimizerSpec | undefined, slots: number, length: number, count: number): Promise<Case> =>
    new Rounds(name, await openBackend(cuda), cuda, spec, slots, length, count);
  const large = `${(largeLength * FLOAT_BYTES) / MB} MB`;
  const small = `${keyCount} × 4 KB`;
  const sgd: OptimizerSpec = { type: "sgd", learningRate: RATE };
  const cases: readonly Case[] = [
    await plainCopy(cuda),
    await of(`${large}: sum, hand-out`, undefined, 0, largeLength, 1),
    await of(`${large}: sum, sgd, hand-out`, sgd, 0, largeLength, 1),
    await of(`${large}: sum, momentum, hand-out`, { type: "momentum" }, 1, largeLength, 1),
    await of(`${large}: sum, adagrad, hand-out`, { type: "adagrad" }, 1, largeLength, 1),
    await of(`${large}: sum, adam, hand-out`, { type: "adam" }, 2, largeLength, 1),
    await of(`${small}: sum, sgd, hand-out`, sgd, 0, SMALL_LENGTH, keyCount),
  ];
  const times = cases.map((): number[] => []);
  for (let turn = -WARM_UP_TURNS; turn < TURNS; turn++) {
    for (const [i, one] of cases.entries()) {
      const ms = await one.run();
      if (turn >= 0) times[i]!.push(ms);
    }
  }
  const copyRate = cases[0]!.bytes / median(times[0]!);
  for (const [i, { name, bytes, check }] of cases.entries()) {
    const ms = median(times[i]!);
    const spread = `${Math.min(...times[i]!).toFixed(3)} to ${Math.max(...times[i]!).toFixed(3)}`;
    console.log(
      `${name.padEnd(34)} ${ms.toFixed(3)} ms (${spread})  ${(bytes / ms / 1e9).toFixed(2)} TB/s  ${(bytes / ms / copyRate).toFixed(2)} of the copy`,
    );
    await check.call(cases[i]);
  }
  for (const line of await hostCopies(cuda)) console.log(line);
  cuda.close();
}

await main();
