// shared-model-cuda — a shared model with device: "cuda". Its rounds are those of the CPU; here is what a card adds.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { EmbeddedCluster } from "weighbridge/embedded";
import { DeviceNet, type Images, rowsOf, trainBatches } from "../../examples/14-cuda-net/net.ts";
import { cudaForTests } from "../../test/support/cuda.ts";
import { Random } from "../base/random.ts";
import type { SharedModel } from "../faces/shared-model/shared-model.ts";
import type { DeviceTensor } from "../gpu/device-tensor.ts";
import type { OptimizerSpec } from "../store/updaters/optimizer-spec.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { type CudaModelOptions, createSharedModel, openCuda } from "./create-shared-model.ts";

const { skip, cuda } = await cudaForTests();
after(() => {
  if (skip === false) cuda().close();
});

async function modelOf(
  devices: readonly number[],
  options: Omit<CudaModelOptions, "device" | "cuda"> = {},
): Promise<SharedModel<DeviceTensor>> {
  const model = createSharedModel("local", { device: "cuda", cuda: cuda(), ...options });
  await model.init(devices);
  return model;
}

function filled(model: SharedModel<DeviceTensor>, device: number, shape: readonly number[], value: number): DeviceTensor {
  const tensor = model.tensor(shape, device);
  tensor.fill(value);
  return tensor;
}

const valuesOf = async (tensor: DeviceTensor): Promise<number[]> => Array.from(await tensor.toArray(), Number);

test("without CUDA, init of a model for it is NO_DEVICE, which says what is missing", {
  skip: skip === false && "this machine has CUDA",
}, async () => {
  await using model = createSharedModel("local", { device: "cuda" });
  await assert.rejects(model.init([0]), throwsCode("NO_DEVICE", /no CUDA on this machine/));
  await assert.rejects(openCuda(), throwsCode("NO_DEVICE", /no CUDA on this machine/));
});

test("options that only CUDA has are refused for the CPU, and unknown ones by name", () => {
  assert.throws(() => createSharedModel("local", { devicesPerCard: 2 } as never), throwsCode("BAD_ARGUMENT", /devicesPerCard/));
  assert.throws(
    () => createSharedModel("local", { device: "cuda", devicePerCard: 2 } as never),
    throwsCode("BAD_ARGUMENT", /devicePerCard/),
  );
});

test("local_sum: every device gets the sums of its rows, for devices 0 to 2, 1 and 2, and 0 to 3", { skip }, async () => {
  for (const [devices, expected] of [
    [
      [0, 1, 2],
      [3, 6],
    ],
    [
      [1, 2],
      [2, 5],
    ],
    [
      [0, 1, 2, 3],
      [4, 10],
    ],
  ] as const) {
    await using model = await modelOf(devices);
    const data = devices.map((device) => [filled(model, device, [3], 1), filled(model, device, [3], 1 + device)] as const);
    for (const [position, device] of devices.entries()) {
      for (const key of [0, 1] as const) {
        await model.initKey([3], key, device);
        model.push(data[position]![key], key, device);
        model.pullReq(data[position]![key], key, device);
      }
    }
    for (const [position, device] of devices.entries()) {
      for (const key of [0, 1] as const) {
        await model.pullWait(key, device);
        assert.deepEqual(await valuesOf(data[position]![key]), [expected[key], expected[key], expected[key]], `devices ${devices.join()}`);
      }
    }
  }
});

test("update_on_server: a pull before any push gets the first weights, and one update is made of all gradients", { skip }, async () => {
  await using model = await modelOf([0, 1], { updater: { type: "sgd", learningRate: 0.5 }, initialWeight: 10 });
  const [weights, gradients] = [
    [0, 1].map((device) => filled(model, device, [5], -1)),
    [1, 2].map((value, device) => filled(model, device, [5], value)),
  ];
  for (const device of [0, 1]) {
    await model.initKey([5], 7, device);
    model.pullReq(weights[device]!, 7, device);
    await model.pullWait(7, device);
    assert.deepEqual(await valuesOf(weights[device]!), [10, 10, 10, 10, 10]);
    model.push(gradients[device]!, 7, device);
    model.pullReq(weights[device]!, 7, device);
  }
  for (const device of [0, 1]) {
    await model.pullWait(7, device);
    assert.deepEqual(await valuesOf(weights[device]!), [8.5, 8.5, 8.5, 8.5, 8.5]);
    model.pullReq(weights[device]!, 7, device); // the same again
    await model.pullWait(7, device);
    assert.deepEqual(await valuesOf(weights[device]!), [8.5, 8.5, 8.5, 8.5, 8.5]);
  }
});

