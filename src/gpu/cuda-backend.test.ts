// cuda-backend — rounds, hand-outs and gathers on a card beside the same on the CPU.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cudaForTests } from "../../test/support/cuda.ts";
import { Random } from "../base/random.ts";
import { Arena } from "../kernel/arena.ts";
import { SimdOptimizerKernels } from "../kernel/optimizer-kernels.ts";
import type { RowElement } from "../kernel/row-element.ts";
import { type OptimizerSpec, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import { Updater } from "../store/updaters/updater.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { KeyPlan, ModelTask, PushOperation, ResultVersion } from "../worker/level-one/model-backend.ts";
import { CudaBackend } from "./cuda-backend.ts";
import { CudaStream } from "./cuda-stream.ts";
import type { DeviceTensor } from "./device-tensor.ts";

const { skip, cuda } = await cudaForTests();
after(() => {
  if (skip === false) cuda().close();
});

const DEVICES = [0, 1, 2, 3];
/** Below and above a tile, with and without a rest, and one that gets a launch of its own. */
const LENGTHS = [1, 3, 4, 1000, 1024, 1025, 5001, 600_003];
const SPECS: readonly OptimizerSpec[] = [
  { type: "sum" },
  { type: "sgd", learningRate: 0.3 },
  { type: "sgd", learningRate: 0.3, weightDecay: 0.01, clipValue: 0.5 },
  { type: "momentum", learningRate: 0.1, momentum: 0.8, weightDecay: 0.001 },
  { type: "nesterov", learningRate: 0.1 },
  { type: "adagrad", learningRate: 0.2, initialAccumulator: 0.1 },
  { type: "adam", learningRate: 0.01, weightDecay: 0.02 },
  { type: "adamW", learningRate: 0.01 },
  { type: "adam", learningRate: 0.01, schedule: { type: "step", every: 2, factor: 0.5 } },
];

function planOf(index: number, length: number, operation: PushOperation = "sum"): KeyPlan {
  const resultLength = operation === "gather" ? DEVICES.length * length : length;
  return { key: 10 + index, index, shape: [length], length, resultLength, operation };
}

async function openBackend(dtype: RowElement = "f32"): Promise<CudaBackend> {
  const backend = new CudaBackend({ openCuda: async () => cuda(), ownsCuda: false, dtype });
  await backend.open(DEVICES);
  return backend;
}

function run({ runner }: CudaBackend, tasks: readonly ModelTask[]): Promise<void> {
  assert.ok(runner.kind === "batch");
  return runner.runBatch(tasks);
}

function drawn(random: Random, length: number): Float32Array {
  return Float32Array.from({ length }, () => random.fraction() * 2 - 1);
}

/** One after the other, in the order of devices, each sum rounded. */
function sumOf(arrays: readonly Float32Array[]): Float32Array {
  const sum = arrays[0]!.slice();
  for (const array of arrays.slice(1)) for (let i = 0; i < sum.length; i++) sum[i] = sum[i]! + array[i]!;
  return sum;
}

/** The update of the CPU's kernels. */
class CpuUpdate {
  readonly weights: Float32Array;
  readonly #updater: Updater;
  readonly #addresses: { readonly values: number; readonly slots: number; readonly gradients: number };
  readonly #arena = new Arena({ bytesMax: 1 << 26 });

  constructor(spec: OptimizerSpec, length: number) {
    const arena = this.#arena;
    this.#updater = new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer(spec), { kind: "tensor", width: length });
    const values = arena.allocate(4 * length);
    const slots = arena.allocate(Math.max(8, this.#updater.blockSlotBytes(1)));
    const gradients = arena.allocate(4 * length);
    this.weights = arena.floats.subarray(values / 4, values / 4 + length);
    this.weights.fill(0);
    this.#updater.startBlock(values, slots, 1);
    this.#addresses = { values, slots, gradients };
  }

  apply(gradient: Float32Array, round: number): void {
    const { values, slots, gradients } = this.#addresses;
    this.#arena.floats.set(gradient, gradients / 4);
    this.#updater.begin({ step: round, scheduleStep: round - 1, gradientScale: 1, workerRank: undefined });
    this.#updater.updateBlock({ target: values, source: values, slots, rowCount: 1 }, gradients);
  }
}

async function tensorsOf(arrays: readonly Float32Array[]): Promise<readonly DeviceTensor[]> {
  return Promise.all(
    arrays.map(async (array, device) => {
      const tensor = cuda().device(device).allocate([array.length]);
      await tensor.copyFrom(array);
      return tensor;
    }),
  );
}

const refsOf = (tensors: readonly DeviceTensor[]): readonly number[] => tensors.map(({ ref }) => ref);

test("sums, SGD, momentum, AdaGrad, Adam and their kin have the same bits as the CPU's kernels, round after round", { skip }, async () => {
  for (const spec of SPECS) {
    const backend = await openBackend();
    const random = new Random(7);
    const plans = LENGTHS.map((length, index) => planOf(index, length));
    for (const plan of plans) backend.openKey(plan, resolveOptimizer(spec));
    const expected = LENGTHS.map((length) => new CpuUpdate(spec, length));
    for (let round = 1; round <= 4; round++) {
      const pushed = LENGTHS.map((length) => DEVICES.map(() => drawn(random, length)));
      const tensors = await Promise.all(pushed.map(tensorsOf));
      const version = (round % 2) as ResultVersion;
      await run(
        backend,
        plans.map((plan, k) => {
          const refs = refsOf(tensors[k]!);
          return { kind: "reduce", plan, round, version, sources: refs, targets: refs };
        }),
      );
      for (const [k, update] of expected.entries()) {
        update.apply(sumOf(pushed[k]!), round);
        for (const tensor of tensors[k]!) {
          assert.deepEqual(
            await tensor.toArray(),
            update.weights.slice(),
            `${JSON.stringify(spec)}, ${LENGTHS[k]} elements, round ${round}`,
          );
          tensor.free();
        }
      }
    }
    await backend.close();
  }
});

test("without an updater the sum is the result, of spans at any offset, and fewer pulls than devices are served", { skip }, async () => {
  const backend = await openBackend();
  const random = new Random(3);
  const plans = LENGTHS.map((length, index) => planOf(index, length));
  for (const plan of plans) backend.openKey(plan, undefined);
  const arrays = LENGTHS.map((length) => DEVICES.map(() => drawn(random, length + 3)));
  const whole = await Promise.all(arrays.map(tensorsOf));
  // An offset of 3 floats: no address is a multiple of 16.
  const tensors = whole.map((list, k) => list.map((tensor) => tensor.view(3, [LENGTHS[k]!])));
  await run(
    backend,
    plans.map((plan, k) => {
      const refs = refsOf(tensors[k]!);
      return { kind: "reduce", plan, round: 1, version: 1, sources: refs, targets: [refs[1]!, refs[3]!] };
    }),
  );
  for (const [k, list] of tensors.entries()) {
    const inputs = arrays[k]!.map((array) => array.slice(3));
    for (const [device, tensor] of list.entries())
      assert.deepEqual(await tensor.toArray(), device % 2 === 1 ? sumOf(inputs) : inputs[device], `${LENGTHS[k]}, device ${device}`);
  }
  await run(
    backend,
    plans.map((plan, k) => ({ kind: "handOut", plan, version: 1, device: 0, target: tensors[k]![0]!.ref })),
  );
  for (const [k, [tensor]] of tensors.entries())
    assert.deepEqual(await tensor!.toArray(), sumOf(arrays[k]!.map((array) => array.slice(3))));
  await backend.close();
});

test("gather gives every device the rows of all, in their order", { skip }, async () => {
  const backend = await openBackend();
  const random = new Random(5);
  const plans = LENGTHS.map((length, index) => planOf(index, length, "gather"));
  for (const plan of plans) backend.openKey(plan, undefined);
  for (const [k, plan] of plans.entries()) {
    const arrays = DEVICES.map(() => drawn(random, LENGTHS[k]!));
    const tensors = await tensorsOf(arrays);
    const pulled = await tensorsOf(DEVICES.map(() => new Float32Array(plan.resultLength)));
    await run(backend, [{ kind: "reduce", plan, round: 1, version: 0, sources: refsOf(tensors), targets: refsOf(pulled) }]);
    const expected = Float32Array.from(arrays.flatMap((array) => [...array]));
    for (const tensor of pulled) assert.deepEqual(await tensor.toArray(), expected);
    assert.deepEqual(Float32Array.from(await backend.borrowResult(plan, 0), Number), expected);
  }
  await backend.close();
});

test("a device that has ended is left out of a sum, and its rows of a gather are zeros", { skip }, async () => {
  const backend = await openBackend();
  const [sum, gather] = [planOf(0, 1030), planOf(1, 6, "gather")];
  backend.openKey(sum, resolveOptimizer({ type: "sgd", learningRate: 1 }));
  backend.openKey(gather, undefined);
  const filled = (length: number): readonly DeviceTensor[] =>
    DEVICES.map((device) => {
      const tensor = backend.tensor([length], device);
      tensor.fill(device + 1);
      return tensor;
    });
  const [pushed, rows, pulled] = [filled(1030), filled(6), filled(24)];
  const without = (tensors: readonly DeviceTensor[]): readonly number[] => tensors.map(({ ref }, device) => (device === 1 ? 0 : ref));
  await run(backend, [
    { kind: "reduce", plan: sum, round: 1, version: 1, sources: without(pushed), targets: [pushed[3]!.ref] },
    { kind: "reduce", plan: gather, round: 1, version: 1, sources: without(rows), targets: [pulled[0]!.ref] },
  ]);
  assert.ok((await pushed[3]!.toArray()).every((value) => value === -8));
  const row = (value: number): number[] => [value, value, value, value, value, value];
  assert.deepEqual([...(await pulled[0]!.toArray())], [...row(1), ...row(0), ...row(3), ...row(4)]);
  await backend.close();
});

test("f64 is computed in f64, and sums of i32 and i64 wrap around", { skip }, async () => {
  const cases = [
    { dtype: "f64", values: [0.1, 0.2, 0.3, 1e-17], expected: -0.5 * (0.1 + 0.2 + 0.3 + 1e-17), spec: { type: "sgd", learningRate: 0.5 } },
    { dtype: "i32", values: [2 ** 31 - 1, 1, 0, 0], expected: -(2 ** 31), spec: undefined },
    { dtype: "i64", values: [2 ** 53 - 1, 1, 1, 0], expected: 2 ** 53, spec: undefined },
  ] as const;
  for (const { dtype, values, expected, spec } of cases) {
    const backend = await openBackend(dtype);
    const plan = planOf(0, 1001);
    backend.openKey(plan, spec === undefined ? undefined : resolveOptimizer(spec));
    const tensors = values.map((value, device) => {
      const tensor = cuda().device(device).allocate([1001], { dtype });
      tensor.fill(value);
      return tensor;
    });
    const refs = refsOf(tensors);
    await run(backend, [{ kind: "reduce", plan, round: 1, version: 1, sources: refs, targets: refs }]);
    assert.ok(
      Array.from(await tensors[2]!.toArray(), Number).every((value) => value === expected),
      dtype,
    );
    await backend.close();
  }
});

test("tasks of one key are done in their order within a batch (TaskLaunches.L1)", { skip }, async () => {
  const backend = await openBackend();
  const plan = planOf(0, 4099);
  backend.openKey(plan, resolveOptimizer({ type: "sgd", learningRate: 1 }));
  const gradients = DEVICES.map((device) => {
    const tensor = backend.tensor([4099], device);
    tensor.fill(1);
    return tensor;
  });
  const pulled = [1, 2, 3].map(() => backend.tensor([4099], 0));
  const tasks = [1, 2, 3].flatMap((round): ModelTask[] => [
    { kind: "reduce", plan, round, version: (round % 2) as ResultVersion, sources: refsOf(gradients), targets: [] },
    { kind: "handOut", plan, version: (round % 2) as ResultVersion, device: 0, target: pulled[round - 1]!.ref },
  ]);
  await run(backend, tasks);
  for (const [index, tensor] of pulled.entries()) assert.equal((await tensor.toArray())[4098], -4 * (index + 1));
  await backend.close();
});

test("a push waits for the stream or the event that it names (CudaBackend.B1)", { skip }, async () => {
  const backend = await openBackend();
  const plan = planOf(0, 1 << 16);
  backend.openKey(plan, undefined);
  const device = cuda().device(0);
  const slow = device.kernel(
    `extern "C" __global__ void slow(float *p, int n) {
      long long until = clock64() + 20000000;
      while (clock64() < until) {}
      for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = 5;
    }`,
    "slow",
  );
  const streams = DEVICES.map(() => new CudaStream(device.card));
  const tensors = DEVICES.map((position) => backend.tensor([1 << 16], position));
  await Promise.all(DEVICES.map((number) => cuda().device(number).finish()));
  const sources = tensors.map((data, position) => {
    const stream = streams[position]!;
    slow.launch({ grid: 1, block: 256, stream }, data, { i32: 1 << 16 });
    const pushed = { plan, device: position, data };
    if (position < 2) return backend.takePush({ ...pushed, after: stream }, 1);
    const event = stream.record();
    const ref = backend.takePush({ ...pushed, after: event }, 1);
    event.release();
    return ref;
  });
  await run(backend, [{ kind: "reduce", plan, round: 1, version: 1, sources, targets: sources }]);
  assert.equal((await tensors[3]!.toArray())[65_535], 20);
  assert.throws(
    () => backend.takePush({ plan, device: 0, data: tensors[0]!, after: "later" }, 1),
    throwsCode("BAD_ARGUMENT", /a stream or an event of CUDA, not "later"/),
  );
  for (const stream of streams) stream.close();
  await backend.close();
});

test("a result is borrowed as an array of the host, and what is returned is what the next hand-out gets", { skip }, async () => {
  const backend = await openBackend();
  const plan = planOf(0, 5000);
  backend.openKey(plan, undefined);
  const values = (await backend.borrowResult(plan, 1)) as Float32Array;
  assert.ok(values.every((value) => value === 0));
  values.fill(3);
  await backend.returnResult(plan, 1, values);
  const tensor = backend.tensor([5000], 2);
  await run(backend, [{ kind: "handOut", plan, version: 1, device: 2, target: tensor.ref }]);
  assert.equal((await tensor.toArray())[4999], 3);
  await backend.returnResult(plan, 0, new Float32Array(5000).fill(4));
  await run(backend, [{ kind: "handOut", plan, version: 0, device: 2, target: tensor.ref }]);
  assert.equal((await tensor.toArray())[0], 4);
  await backend.close();
});

test("bad data, an updater that CUDA lacks and a tensor that was freed before its round are typed errors", { skip }, async () => {
  const backend = await openBackend();
  const plan = planOf(0, 8);
  for (const spec of [{ type: "ftrl" }, { type: "sgd", clipNorm: 1 }] as const)
    assert.throws(() => backend.openKey(plan, resolveOptimizer(spec)), throwsCode("UNSUPPORTED", /CUDA/));
  backend.openKey(plan, undefined);
  const [tensor, other] = [backend.tensor([8], 0), backend.tensor([8], 1)];
  assert.throws(() => backend.checkData(new Float32Array(8) as never, "push"), throwsCode("BAD_ARGUMENT", /push takes a tensor on CUDA/));
  const wide = cuda().device(0).allocate([8], { dtype: "f64" });
  assert.throws(() => backend.checkData(wide, "push"), throwsCode("BAD_ARGUMENT", /the model is of f32/));
  const { ref } = tensor;
  tensor.free();
  assert.throws(() => backend.checkData(tensor, "push"), throwsCode("BAD_ARGUMENT", /was freed/));
  const sources = [ref, other.ref, other.ref, other.ref];
  await assert.rejects(run(backend, [{ kind: "reduce", plan, round: 1, version: 1, sources, targets: [] }]), throwsCode("CLOSED", /freed/));
  await run(backend, [{ kind: "reduce", plan, round: 1, version: 1, sources: [...sources.slice(1), other.ref], targets: [] }]);
  await backend.close();
  await assert.rejects(run(backend, []), throwsCode("CLOSED"));
});
