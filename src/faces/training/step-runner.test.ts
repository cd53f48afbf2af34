// Goal: a step of values that workers have in common is applied whole or not at all, when a member dies between two of its sums (S4).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { LocalUpdater } from "./local-updater.ts";
import type { Loss, Network } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import { ReducedRoute } from "./reduced-route.ts";
import { StepRunner } from "./step-runner.ts";
import { WaitMeter } from "./wait-meter.ts";

function built(): { readonly runner: StepRunner; readonly applied: string[]; readonly fail: Set<string> } {
  const [applied, fail]: [string[], Set<string>] = [[], new Set()];
  const parameters = ["one", "two"].map((name) => ({ name, gradient: new Float32Array(1) }) as Parameter);
  const routes = new Map(
    parameters.map((parameter) => {
      const updater = { step: 0, apply: () => applied.push(parameter.name) } as unknown as LocalUpdater;
      const allReduce = async (): Promise<void> => {
        await Promise.resolve();
        if (fail.has(parameter.name)) throw new WeighbridgeError("NODE_DEAD", "worker 1 is dead");
      };
      return [parameter, new ReducedRoute({ parameter, updater, collective: { allReduce }, wait: () => ({}) })] as const;
    }),
  );
  const network = { stages: parameters.map((parameter) => ({ parameters: [parameter] })), idsPerSample: 0 } as unknown as Network;
  const open = { routes, routeOf: (parameter: Parameter) => routes.get(parameter), patience: { wait: {} } } as unknown as OpenNetwork;
  return { runner: new StepRunner({ network, loss: {} as Loss, open, overlaps: true, meter: new WaitMeter() }), applied, fail };
}

for (const name of ["one", "two"]) {
  test(`nothing is applied of a step in which the sum of ${name} fails`, async () => {
    const { runner, applied, fail } = built();
    fail.add(name);
    await assert.rejects(runner.skip(), { code: "NODE_DEAD" });
    assert.deepEqual(applied, []);
  });
}

test("all is applied of a step whose sums are there", async () => {
  const { runner, applied } = built();
  await runner.skip();
  assert.deepEqual(applied, ["one", "two"]);
});