test("a user's updater gets the sum on the host, through pinned memory, and its weights go back to the card", { skip }, async () => {
  const seen: number[][] = [];
  const updater = {
    initModel: (_: number, weights: Float32Array) => void weights.fill(10),
    update: (_: number, weights: Float32Array, gradient: Float32Array): void => {
      seen.push([...gradient]);
      for (let i = 0; i < weights.length; i++) weights[i] = weights[i]! - 0.5 * gradient[i]!;
    },
  };
  await using model = await modelOf([0, 1], { updater: updater as never });
  const data = [1, 2].map((value, device) => filled(model, device, [4], value));
  for (const device of [0, 1]) {
    await model.initKey([4], 0, device);
    model.push(data[device]!, 0, device);
    model.pullReq(data[device]!, 0, device);
  }
  for (const device of [0, 1]) {
    await model.pullWait(0, device);
    assert.deepEqual(await valuesOf(data[device]!), [8.5, 8.5, 8.5, 8.5]);
  }
  assert.deepEqual(seen, [[3, 3, 3, 3]]);
});

test("updaters of f64 run on the card, and those that it has not on the host, as on the CPU within one part in a million (f32) or 10^12 (f64)", {
  skip,
}, async () => {
  const run = async (device: "cpu" | "cuda", dtype: "f32" | "f64", updater: OptimizerSpec): Promise<number[]> => {
    const options = { dtype, updater, initialWeight: 2 };
    const model = device === "cuda" ? await modelOf([0], options) : createSharedModel<"f32" | "f64">("local", options);
    if (device === "cpu") await model.init([0]);
    await model.initKey([1000], 3, 0);
    const data = model.tensor([1000], 0) as DeviceTensor & Float32Array; // both have fill
    for (let step = 1; step <= 4; step++) {
      data.fill(step / 3);
      (model as SharedModel<object>).push(data, 3, 0);
      (model as SharedModel<object>).pullReq(data, 3, 0);
      await model.pullWait(3, 0);
    }
    const values = device === "cuda" ? await valuesOf(data) : Array.from(data, Number);
    await model.close();
    return values;
  };
  const cases = [
    ...(["adam", "momentum", "adagrad", "rmsprop"] as const).map((type) => ({ dtype: "f64", type }) as const),
    ...(["rmsprop", "ftrl"] as const).map((type) => ({ dtype: "f32", type }) as const),
  ];
  for (const { dtype, type } of cases) {
    const [ours, expected] = [await run("cuda", dtype, { type }), await run("cpu", dtype, { type })];
    const bound = dtype === "f32" ? 1e-6 : 1e-12;
    for (const [i, value] of ours.entries())
      assert.ok(Math.abs(value - expected[i]!) <= bound * Math.abs(expected[i]!), `${type} of ${dtype}: ${value}, not ${expected[i]}`);
  }
});

test("dist: what the devices of a card pushed goes to the servers and comes back, or is added up among the workers", { skip }, async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const throughServers = { updater: { type: "sgd", learningRate: 0.5 }, initialWeight: 10 } as const;
  for (const options of [throughServers, { through: "allReduce" } as const]) {
    const models = cluster.sessions.map((session) => createSharedModel("dist", { device: "cuda", cuda: cuda(), session, ...options }));
    const rounds = models.map(async (model) => {
      await model.init([0, 1]);
      const data = [1, 2].map((value, device) => filled(model, device, [4], value));
      for (const device of [0, 1]) await model.initKey([4], 0, device);
      for (const device of [0, 1]) model.push(data[device]!, 0, device);
      for (const device of [0, 1]) model.pullReq(data[device]!, 0, device);
      for (const device of [0, 1]) await model.pullWait(0, device);
      const [one, other] = await Promise.all(data.map(valuesOf));
      assert.deepEqual(one, other);
      return one![3]!;
    });
    const seen = (await Promise.all(rounds)).toSorted((one, other) => one - other);
    if ("through" in options) assert.deepEqual(seen, [6, 6]);
    else assert.ok(seen[0] === 7 && (seen[1] === 7 || seen[1] === 8.5), `${seen.join(", ")}: the last one sees both updates`);
    await Promise.all(models.map((model) => model.close()));
  }
});

test("4 devices, 100 rounds: every device has the same bits in every round, and no round has data of another", { skip }, async () => {
  const devices = [0, 1, 2, 3];
  await using model = await modelOf(devices);
  const random = new Random(11);
  const [length, keys] = [1337, [0, 1, 2]];
  const inputs = devices.map(() => Float32Array.from({ length }, () => random.fraction() - 0.5));
  for (const device of devices) for (const key of keys) await model.initKey([length], key, device);
  const scale = cuda()
    .device(0)
    .kernel(
      `extern "C" __global__ void scale(float *p, const float *x, float a, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = a * x[i]; }`,
      "scale",
    );
  const data = devices.map((device) => keys.map(() => model.tensor([length], device)));
  const source = await Promise.all(
    devices.map(async (device) => {
      const tensor = model.tensor([length], device);
      await tensor.copyFrom(inputs[device]!);
      return tensor;
    }),
  );
  await Promise.all(
    devices.map(async (device) => {
      const { stream } = cuda().device(device);
      for (let round = 1; round <= 100; round++) {
        for (const key of keys) {
          await model.pullWait(key, device);
          const factor = 2 ** (round % 5); // a power of two: the sum is scaled without rounding
          scale.launch({ grid: 11, block: 128, stream }, data[device]![key]!, source[device]!, { f32: factor }, { i32: length });
          model.push(data[device]![key]!, key, device, -key);
          model.pullReq(data[device]![key]!, key, device, -key, async () => {
            if (round % 20 !== 0) return;
            const sum = inputs[0]!.slice();
            for (const input of inputs.slice(1)) for (let i = 0; i < length; i++) sum[i] = sum[i]! + input[i]!;
            assert.deepEqual(
              await data[device]![key]!.toArray(),
              sum.map((value) => value * factor),
            );
          });
        }
      }
      await model.pullWaitAll(device);
    }),
  );
});

