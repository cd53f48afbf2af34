// kernel-level — a built-in f32 updater as level 2, behind an all-reduce: the sum over all workers updates weights of
// which every worker has a copy. It does what level 1 of a local model does with the sum of its devices, so the bits
// are the same: it is a CpuBackend with memory of its own, whose one device pushes the sum.

import { unsupported } from "../../base/errors.ts";
import { copyElements, type RowArray } from "../../kernel/row-element.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { CpuBackend, type CpuBackendOptions, createCpuMemory } from "../../worker/level-one/cpu-backend.ts";
import type { CompletedRound, LevelTwo } from "../../worker/level-one/level-two.ts";
import type { KeyPlan, ResultVersion } from "../../worker/level-one/model-backend.ts";
import { KEYS_MAX } from "../../worker/level-one/model-words.ts";

/** Where it is alone, a share of any size is as good as another. */
const ONE_SHARE = Number.POSITIVE_INFINITY;

export class KernelLevel implements LevelTwo {
  readonly #optimizer: ResolvedOptimizer;
  readonly #initialWeight: number;
  readonly #backend: CpuBackend;
  /** By key: the version of its weights. */
  readonly #versions = new Map<number, ResultVersion>();

  constructor(optimizer: ResolvedOptimizer, initialWeight: number) {
    this.#optimizer = optimizer;
    this.#initialWeight = initialWeight;
    const options: CpuBackendOptions = {
      ...{ dtype: "f32", threadCount: 1, keyCountMax: KEYS_MAX, bigArrayLength: ONE_SHARE, updater: optimizer },
    };
    this.#backend = new CpuBackend(createCpuMemory(options, undefined), options, { thread: 0, exclusively: (act) => act() });
  }

  /** Throws ARENA_FULL. */
  openKey(plan: KeyPlan): RowArray {
    this.#backend.openKey(plan, this.#optimizer);
    this.#versions.set(plan.key, 0);
    const weights = this.#weightsOf(plan) as Float32Array;
    return weights.fill(this.#initialWeight);
  }

  exchange({ plan, round, values }: CompletedRound): void {
    const { runner } = this.#backend;
    const version: ResultVersion = this.#versions.get(plan.key) === 0 ? 1 : 0;
    const source = this.#backend.takePush({ plan, device: 0, data: values, after: undefined }, version);
    runner.begin(plan, round);
    runner.runShare({ kind: "reduce", plan, round, version, sources: [source], targets: [] }, 0);
    this.#versions.set(plan.key, version);
    copyElements(values, this.#weightsOf(plan));
  }

  setWeights(plan: KeyPlan, values: RowArray): void {
    checkSettable(plan, this.#optimizer);
    copyElements(this.#weightsOf(plan), values);
  }

  close(): void {
    this.#backend.close();
  }

  #weightsOf(plan: KeyPlan): RowArray {
    return this.#backend.borrowResult(plan, this.#versions.get(plan.key)!);
  }
}

/** Throws UNSUPPORTED for an updater that would not go on from weights that were set; servers refuse the same. */
export function checkSettable({ key }: KeyPlan, { type }: ResolvedOptimizer): void {
  if (type === "ftrl") throw unsupported(`the weights of key ${key} cannot be set: ftrl computes them of what it has summed up`);
}
