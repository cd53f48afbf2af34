// Goal: rounds that stay on the card have the bits of rounds that are given anew each time.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { cudaForTests } from "../../test/support/cuda.ts";
import { Random } from "../base/random.ts";
import { type OptimizerSpec, resolveOptimizer } from "../store/updaters/optimizer-spec.ts";
import type { KeyPlan, ReduceTask, ResultVersion } from "../worker/level-one/model-backend.ts";
import { CudaBackend } from "./cuda-backend.ts";
import type { DeviceTensor } from "./device-tensor.ts";

const { skip, cuda } = await cudaForTests();
after(() => {
  if (skip === false) cuda().close();
});

const DEVICES = [0, 1, 2, 3];
const LENGTHS = [1, 3, 1000, 1024, 1025, 5001];

type Stage = {
  readonly backend: CudaBackend;
  /** By key, then device; the same tensors are pulled into. */
  readonly tensors: readonly (readonly DeviceTensor[])[];
  readonly tasksOf: (round: number) => ReduceTask[];
};

async function stageOf(spec: OptimizerSpec): Promise<Stage> {
  const backend = new CudaBackend({ openCuda: async () => cuda(), ownsCuda: false, dtype: "f32" });
  await backend.open(DEVICES);
  const plans = LENGTHS.map(
    (length, index): KeyPlan => ({ key: index, index, shape: [length], length, resultLength: length, operation: "sum" }),
  );
  for (const plan of plans) backend.openKey(plan, resolveOptimizer(spec));
  const random = new Random(11);
  const tensors: DeviceTensor[][] = [];
  for (const length of LENGTHS) {
    const own = DEVICES.map((device) => cuda().device(device).allocate([length]));
    for (const tensor of own) await tensor.copyFrom(Float32Array.from({ length }, () => random.fraction() - 0.5));
    tensors.push(own);
  }
  const tasksOf = (round: number): ReduceTask[] =>
    plans.map((plan, k) => {
      const refs = tensors[k]!.map(({ ref }) => ref);
      return { kind: "reduce", plan, round, version: (round % 2) as ResultVersion, sources: refs, targets: refs };
    });
  return { backend, tensors, tasksOf };
}

test("a list that was prepared has the same bits as its tasks, round after round, until a tensor of it is freed", { skip }, async () => {
  for (const spec of [
    { type: "sgd", learningRate: 0.3 },
    { type: "momentum", learningRate: 0.1 },
  ] as const) {
    const [again, anew] = [await stageOf(spec), await stageOf(spec)];
    const prepared = [0, 1].map((version) => again.backend.runner.prepare!(again.tasksOf(version === 0 ? 2 : 1))!);
    for (let round = 1; round <= 5; round++) {
      await again.backend.runner.runBatch([], [prepared[round % 2]!]);
      await anew.backend.runner.runBatch(anew.tasksOf(round));
      for (const [k, own] of again.tensors.entries())
        for (const [device, tensor] of own.entries())
          assert.deepEqual(await tensor.toArray(), await anew.tensors[k]![device]!.toArray(), `${spec.type}, key ${k}, round ${round}`);
    }
    anew.tensors[0]![0]!.free();
    assert.ok(prepared[0]!.isCurrent, "a tensor of others was freed");
    again.tensors[2]![1]!.free();
    assert.ok(!prepared[0]!.isCurrent && !prepared[1]!.isCurrent);
    prepared[0]!.close();
    for (const { backend } of [again, anew]) await backend.close();
  }
});

test("rounds whose settings change, or that a device has not pushed to, are not prepared", { skip }, async () => {
  const [adam, sgd] = [await stageOf({ type: "adam" }), await stageOf({ type: "sgd", learningRate: 0.3 })];
  assert.equal(adam.backend.runner.prepare!(adam.tasksOf(1)), undefined);
  const lost = sgd.tasksOf(1).map((task) => ({ ...task, sources: [0, ...task.sources.slice(1)] }));
  assert.equal(sgd.backend.runner.prepare!(lost), undefined);
  for (const { backend } of [adam, sgd]) await backend.close();
});
