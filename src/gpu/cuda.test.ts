// cuda — tensors, streams and kernels on a card; the tests without one are in no-cuda.test.ts.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cudaForTests } from "../../test/support/cuda.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { CudaStream } from "./cuda-stream.ts";
import type { TensorType } from "./device-tensor.ts";

const { skip, cuda } = await cudaForTests();
after(() => {
  if (skip === false) cuda().close();
});

const AXPY = `extern "C" __global__ void axpy(float *y, const float *x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}`;

test("a tensor of every type is filled, copied to and from, and copied to another", { skip }, async () => {
  const device = cuda().device(0);
  for (const dtype of ["f32", "f64", "i32", "i64", "u32", "u8"] as const satisfies readonly TensorType[]) {
    const tensor = device.allocate([2, 3], { dtype });
    tensor.fill(7);
    assert.deepEqual(Array.from(await tensor.toArray(), Number), [7, 7, 7, 7, 7, 7], dtype);
    const source = await tensor.toArray();
    for (let i = 0; i < source.length; i++) source[i] = dtype === "i64" ? BigInt(i) : i;
    await tensor.copyFrom(source);
    const other = cuda().device(1).allocate([6], { dtype });
    other.copyFromTensor(tensor);
    assert.deepEqual(await other.toArray(), source, dtype);
    tensor.free();
    other.free();
  }
  const halves = device.allocate([1000], { dtype: "f64" });
  halves.fill(-2.5);
  assert.ok((await halves.toArray()).every((value) => value === -2.5));
  halves.free();
});

