// update-settings — turns an optimizer and the number of a round into what the kernel of rounds reads. The numbers are
// those that `store/updaters/updater.ts` gives the kernels of the CPU.

import { unsupported } from "../base/errors.ts";
import type { RowElement } from "../kernel/row-element.ts";
import { LearningRate } from "../store/updaters/learning-rate.ts";
import type { ResolvedOptimizer } from "../store/updaters/optimizer-spec.ts";
import { FLAG, isUpdateRule, type RoundRule, SETTING, SETTING_COUNT, UPDATE_RULES } from "./round-source.ts";

/** Whether the kernel of rounds makes updates of this kind. */
export function runsOnCard({ type }: ResolvedOptimizer, element: RowElement): boolean {
  return isUpdateRule(type) && (element === "f32" || element === "f64");
}

export class UpdateSettings {
  readonly rule: RoundRule;
  /** In the order of SETTING; `prepare` writes them. */
  readonly numbers: Float64Array = new Float64Array(SETTING_COUNT);
  readonly flags: number;
  readonly #spec: ResolvedOptimizer;
  readonly #rate: LearningRate;

  /** Throws UNSUPPORTED for an optimizer that CUDA does not have, or for a type of number that it has none for. */
  constructor(spec: ResolvedOptimizer, element: RowElement) {
    const { type, clipValue, clipNorm, weightDecay = 0 } = spec;
    if (!isUpdateRule(type)) throw unsupported(`updater ${type} does not run on CUDA; ${UPDATE_RULES.join(", ")} do`);
    if (element !== "f32" && element !== "f64") throw unsupported(`updaters run on f32 and f64, but the model has ${element}`);
    if (clipNorm !== undefined && clipNorm !== null)
      throw unsupported("clipNorm needs the norm of a whole gradient, which a pass on CUDA does not have");
    this.rule = type;
    this.#spec = spec;
    this.#rate = new LearningRate(spec);
    const isBare = clipValue === undefined || clipValue === null;
    const decays = !(isBare && weightDecay === 0);
    this.flags = (isBare ? FLAG.bare : 0) | (decays ? FLAG.decays : 0);
    const { numbers } = this;
    numbers[SETTING.scale] = 1;
    numbers[SETTING.clip] = clipValue ?? Number.POSITIVE_INFINITY;
    numbers[SETTING.epsilon] = spec.epsilon ?? 0;
    numbers[SETTING.beta1] = spec.beta1 ?? spec.momentum ?? 0;
    numbers[SETTING.part1] = 1 - (spec.beta1 ?? 0);
    numbers[SETTING.part2] = 1 - (spec.beta2 ?? 0);
    this.prepare(1);
  }

  /** Whether all updates have the same settings. */
  get isConstant(): boolean {
    const { type } = this.#spec;
    return this.#rate.constant !== undefined && type !== "adam" && type !== "adamW";
  }

  /** For the update of this number, from 1 up. */
  prepare(round: number): void {
    const { type, beta1 = 0, beta2 = 0, weightDecay = 0 } = this.#spec;
    const rate = this.#rate.constant ?? this.#rate.at(round - 1);
    const { numbers } = this;
    numbers[SETTING.rate] = rate;
    numbers[SETTING.decay] = type === "adamW" ? rate * weightDecay : weightDecay;
    if (type !== "adam" && type !== "adamW") return;
    numbers[SETTING.step] = rate * (1 / (1 - beta1 ** round));
    numbers[SETTING.correction2] = 1 / Math.sqrt(1 - beta2 ** round);
  }
}
