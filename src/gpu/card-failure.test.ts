// card-failure — a kernel that writes where it must not: the card's context is lost for the process, so this file has
// one of its own.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cudaForTests } from "../../test/support/cuda.ts";
import { throwsCode } from "../testing/throws-code.ts";

const { skip, cuda } = await cudaForTests();

test("a kernel that fails on the card fails the next wait, and every later one, with DEVICE_FAILED", { skip }, async () => {
  const device = cuda().device(0);
  const tensor = device.allocate([4]);
  const wild = device.kernel(`extern "C" __global__ void wild(float *p) { p[1ull << 40] = 1; }`, "wild");
  wild.launch({ grid: 1, block: 1 }, tensor);
  await assert.rejects(device.finish(), throwsCode("DEVICE_FAILED", /work on the card failed: CUDA_ERROR_\w+ \(\d+/));
  await assert.rejects(tensor.toArray(), throwsCode("DEVICE_FAILED"));
});