test("push takes the stream after which its data are ready, and a tensor over a foreign pointer", { skip }, async () => {
  await using model = await modelOf([0]);
  const device = cuda().device(0);
  await model.initKey([1 << 16], 0, 0);
  const owner = model.tensor([1 << 16], 0);
  const foreign = device.foreign(owner.address, [1 << 16]);
  await device.finish();
  const slow = device.kernel(
    `extern "C" __global__ void slow(float *p, int n) { long long until = clock64() + 20000000; while (clock64() < until) {}
      for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = 5; }`,
    "slow",
  );
  const stream = device.createStream();
  const pulled = model.tensor([1 << 16], 0);
  slow.launch({ grid: 1, block: 256, stream }, owner, { i32: 1 << 16 });
  model.push(foreign, 0, 0, 0, { after: stream });
  model.pullReq(pulled, 0, 0);
  await model.pullWait(0, 0);
  assert.equal((await valuesOf(pulled)).at(-1), 5);
  stream.close();
});

test("setWeight and checkWeight take tensors of the card", { skip }, async () => {
  const model = createSharedModel("local", { device: "cuda", cuda: cuda(), updater: { type: "sgd", learningRate: 0.5 } });
  model.setParam("test_on_server", 1);
  await model.init([0]);
  await model.initKey([3], 0, 0);
  const [weights, gradient] = [model.tensor([3], 0), model.tensor([3], 0)];
  weights.fill(7);
  await model.setWeight(weights, 0, 0);
  await model.checkWeight(weights, 0, 0);
  gradient.fill(2);
  model.push(gradient, 0, 0);
  model.pullReq(gradient, 0, 0);
  await model.pullWait(0, 0);
  assert.deepEqual(await valuesOf(gradient), [6, 6, 6]);
  await assert.rejects(model.checkWeight(weights, 0, 0), throwsCode("SPEC_MISMATCH", /key 0 has 6 at 0 where device 0 has 7/));
  await model.close();
});

test("a bad device number, data of the CPU, a wrong length and a device twice are typed errors", { skip }, async () => {
  const model = createSharedModel("local", { device: "cuda", cuda: cuda() });
  await assert.rejects(model.init([0, 99]), throwsCode("BAD_ARGUMENT", /there is no device 99/));
  await model.init([0, 1]);
  await model.initKey([4], 0, 0);
  assert.throws(() => model.push(new Float32Array(4) as never, 0, 0), throwsCode("BAD_ARGUMENT", /takes a tensor on CUDA/));
  assert.throws(() => model.push(model.tensor([5], 0), 0, 0), throwsCode("VALUE_LENGTH"));
  assert.throws(() => model.push(model.tensor([4], 0), 1, 0), throwsCode("UNKNOWN_PARAMETER"));
  await model.close();
});

/** Digits that can be told apart: a bright block whose place is the label, with noise. */
function digits(count: number): Images {
  const random = new Random(5);
  const pixels = Uint8Array.from({ length: 784 * count }, () => random.below(60));
  const labels = Uint8Array.from({ length: count }, () => random.below(10));
  for (const [i, label] of labels.entries()) for (let j = 0; j < 40; j++) pixels[784 * i + 70 * label + j] = 200 + random.below(50);
  return { pixels, labels, count };
}

test("the 784-100-10 net on 1, 2 and 4 devices has the same weights after 100 batches within 1e-4, and learns", {
  skip,
  timeout: 120_000,
}, async () => {
  const images = digits(2000);
  let first: readonly Float32Array[] | undefined;
  for (const deviceCount of [1, 2, 4]) {
    const devices = Array.from({ length: deviceCount }, (_, device) => device);
    await using model = await modelOf(devices);
    const nets = await Promise.all(devices.map((device) => DeviceNet.open(cuda(), model, device, images, rowsOf(deviceCount))));
    await trainBatches(nets, 100, images.count);
    const weights = await nets[0]!.weights();
    for (const net of nets) assert.deepEqual(await net.weights(), weights, "every device has the same bits");
    first ??= weights;
    for (const [key, values] of weights.entries()) {
      const most = values.reduce((greatest, value, i) => Math.max(greatest, Math.abs(value - first![key]![i]!)), 0);
      assert.ok(most <= 1e-4, `${deviceCount} devices, key ${key}: ${most} apart`);
    }
    const tester = await DeviceNet.open(cuda(), model, 0, images, images.count);
    await tester.setWeights(weights);
    assert.ok((await tester.errors(images.count)) < 0.05 * images.count);
  }
});
