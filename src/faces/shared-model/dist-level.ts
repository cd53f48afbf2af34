// dist-level — which level 2 the options of a "dist" model mean, checked: servers, or the workers among themselves.

import { Session } from "../../api/session.ts";
import type { Clock } from "../../base/clock.ts";
import { badArgument, showValue } from "../../base/errors.ts";
import { didYouMean } from "../../base/nearest-name.ts";
import { ROW_ELEMENTS, type RowElement } from "../../kernel/row-element.ts";
import { engineConsistency } from "../../store/consistency.ts";
import { isPsUpdater, type OptimizerSpec, resolveOptimizer } from "../../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../../store/updaters/ps-updater.ts";
import { AllReduceLevel } from "./all-reduce-level.ts";
import { checkUpdater, isBuiltIn, updaterLevel } from "./chosen-updater.ts";
import { type Connect, DistSession, type ModelLevel } from "./model-level.ts";
import { isModelUpdater } from "./model-updater.ts";
import { checkPlain } from "./plain-level.ts";
import { ServerLevel } from "./server-level.ts";
import type { DistOptions, SharedModelOptions } from "./shared-model.ts";

export const DIST_OPTIONS: readonly (keyof DistOptions)[] = ["session", "through", "consistency", "reduce", "name"];

/** Throws BAD_ARGUMENT for what only a "dist" model has. */
export function checkLocal(options: SharedModelOptions): void {
  const name = DIST_OPTIONS.find((option) => options[option] !== undefined);
  if (name !== undefined) throw badArgument(`${name} is an option of a "dist" model`);
}

/** Throws BAD_ARGUMENT, UNSUPPORTED. */
export function distLevel(options: SharedModelOptions, parts: { readonly clock: Clock; readonly connect?: Connect }): ModelLevel {
  const { session: given, through = "servers" } = options;
  if (!["servers", "allReduce"].includes(through))
    throw badArgument(`through is servers or allReduce, not ${showValue(through)}${didYouMean(through, ["servers", "allReduce"])}`);
  if (given !== undefined && !(given instanceof Session)) throw badArgument(`session is what connect() gives, not ${showValue(given)}`);
  const { connect } = parts;
  if (given === undefined && connect === undefined) throw badArgument("this process cannot connect by itself: pass the option session");
  const session = new DistSession(
    given,
    connect ?? (async () => await Promise.reject(badArgument("this process cannot connect by itself"))),
  );
  return through === "servers" ? serverLevel(options, session) : allReduceLevel(options, session, parts.clock);
}

function serverLevel(options: SharedModelOptions, session: DistSession): ServerLevel {
  const { updater, name = "shared-model", initialWeight = 0, consistency = "asp", reduce, dtype = "f32" } = options;
  if (reduce !== undefined)
    throw badArgument('reduce is for through: "allReduce"; servers have consistency: { bsp: true, reduce: "mean" }');
  if (typeof name !== "string" || name === "") throw badArgument(`name is a text, not ${showValue(name)}`);
  engineConsistency(consistency);
  if (updater === undefined)
    throw badArgument(
      'a "dist" model needs the option updater: what the servers do to the weights with what a worker pushes, { type: "sum" } at least',
    );
  if (typeof updater !== "object" || updater === null) throw badArgument(`an updater is an object, not ${showValue(updater)}`);
  return new ServerLevel({ session, dtype, name, updater: serverUpdater(updater, dtype, initialWeight), initialWeight, consistency });
}

function serverUpdater(
  updater: NonNullable<SharedModelOptions["updater"]>,
  dtype: RowElement,
  initialWeight: number,
): OptimizerSpec | PsUpdater {
  if (isPsUpdater(updater) && !updater.dtypes.includes(dtype))
    throw badArgument(`the updater ${updater.name} is for ${updater.dtypes.join(", ")}, but the model has ${dtype}`);
  if (isModelUpdater(updater)) return updater;
  if (isPsUpdater(updater) || isBuiltIn(updater)) {
    const optimizer = resolveOptimizer(updater, "updater");
    if (dtype !== "f32") checkPlain({ optimizer, dtype, initialWeight });
    return updater;
  }
  const how = "export one that modelUpdater() makes from a module, and start the servers with --functions and that module";
  throw badArgument(`servers cannot run an updater that is an object of this process: ${how}`);
}

function allReduceLevel(options: SharedModelOptions, session: DistSession, clock: Clock): AllReduceLevel {
  const { updater, reduce = "sum", consistency, name, dtype = "f32", initialWeight = 0 } = options;
  if (!["sum", "mean"].includes(reduce))
    throw badArgument(`reduce is sum or mean, not ${showValue(reduce)}${didYouMean(reduce, ["sum", "mean"])}`);
  if (consistency !== undefined) throw badArgument("consistency is for servers: an all-reduce is BSP for each key");
  if (name !== undefined) throw badArgument("name is for servers: an all-reduce has no parameters there");
  if (reduce === "mean" && !ROW_ELEMENTS[dtype].isFloat)
    throw badArgument(`reduce "mean" is for floats, not ${dtype}: a mean may lie between two`);
  if (updater !== undefined) checkUpdater(updater, dtype, initialWeight);
  const after = updater === undefined ? undefined : updaterLevel(updater, { dtype, initialWeight });
  return new AllReduceLevel({ session, clock, reduce, after });
}
