// Goal: what was pushed is what was computed, and what several routes have to say leaves as one call.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../../base/deferred.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Tensor } from "../../worker/tensor.ts";
import { ServerExchange, type TensorCalls } from "./server-exchange.ts";
import { ServerRoute } from "./server-route.ts";

const TENSOR = {} as Tensor;

function parameterOf(gradient: Float32Array): Parameter {
  return { name: "w", values: new Float32Array(gradient.length), gradient } as unknown as Parameter;
}

test("a route is not open again while a push still reads the gradient", async () => {
  const push = new Deferred<void>();
  const parameter = parameterOf(Float32Array.of(1, 2));
  let pushedAtEnd: number[] = [];
  const calls: TensorCalls = {
    pushTogether: async ([first]) => {
      await push.promise;
      pushedAtEnd = [...first!.gradient];
    },
    pullTogether: async () => await Promise.resolve(),
  };
  const exchange = new ServerExchange(() => ({}), calls);
  const route = new ServerRoute({ parameter, tensor: TENSOR, priority: 0, exchange });
  route.push();
  exchange.leave();
  await route.settle();
  const next = route.open().then(() => parameter.gradient.fill(9)); // as the next backward does
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate);
  push.resolve();
  await next;
  assert.deepEqual(pushedAtEnd, [1, 2]);
});

test("pushes and pulls of several routes leave as one call each, and a pull waits for the one before (ServerExchange.E1, ServerExchange.E2)", async () => {
  const landed = [new Deferred<void>(), new Deferred<void>()];
  const made: string[] = [];
  let pullCount = 0;
  const calls: TensorCalls = {
    pushTogether: async (pushes) => {
      made.push(`push ${pushes.map(({ priority }) => priority).join()}`);
      await Promise.resolve();
    },
    pullTogether: async (pulls, clocksAhead) => {
      made.push(`pull ${pulls.map(({ priority }) => priority).join()} +${clocksAhead}`);
      await landed[pullCount++]!.promise;
    },
  };
  const exchange = new ServerExchange(() => ({}), calls);
  const routes = [3, 2, 1].map(
    (priority) => new ServerRoute({ parameter: parameterOf(new Float32Array(1)), tensor: TENSOR, priority, exchange }),
  );
  for (const route of routes) route.push();
  assert.deepEqual(made, [], "nothing leaves before all is noted");
  exchange.leave();
  assert.deepEqual(made, ["push 3,2,1", "pull 3,2,1 +1"]);
  assert.ok(routes.every(({ isComing }) => isComing));
  routes[0]!.repeat();
  exchange.leave();
  assert.deepEqual(made.slice(2), ["push 3"], "its pull waits for the one that is under way");
  landed[0]!.reject(new Error("lost"));
  await assert.rejects(routes[1]!.settle()!, /lost/);
  while (made.length < 4) await new Promise(setImmediate);
  assert.equal(made[3], "pull 3 +0");
  landed[1]!.resolve();
  await routes[0]!.settle();
  assert.equal(routes[0]!.settle(), undefined, "its values are there");
  await assert.rejects(routes[1]!.settle()!, /lost/, "one that failed stays");
});
