// function-module — finds and loads a user's module of functions, and picks what workers serve of it: everything that
// `workerFunction` made, with a handler. server-module.ts picks what servers use.

import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { isWorkerFunction } from "../contracts/known-function.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";

/** The absolute path of a module with functions. Throws BAD_CONFIG if there is no such file; loads nothing. */
export function functionModulePath(module: string): string {
  const path = resolve(module);
  if (existsSync(path) && statSync(path).isFile()) return path;
  throw new WeighbridgeError("BAD_CONFIG", `there is no module ${module} with functions (looked for ${path})`);
}

/** What workers serve of a module. Throws BAD_CONFIG, naming the module, if it does not exist or cannot be loaded. */
export async function loadWorkerFunctions(module: string): Promise<readonly WorkerFunction[]> {
  return Object.values(await exportsOf(module)).filter(isWorkerFunction);
}

/** What a module exports, by name. Throws as `loadWorkerFunctions`. */
export async function exportsOf(module: string): Promise<Readonly<Record<string, unknown>>> {
  const path = functionModulePath(module);
  try {
    return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (thrown) {
    throw new WeighbridgeError("BAD_CONFIG", `the module of functions ${module} cannot be loaded: ${reasonOf(thrown)}`, { cause: thrown });
  }
}
