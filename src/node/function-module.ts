// function-module — PS functions from a user's module: everything it exports that `psFunction` made.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { isPsFunction, type PsFunction } from "../functions/ps-function.ts";

/** Throws BAD_CONFIG, naming the module, when it is not there, cannot be loaded, or has no functions. */
export async function loadFunctions(module: string): Promise<readonly PsFunction[]> {
  const path = resolve(module);
  if (!existsSync(path)) throw new WeighbridgeError("BAD_CONFIG", `there is no module ${module} with functions (looked for ${path})`);
  let exports: Readonly<Record<string, unknown>>;
  try {
    exports = (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (thrown) {
    throw new WeighbridgeError("BAD_CONFIG", `the module of functions ${module} cannot be loaded: ${reasonOf(thrown)}`, { cause: thrown });
  }
  const functions = Object.values(exports).filter(isPsFunction);
  if (functions.length > 0) return functions;
  const names = Object.keys(exports).join(", ") || "nothing";
  throw new WeighbridgeError("BAD_CONFIG", `the module ${module} exports ${names}, and none of that is a function made by psFunction`);
}
