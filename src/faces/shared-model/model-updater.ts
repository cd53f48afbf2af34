// model-updater — an updater of a "dist" model, which servers load from a module (`--functions`): mshadow's words over
// psUpdater. Servers keep a key in pieces, and an updater sees one piece at a time, as with mshadow: what it does to a
// weight depends on that weight, its gradient and its slots alone.
//
//   export const halved = modelUpdater({
//     name: "halved",
//     version: 1,
//     deterministic: true,
//     settings: { eta: 0.5 },
//     initModel: (key, weights) => void weights.fill(10),
//     update: (key, weights, gradient, { settings }) => {
//       for (let i = 0; i < weights.length; i++) weights[i]! -= settings.eta * gradient[i]!;
//     },
//   });

import { badArgument, showValue } from "../../base/errors.ts";
import { checkOptions } from "../../base/known-options.ts";
import { ELEMENT_LIST, isRowElement, type RowArray, type RowElement, type RowSpans } from "../../kernel/row-element.ts";
import type { RowsInHand } from "../../store/row-types/ps-row-type.ts";
import { type PsUpdater, psUpdater, type UpdaterSettings, type UpdaterStep } from "../../store/updaters/ps-updater.ts";

/** The other arguments of an update. */
export type ModelUpdate<S extends UpdaterSettings = UpdaterSettings, E extends RowElement = RowElement> = {
  readonly settings: S;
  /** By the names of `slots`: what the updater keeps for each weight, as many elements as there are weights. */
  readonly slots: Readonly<Record<string, RowArray<E>>>;
};

/** How an updater that servers run is described. */
export type ModelUpdaterOptions<S extends UpdaterSettings = UpdaterSettings, E extends RowElement = RowElement> = {
  /** Unique within a server. */
  readonly name: string;
  /** Rises with every change of what it does or keeps. */
  readonly version: number;
  /** Promises that equal weights, gradients and settings give equal bits, on every server. */
  readonly deterministic: boolean;
  /** The type of the weights, which is the model's. Defaults to "f32". */
  readonly dtype?: E | undefined;
  /** Its settings with their defaults; the model's setParam sets them. */
  readonly settings?: S | undefined;
  /** What it keeps for each weight; each begins with 0. Saved and moved with them. */
  readonly slots?: readonly string[] | undefined;
  /**
   * Fills all weights of a key, which are 0 so far. A worker calls it once for each key, however many devices it has;
   * of several workers the first to come decides.
   */
  initModel?(key: number, weights: RowArray<E>, settings: S): void;
  /** Changes weights of a key by the gradient, on a server. If it throws, they are as they were. */
  update(key: number, weights: RowArray<E>, gradient: RowArray<E>, step: ModelUpdate<S, E>): void;
};

/** What modelUpdater made: the updater that servers load, and what workers need of it. */
export type ModelUpdater<S extends UpdaterSettings = UpdaterSettings, E extends RowElement = RowElement> = PsUpdater & {
  /** @internal */
  readonly ofModel: ModelUpdaterOptions<S, E>;
};

/** How the server is told which key a parameter is. */
const KEY_SETTING = "key";
const OPTION_NAMES = ["name", "version", "deterministic", "dtype", "settings", "slots", "initModel", "update"] as const;

/**
 * Makes an updater for a "dist" shared model, which servers call for each key. Servers and workers load the module that
 * exports it. Throws BAD_ARGUMENT.
 */
export function modelUpdater<S extends UpdaterSettings = Record<never, never>, const E extends RowElement = "f32">(
  options: ModelUpdaterOptions<S, E>,
): ModelUpdater<S, E> {
  checkOptions(options, OPTION_NAMES, "the options of an updater of a model");
  const { name, version, deterministic, dtype = "f32" as E, settings = {} as S, slots = [], initModel, update } = options;
  if (!isRowElement(dtype)) throw badArgument(`${name}: dtype is one of ${ELEMENT_LIST}, not ${showValue(dtype)}`);
  if (!(Array.isArray(slots) && slots.every((slot) => typeof slot === "string" && slot !== "")))
    throw badArgument(`${name}: slots are a list of names, not ${showValue(slots)}`);
  if (!["function", "undefined"].includes(typeof initModel))
    throw badArgument(`${name}: initModel is a function, not ${showValue(initModel)}`);
  if (typeof update !== "function") throw badArgument(`${name}: update is a function, not ${showValue(update)}`);
  if (typeof settings === "object" && settings !== null && KEY_SETTING in settings)
    throw badArgument(`${name}: ${KEY_SETTING} is no setting: initModel and update get it`);
  const plugIn = psUpdater<E, UpdaterSettings>({
    ...{ name, version, deterministic, dtypes: [dtype], settings: { ...settings, [KEY_SETTING]: 0 } as UpdaterSettings },
    columns: (width) => Object.fromEntries(slots.map((slot) => [slot, { dim: width }])),
    update: (rows, gradients, step) => eachRun(rows, gradients, step as UpdaterStep<S & { readonly key: number }>, update),
  });
  return { ...(plugIn as unknown as PsUpdater), ofModel: options };
}

export function isModelUpdater(value: unknown): value is ModelUpdater {
  return typeof value === "object" && value !== null && "ofModel" in value;
}

/** The optimizer of the parameter that this key is. */
export function updaterOfKey(updater: ModelUpdater, key: number, settings: UpdaterSettings): ReturnType<PsUpdater["with"]> {
  return updater.with({ ...settings, [KEY_SETTING]: key });
}

/** Rows that lie side by side, with their gradients and slots, are one call. */
function eachRun<S extends UpdaterSettings, E extends RowElement>(
  rows: RowsInHand<E>,
  gradients: RowSpans<E>,
  { settings }: UpdaterStep<S & { readonly key: number }>,
  update: ModelUpdaterOptions<S, E>["update"],
): void {
  const { count, width, starts, elements } = rows;
  const columns = Object.entries(rows.columns);
  const lists = [starts, gradients.starts, ...columns.map(([, list]) => list)];
  const follows = (i: number): boolean => lists.every((list) => list[i] === (list[i - 1] as number) + width);
  for (let from = 0, to = 1; from < count; from = to++) {
    while (to < count && follows(to)) to++;
    const length = (to - from) * width;
    const part = (all: RowArray<E>, list: Uint32Array): RowArray<E> =>
      all.subarray(list[from] as number, (list[from] as number) + length) as RowArray<E>;
    const slots = Object.fromEntries(columns.map(([name, list]) => [name, part(elements, list)]));
    update(settings.key, part(elements, starts), part(gradients.elements, gradients.starts), { settings, slots });
  }
}
