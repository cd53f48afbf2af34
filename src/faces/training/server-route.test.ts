// Goal: what was pushed is what was computed: a route that is opened again after a failure waits for the push before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../../base/deferred.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Tensor } from "../../worker/tensor.ts";
import { ServerRoute } from "./server-route.ts";

test("a route is not open again while a push still reads the gradient", async () => {
  const push = new Deferred<void>();
  const parameter = { name: "w", values: new Float32Array(2), gradient: Float32Array.of(1, 2) } as unknown as Parameter;
  let pushedAtEnd: number[] = [];
  const tensor = {
    push: async (gradient: Float32Array) => {
      await push.promise;
      pushedAtEnd = [...gradient];
    },
    pull: async (into: Float32Array) => await Promise.resolve(into),
  } as unknown as Tensor;
  const route = new ServerRoute({ parameter, tensor, priority: 0, wait: () => ({}) });
  route.push();
  await route.settle();
  const next = route.open().then(() => parameter.gradient.fill(9)); // as the next backward does
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  push.resolve();
  await next;
  assert.deepEqual(pushedAtEnd, [1, 2]);
});
