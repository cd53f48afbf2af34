// shared-model — level 1 of a shared model on the CPU: 4 devices, threads, of 64 MB each push and pull every key,
// beside a plain SIMD sum of the same arrays by as many threads, in turns.
//
//   node bench/shared-model.ts [KEYS [ROUNDS]]      16 keys of 4 MB, 12 rounds, when left out
//
// Counted as moved: for a round of the model 4 reads and 1 write for the sum, 4 reads and 4 writes for the hand-out;
// for the plain sum 4 reads and 1 write. The model moves less than that: it hands a chunk out while it is in the cache.
// Asked for: 0.7 of the plain sum's bandwidth. small: as many rounds of 1,000 keys of 4 KB, with pushAll, pullAll and
// pullWaitAll.

import { once } from "node:events";
import { isMainThread, parentPort, type Worker, workerData } from "node:worker_threads";
import { Arena } from "../src/kernel/arena.ts";
import { ElementType, FLOAT_BYTES } from "../src/kernel/elements.ts";
import type { KernelMemory } from "../src/kernel/inlined-module.ts";
import { attachDevice, createSharedModel, startDeviceThread } from "../src/node/shared-model.ts";
import { quantile } from "./statistics.ts";

const DEVICES = 4;
const DEVICE_BYTES = 64 * 2 ** 20;
const SMALL_KEYS = 1000;
const SMALL_FLOATS = 1024;

type Task = { readonly keyCount: number; readonly rounds: number; readonly shared: SharedArrayBuffer };
type Times = { readonly plain: number[]; readonly model: number[]; readonly small: number[] };

/** Every thread waits until all are there. */
function meet(words: Int32Array): void {
  const turn = Atomics.load(words, 1);
  if (Atomics.add(words, 0, 1) === DEVICES - 1) {
    Atomics.store(words, 0, 0);
    Atomics.add(words, 1, 1);
    Atomics.notify(words, 1);
  } else while (Atomics.load(words, 1) === turn) Atomics.wait(words, 1, turn, 100);
}

async function timed(words: Int32Array, act: () => void | Promise<void>): Promise<number> {
  meet(words);
  const from = performance.now();
  await act();
  meet(words);
  return performance.now() - from;
}

async function runDevice({ keyCount, rounds, shared }: Task): Promise<void> {
  const model = attachDevice();
  const { device } = model;
  const words = new Int32Array(shared);
  const floats = DEVICE_BYTES / FLOAT_BYTES / keyCount;
  const keys = Array.from({ length: keyCount }, (_, key) => key);
  for (const key of keys) await model.initKey([floats], key, device);
  const whole = model.tensor([floats * keyCount], device);
  whole.fill(device + 1);
  const data = keys.map((key) => whole.subarray(key * floats, (key + 1) * floats));

  // The plain sum: the memory and the arrays of the model, a quarter for each thread.
  const given = workerData as {
    readonly weighbridgeDevice: { readonly grant: { readonly cpu: { readonly memory: { readonly memory: KernelMemory } } } };
  };
  const arena = new Arena({ opened: given.weighbridgeDevice.grant.cpu.memory.memory });
  Atomics.store(words, 2 + device, whole.byteOffset);
  if (device === 0) Atomics.store(words, 2 + DEVICES, model.tensor([floats * keyCount], 0).byteOffset);
  const list = model.tensor([16], device);
  meet(words);
  new Int32Array(list.buffer, list.byteOffset, DEVICES).set(words.subarray(2, 2 + DEVICES));
  const result = Atomics.load(words, 2 + DEVICES) >>> 0;
  const share = DEVICE_BYTES / DEVICES;
  const sumPlain = (): void =>
    arena.module.reduceSpans(ElementType.F32, result + device * share, list.byteOffset, DEVICES, 0, 0, device * share, share);

  const round = async (): Promise<void> => {
    for (const [key, each] of data.entries()) {
      model.push(each, key, device, -key);
      model.pullReq(each, key, device, -key);
    }
    for (const key of keys) await model.pullWait(key, device);
  };
  const smalls = Array.from({ length: SMALL_KEYS }, (_, i) => ({ key: 1_000_000 + i, data: model.tensor([SMALL_FLOATS], device) }));
  for (const { key } of smalls) await model.initKey([SMALL_FLOATS], key, device);
  const smallRound = async (): Promise<void> => {
    model.pushAll(smalls, device);
    model.pullAll(smalls, device);
    await model.pullWaitAll(device);
  };
  const times: Times = { plain: [], model: [], small: [] };
  for (let i = 0; i < rounds; i++) {
    times.plain.push(await timed(words, sumPlain));
    whole.fill(device + 1);
    times.model.push(await timed(words, round));
    if (whole[12_345] !== 10) throw new Error(`device ${device} holds ${whole[12_345]}, not 10`);
    times.small.push(await timed(words, smallRound));
  }
  parentPort?.postMessage(times);
}

async function run(keyCount: number, rounds: number): Promise<void> {
  const model = createSharedModel("local");
  await model.init(Array.from({ length: DEVICES }, (_, device) => device));
  const task: Task = { keyCount, rounds, shared: new SharedArrayBuffer(64) };
  const threads = Array.from(
    { length: DEVICES },
    (_, device): Worker => startDeviceThread(model, device, import.meta.filename, { workerData: task }),
  );
  const [{ plain, model: ours, small }] = (await once(threads[0] as Worker, "message")) as [Times];
  await model.close();
  const gigabytes = (count: number, ms: number): number => (count * DEVICE_BYTES) / 1e6 / ms;
  const [plainMs, modelMs, smallMs] = [plain, ours, small].map((times) =>
    quantile(
      times.slice(2).sort((a, b) => a - b),
      0.5,
    ),
  ) as [number, number, number];
  const [plainRate, modelRate] = [gigabytes(DEVICES + 1, plainMs), gigabytes(3 * DEVICES + 1, modelMs)];
  console.log(`${DEVICES} devices x ${DEVICE_BYTES / 2 ** 20} MB in ${keyCount} keys, medians of ${rounds - 2} rounds`);
  console.log(`plain SIMD sum    ${plainMs.toFixed(1)} ms   ${plainRate.toFixed(2)} GB/s`);
  console.log(
    `push and pull     ${modelMs.toFixed(1)} ms   ${modelRate.toFixed(2)} GB/s   ${(modelRate / plainRate).toFixed(2)} of it (asked 0.7)`,
  );
  console.log(`${SMALL_KEYS} keys x 4 KB   ${smallMs.toFixed(2)} ms a round`);
  process.exit(0);
}

if (isMainThread) await run(Number(process.argv[2] ?? 16), Number(process.argv[3] ?? 12));
else await runDevice(workerData as Task);
