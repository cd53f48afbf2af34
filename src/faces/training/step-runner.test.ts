// Goal: a step of values that workers have in common is applied whole or not at all, when a member dies between two of
// its sums (StepRunner.S4).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { EmbeddingLookup } from "./embedding-lookup.ts";
import type { LocalUpdater } from "./local-route.ts";
import type { Loss, Network, Stage } from "./network.ts";
import type { OpenNetwork } from "./open-network.ts";
import type { ParameterRoute } from "./parameter-route.ts";
import { ReducedRoute } from "./reduced-route.ts";
import { PUSH_BYTES_MIN, pushOrder, StepRunner } from "./step-runner.ts";
import { StepTimes } from "./step-times.ts";

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
      return [parameter, new ReducedRoute({ parameter, updater, collective: { allReduce }, clock: () => 0, wait: () => ({}) })] as const;
    }),
  );
  const network = { stages: parameters.map((parameter) => ({ parameters: [parameter] })), idsPerSample: 0 } as unknown as Network;
  const routeOf = (parameter: Parameter): ParameterRoute | undefined => routes.get(parameter);
  const open = { routes, routeOf, leave: () => {}, patience: { wait: {} } } as unknown as OpenNetwork;
  return { runner: new StepRunner({ network, loss: {} as Loss, open, overlaps: true, meter: new StepTimes() }), applied, fail };
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

type Named = Pick<Stage, "parameters" | "lookup">;
const LARGE = PUSH_BYTES_MIN / 4;

function stage(names: string, floatCount: number): Named {
  const parameters = [...names].map((name) => ({ name, gradient: new Float32Array(floatCount) }) as Parameter);
  return { parameters };
}

const namesOf = (stages: readonly Named[]): string[] =>
  pushOrder(stages).map((group) => group.map((given) => ("lookup" in given ? given.lookup.name : given.parameter.name)).join(""));

test("a large gradient is given with its own stage, small ones with the first", () => {
  assert.deepEqual(namesOf([stage("a", 1), stage("", 0), stage("b", LARGE), stage("cd", 10)]), ["cda", "", "b", ""]);
});

test("small ones are given together as soon as there are enough of them", () => {
  assert.deepEqual(namesOf([stage("a", 1), stage("b", LARGE / 2), stage("c", LARGE / 2), stage("d", LARGE / 4)]), ["a", "dcb", "", ""]);
});

test("all of a small network is given after its first stage, in the order of the backward", () => {
  assert.deepEqual(namesOf([stage("ab", 6), stage("c", 3), stage("de", 2)]), ["decab", "", ""]);
  assert.deepEqual(namesOf([]), []);
});

test("rows of a lookup count as those of a batch of distinct ids", () => {
  const lookup = (name: string, width: number): Named => {
    const options = { sparse: true, idsPerSample: 4, sampleCountMax: 256, dim: width };
    return { parameters: [], lookup: { name, options } as unknown as EmbeddingLookup };
  };
  assert.deepEqual(namesOf([stage("a", 1), lookup("L", 64), lookup("s", 1)]), ["sa", "L", ""]);
});
