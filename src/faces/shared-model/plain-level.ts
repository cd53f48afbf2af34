// plain-level — a built-in updater of other types than f32 as level 2: the code that servers run for rows
// of such types, on the weights of a key as rows of one. Those of f32 are kernels: level 1 runs them, or
// kernel-level.ts after an all-reduce.

import { copyElements, fillElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import { PlugIns } from "../../store/plug-ins.ts";
import { checkRowType } from "../../store/row-types/row-type-spec.ts";
import { LearningRate } from "../../store/updaters/learning-rate.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { CompletedRound, LevelTwo } from "../../worker/level-one/level-two.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import { checkSettable } from "./kernel-level.ts";

const ROW_LENGTH = 4096;

export type PlainElement = Exclude<RowElement, "f32">;

export type PlainLevelOptions = {
  readonly optimizer: ResolvedOptimizer;
  readonly dtype: PlainElement;
  readonly initialWeight: number;
};

type PlainKey = { readonly weights: RowArray; readonly update: (gradient: RowArray, round: number) => void };

/** Throws BAD_ARGUMENT for an updater that there is not for numbers of this type. */
export function checkPlain(options: PlainLevelOptions): void {
  checkRowType(specOf(options, 1));
}

export class PlainLevel implements LevelTwo {
  readonly #options: PlainLevelOptions;
  readonly #plugIns = new PlugIns();
  readonly #rate: LearningRate;
  readonly #keys = new Map<number, PlainKey>();

  constructor(options: PlainLevelOptions) {
    this.#options = options;
    this.#rate = new LearningRate(options.optimizer);
  }

  openKey({ key, length }: KeyPlan): RowArray {
    const { dtype, initialWeight } = this.#options;
    const width = Math.min(ROW_LENGTH, length);
    const { updater, columns, settings } = this.#plugIns.updaterOf(specOf(this.#options, width))!;
    const rowCount = Math.ceil(length / width);
    const { Array: View, bytes } = ROW_ELEMENTS[dtype];
    const keptElements = columns.reduce((sum, column) => sum + column.elements, 0);
    // Weights, then column after column.
    const elements: RowArray = new View(new ArrayBuffer((length + keptElements * rowCount) * bytes));
    const columnAt = (offset: number): number => length + offset * rowCount;
    fillElements(elements, initialWeight, 0, length);
    for (const { start, offset, elements: each } of columns) fillElements(elements, start, columnAt(offset), columnAt(offset + each));
    const lists = rowLists(length, width).map((rows) => ({
      rows,
      columns: Object.fromEntries(
        columns.map(({ name, offset, elements: each }) => [name, rows.starts.map((start) => columnAt(offset) + (start / width) * each)]),
      ),
    }));
    const update = (gradient: RowArray, round: number): void => {
      const step = { settings, learningRate: this.#rate.at(round - 1), clock: round - 1, worker: undefined };
      for (const { rows, columns: kept } of lists)
        updater.update({ ...rows, elements, columns: kept }, { ...rows, elements: gradient }, step);
    };
    const weights = elements.subarray(0, length);
    this.#keys.set(key, { weights, update });
    return weights;
  }

  exchange({ plan: { key }, round, values }: CompletedRound): void {
    const { weights, update } = this.#keys.get(key)!;
    update(values, round);
    copyElements(values, weights);
  }

  setWeights(plan: KeyPlan, values: RowArray): void {
    checkSettable(plan, this.#options.optimizer);
    copyElements(this.#keys.get(plan.key)!.weights, values);
  }

  close(): void {
    this.#keys.clear();
  }
}

/** The weights of a key as rows, the last of which may be shorter, and so is in a list of its own. */
function rowLists(
  length: number,
  width: number,
): readonly { readonly count: number; readonly width: number; readonly starts: Uint32Array }[] {
  const [count, rest] = [Math.floor(length / width), length % width];
  const whole = { count, width, starts: Uint32Array.from({ length: count }, (_, row) => row * width) };
  return rest === 0 ? [whole] : [whole, { count: 1, width: rest, starts: Uint32Array.of(count * width) }];
}

/** A table of such rows. */
function specOf({ optimizer, dtype, initialWeight: value }: PlainLevelOptions, width: number): TableSpec {
  return {
    ...{ kind: "table", name: "the shared model", width, rows: undefined, versions: false, rowType: dtype, optimizer },
    ...{ updates: "async", reduce: "sum", staleness: undefined, initializer: { type: "constant", value } },
  };
}