test("a view shares the memory of its tensor, and both are gone after free", { skip }, async () => {
  const tensor = cuda().device(0).allocate([10]);
  tensor.fill(0);
  const view = tensor.view(4, [2]);
  await view.copyFrom(Float32Array.of(1, 2));
  assert.deepEqual([...(await tensor.toArray())], [0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
  assert.throws(() => tensor.view(9, [2]), throwsCode("BAD_ARGUMENT", /view of \[2\] from element 9 on is beyond a tensor f32\[10\]/));
  view.free();
  tensor.free();
  await assert.rejects(tensor.toArray(), throwsCode("CLOSED", /freed/));
  assert.throws(() => view.address, throwsCode("CLOSED", /freed/));
});

test("an array in pinned memory is copied where it lies, and detached when it is given back", { skip }, async () => {
  const device = cuda().device(0);
  const array = device.pinned(1 << 20) as Float32Array;
  for (let i = 0; i < array.length; i++) array[i] = i;
  const tensor = device.allocate([array.length]);
  await tensor.copyFrom(array);
  array.fill(0);
  await tensor.copyTo(array);
  assert.equal(array[12_345], 12_345);
  device.unpin(array);
  assert.equal(array.length, 0);
  tensor.free();
});

test("a tensor over a foreign pointer reads that memory, and leaves it to its owner", { skip }, async () => {
  const device = cuda().device(0);
  const owner = device.allocate([8]);
  owner.fill(3);
  const foreign = device.foreign(BigInt(owner.address), [8]);
  assert.deepEqual(await foreign.toArray(), await owner.toArray());
  foreign.free();
  assert.equal((await owner.toArray())[0], 3);
  assert.throws(() => device.foreign(owner.address, [9]), throwsCode("BAD_ARGUMENT", /bytes behind it, and the tensor takes 36/));
  assert.throws(() => device.foreign(4096, [1]), throwsCode("BAD_ARGUMENT", /is not memory of card 0/));
  assert.throws(() => device.foreign(owner.address + 1, [1]), throwsCode("BAD_ARGUMENT", /multiple of 4/));
  owner.free();
});

test("a user's kernel runs after what its stream had before, and on a stream that follows another", { skip }, async () => {
  const device = cuda().device(0);
  const axpy = device.kernel(AXPY, "axpy");
  const length = 100_000;
  const [y, x] = [device.allocate([length]), device.allocate([length])];
  y.fill(1);
  x.fill(2);
  axpy.launch({ grid: Math.ceil(length / 256), block: 256 }, y, x, { f32: 0.5 }, { i32: length });
  const stream = new CudaStream(device.card);
  stream.follow(device.stream);
  axpy.launch({ grid: [Math.ceil(length / 128)], block: [128, 1], stream }, y, x, { f32: 10 }, { i32: length });
  device.stream.follow(stream);
  assert.ok((await y.toArray()).every((value) => value === 22));
  stream.close();
  x.free();
  y.free();
});

test("a launch whose values do not fit the kernel's parameters is refused before the card sees it", { skip }, () => {
  const device = cuda().device(0);
  const axpy = device.kernel(AXPY, "axpy");
  const y = device.allocate([4]);
  const size = { grid: 1, block: 32 };
  assert.throws(() => axpy.launch(size, y, y), throwsCode("BAD_ARGUMENT", /axpy has 4 parameters, and got 2 values/));
  assert.throws(
    () => axpy.launch(size, y, y, { f64: 1 }, { i32: 4 }),
    throwsCode("BAD_ARGUMENT", /parameter 2 of kernel axpy takes 4 bytes/),
  );
  assert.throws(() => axpy.launch({ grid: 0, block: 32 }, y, y, { f32: 1 }, { i32: 4 }), throwsCode("BAD_ARGUMENT", /grid/));
  y.free();
});

test("a launch that the driver refuses is DEVICE_FAILED with the kernel's name, and the card goes on", { skip }, async () => {
  const device = cuda().device(0);
  const axpy = device.kernel(AXPY, "axpy");
  const y = device.allocate([4]);
  y.fill(1);
  assert.throws(
    () => axpy.launch({ grid: 1, block: 2048 }, y, y, { f32: 1 }, { i32: 4 }),
    throwsCode("DEVICE_FAILED", /launch of kernel axpy with grid 1 and block 2048: CUDA_ERROR_INVALID_VALUE/),
  );
  axpy.launch({ grid: 1, block: 32 }, y, y, { f32: 1 }, { i32: 4 });
  assert.deepEqual([...(await y.toArray())], [2, 2, 2, 2]);
  y.free();
});

test("a source that does not compile is KERNEL_REJECTED with the compiler's log, and an unknown name BAD_ARGUMENT", { skip }, () => {
  const device = cuda().device(0);
  assert.throws(() => device.kernel("this is no C++", "axpy"), throwsCode("KERNEL_REJECTED", /"axpy.cu" does not compile:\n.*error/s));
  assert.throws(() => device.kernel(AXPY, "saxpy"), throwsCode("BAD_ARGUMENT", /no kernel "saxpy"/));
});

test("memory that the card does not have is DEVICE_MEMORY_FULL with what is free", { skip }, async () => {
  const device = cuda().device(0);
  assert.throws(
    () => device.allocate([2 ** 42]),
    throwsCode("DEVICE_MEMORY_FULL", /no 17592186044416 bytes of memory \(\d+ of \d+ are free\)/),
  );
  const tensor = device.allocate([4]);
  tensor.fill(5);
  assert.deepEqual([...(await tensor.toArray())], [5, 5, 5, 5]);
  tensor.free();
});

test("a device number that no card has, a bad shape, type or array are BAD_ARGUMENT", { skip }, async () => {
  for (const number of [-1, 0.5, 4 * cuda().cardCount])
    assert.throws(() => cuda().device(number), throwsCode("BAD_ARGUMENT", /there is no device/));
  const device = cuda().device(0);
  for (const shape of [[], [0], [2, -1], [1.5]]) assert.throws(() => device.allocate(shape), throwsCode("BAD_ARGUMENT", /a shape is/));
  assert.throws(() => device.allocate([1], { dtype: "f16" as "f32" }), throwsCode("BAD_ARGUMENT", /one of f32, f64/));
  const tensor = device.allocate([4]);
  await assert.rejects(tensor.copyFrom(new Float32Array(5)), throwsCode("BAD_ARGUMENT", /has 4 elements, the array 5/));
  await assert.rejects(tensor.copyTo(new Float64Array(4)), throwsCode("BAD_ARGUMENT", /takes a Float32Array, not a Float64Array/));
  tensor.free();
});

test("a wait for the card ends when its signal is aborted", { skip }, async () => {
  const device = cuda().device(0);
  await assert.rejects(device.finish({ signal: AbortSignal.abort(new Error("enough")) }), throwsCode("ABORTED", /enough/));
  await device.finish();
});

test("two logical devices share a card and have streams of their own", { skip }, () => {
  const [one, other] = [cuda().device(0), cuda().device(1)];
  assert.equal(one.card, other.card);
  assert.notEqual(one.stream.handle, other.stream.handle);
  assert.equal(cuda().device(0), one);
});
