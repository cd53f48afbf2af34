// updater-level — a user's updater as level 2: the sum of a round updates the weights, and the weights are
// what devices get.

import { reasonAndSite, WeighbridgeError } from "../../base/errors.ts";
import { copyElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { CompletedRound, LevelTwo } from "../../worker/level-one/level-two.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { Updater } from "./updater.ts";

export class UpdaterLevel implements LevelTwo {
  readonly #updater: Updater;
  readonly #dtype: RowElement;
  readonly #weights = new Map<number, RowArray>();

  constructor(updater: Updater, dtype: RowElement) {
    this.#updater = updater;
    this.#dtype = dtype;
  }

  async openKey({ key, length }: KeyPlan): Promise<RowArray> {
    const { Array: TypedArray, bytes } = ROW_ELEMENTS[this.#dtype];
    const weights = new TypedArray(new ArrayBuffer(length * bytes));
    await this.#called("initModel", key, () => this.#updater.initModel(key, weights));
    this.#weights.set(key, weights);
    return weights;
  }

  async exchange({ plan: { key }, values }: CompletedRound): Promise<void> {
    const weights = this.#weights.get(key)!;
    await this.#called("update", key, () => this.#updater.update(key, weights, values));
    copyElements(values, weights);
  }

  setWeights({ key }: KeyPlan, values: RowArray): void {
    copyElements(this.#weights.get(key)!, values);
  }

  close(): void {
    this.#weights.clear();
  }

  async #called(name: string, key: number, call: () => unknown): Promise<void> {
    try {
      await call();
    } catch (thrown) {
      throw new WeighbridgeError("HANDLER_FAILED", `${name} of the updater threw for key ${key}: ${reasonAndSite(thrown)}`, {
        cause: thrown,
      });
    }
  }
}
