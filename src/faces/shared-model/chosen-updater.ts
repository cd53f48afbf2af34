// chosen-updater — the updater that a model was given, checked: a built-in one by its settings, or an object of the
// user's.

import { badArgument, showValue, type WeighbridgeError } from "../../base/errors.ts";
import type { RowElement } from "../../kernel/row-element.ts";
import { isPsUpdater, type OptimizerSpec, type ResolvedOptimizer, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../../store/updaters/ps-updater.ts";
import type { LevelTwo } from "../../worker/level-one/level-two.ts";
import { KernelLevel } from "./kernel-level.ts";
import { checkPlain, PlainLevel } from "./plain-level.ts";
import type { Updater } from "./updater.ts";
import { UpdaterLevel } from "./updater-level.ts";

/** Those that look at each weight for itself. */
const OFFERED: readonly string[] = [
  "sum",
  "none",
  "assign",
  "min",
  "max",
  "sgd",
  "momentum",
  "nesterov",
  "adagrad",
  "adam",
  "adamW",
  "rmsprop",
  "ftrl",
];

type ChosenUpdater = Updater | OptimizerSpec | PsUpdater;

export function isBuiltIn(updater: ChosenUpdater): updater is OptimizerSpec {
  return typeof (updater as { readonly type?: unknown }).type === "string";
}

/** The user's own that runs in this process, if it is such a one. */
export function ownUpdater(updater: ChosenUpdater | undefined): Updater | undefined {
  return updater === undefined || isBuiltIn(updater) || isPsUpdater(updater) ? undefined : updater;
}

/** For an updater that runs in this process. Throws BAD_ARGUMENT. */
export function checkUpdater(updater: ChosenUpdater, dtype: RowElement, initialWeight: number): void {
  if (typeof updater !== "object" || updater === null) throw badArgument(`an updater is an object, not ${showValue(updater)}`);
  if (isBuiltIn(updater)) {
    const optimizer = builtInUpdater(updater);
    if (dtype !== "f32") checkPlain({ optimizer, dtype, initialWeight });
    return;
  }
  if (isPsUpdater(updater)) throw serversUpdater(updater);
  for (const name of ["initModel", "update"] as const)
    if (typeof updater[name] !== "function") throw badArgument(`an updater has a function ${name}, not ${showValue(updater[name])}`);
  for (const name of ["setParam", "initUpdater"] as const)
    if (!["function", "undefined"].includes(typeof updater[name]))
      throw badArgument(`${name} of an updater is a function, not ${showValue(updater[name])}`);
}

/** Throws BAD_ARGUMENT. */
export function builtInUpdater(spec: OptimizerSpec): ResolvedOptimizer {
  const resolved = resolveOptimizer(spec, "updater");
  if (!OFFERED.includes(resolved.type)) throw badArgument(`updater.type: a shared model has ${OFFERED.join(", ")}, not ${resolved.type}`);
  if ((resolved.clipNorm ?? null) !== null) throw badArgument("updater.clipNorm: a shared model does not clip by norm");
  return resolved;
}

type UpdatedNumbers = { readonly dtype: RowElement; readonly initialWeight: number };

/** The level 2 that runs an updater. */
export function updaterLevel(updater: ChosenUpdater, { dtype, initialWeight }: UpdatedNumbers): LevelTwo {
  if (isPsUpdater(updater)) throw serversUpdater(updater);
  if (!isBuiltIn(updater)) return new UpdaterLevel(updater, dtype);
  const optimizer = builtInUpdater(updater);
  return dtype === "f32" ? new KernelLevel(optimizer, initialWeight) : new PlainLevel({ optimizer, dtype, initialWeight });
}

function serversUpdater({ name }: PsUpdater): WeighbridgeError {
  return badArgument(`the updater ${name} runs on servers: it is for a "dist" model through servers`);
}
