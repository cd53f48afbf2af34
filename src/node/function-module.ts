// function-module — functions from a user's module: everything it exports that `psFunction` made is served by servers,
// what `workerFunction` made, with a handler, by workers.

import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { isPsFunction, isWorkerFunction } from "../contracts/described-function.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { WorkerFunction } from "../contracts/worker-function.ts";

/** The absolute path of a module with functions. Throws BAD_CONFIG when there is no such file; loads nothing. */
export function functionModulePath(module: string): string {
  const path = resolve(module);
  if (existsSync(path) && statSync(path).isFile()) return path;
  throw new WeighbridgeError("BAD_CONFIG", `there is no module ${module} with functions (looked for ${path})`);
}

/**
 * Throws BAD_CONFIG, naming the module, when it is not there, cannot be loaded, or has no functions of servers or
 * workers.
 */
export async function loadFunctions(module: string): Promise<readonly PsFunction[]> {
  const exports = await exportsOf(module);
  const functions = Object.values(exports).filter(isPsFunction);
  if (functions.length > 0 || Object.values(exports).some(isWorkerFunction)) return functions;
  const names = Object.keys(exports).join(", ") || "nothing";
  throw new WeighbridgeError("BAD_CONFIG", `the module ${module} exports ${names}, and none of that is a function made by psFunction`);
}

/** What workers serve of a module. Throws BAD_CONFIG, naming the module, when it is not there or cannot be loaded. */
export async function loadWorkerFunctions(module: string): Promise<readonly WorkerFunction[]> {
  return Object.values(await exportsOf(module)).filter(isWorkerFunction);
}

async function exportsOf(module: string): Promise<Readonly<Record<string, unknown>>> {
  const path = functionModulePath(module);
  try {
    return (await import(pathToFileURL(path).href)) as Readonly<Record<string, unknown>>;
  } catch (thrown) {
    throw new WeighbridgeError("BAD_CONFIG", `the module of functions ${module} cannot be loaded: ${reasonOf(thrown)}`, { cause: thrown });
  }
}
