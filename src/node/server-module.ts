// server-module — loads what servers use of a user's module: all its exports that `psFunction`, `psUpdater`,
// `psRowType` and, for tables, `customRow` made.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { WeighbridgeError } from "../base/errors.ts";
import { isPsFunction, isWorkerFunction } from "../contracts/known-function.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { PlugInModule } from "../store/plug-ins.ts";
import { tableRowTypeOf } from "../store/row-types/built-in-row-types.ts";
import type { PsRowType } from "../store/row-types/ps-row-type.ts";
import { isPsRowType } from "../store/row-types/row-type-spec.ts";
import { isPsUpdater } from "../store/updaters/optimizer-spec.ts";
import { exportsOf, functionModulePath } from "./function-module.ts";

/** As much of a hash as distinguishes sources. */
const HASH_LENGTH = 16;

/** What a server offers beside what is built in. */
export type ServerModule = { readonly functions: readonly PsFunction[]; readonly plugIns: PlugInModule };

/**
 * Throws BAD_CONFIG, naming the module, if it does not exist, cannot be loaded, or has nothing for servers or workers.
 */
export async function loadServerModule(module: string): Promise<ServerModule> {
  const exports = await exportsOf(module);
  const exported = [...new Set(Object.values(exports))];
  const functions = exported.filter(isPsFunction);
  const updaters = exported.filter(isPsUpdater);
  const rowTypes = [...new Set(exported.flatMap((value) => rowTypeIn(value) ?? []))].filter(
    ({ name }) => tableRowTypeOf(name) === undefined,
  );
  if (functions.length + updaters.length + rowTypes.length > 0 || exported.some(isWorkerFunction)) {
    const path = functionModulePath(module);
    const hash = createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, HASH_LENGTH);
    return { functions, plugIns: { module: path, hash, updaters, rowTypes } };
  }
  const names = Object.keys(exports).join(", ") || "nothing";
  const made = "made by psFunction, workerFunction, psUpdater, psRowType or customRow";
  throw new WeighbridgeError("BAD_CONFIG", `the module ${module} exports ${names}, and none of that is ${made}`);
}

/** The servers' half of a row type of tables (faces/tables/rows/custom-row.ts), or a row type itself. */
function rowTypeIn(value: unknown): PsRowType | undefined {
  if (isPsRowType(value)) return value;
  const plugIn = typeof value === "object" && value !== null ? (value as { readonly plugIn?: unknown }).plugIn : undefined;
  return isPsRowType(plugIn) ? plugIn : undefined;
}
