// checkpoint-place — makes sure, before a training begins, that its checkpoints can be saved: who finds out after an epoch has lost it.

import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { reasonOf, WeighbridgeError } from "../../base/errors.ts";

/** Creates the directory where it is missing. Throws BAD_CONFIG when it cannot be written to. */
export function prepareCheckpointPlace(path: string): void {
  const directory = resolve(path);
  try {
    createWithParents(directory);
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (thrown) {
    throw placeError(path, thrown);
  }
}

export function placeError(path: string, cause: unknown): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", `--checkpoint-dir ${path}: nothing can be saved there: ${reasonOf(cause)}`, { cause });
}

/** One by one: Node's own way to make parents never returns where the system says that there is no such place (/proc). */
function createWithParents(directory: string): void {
  if (existsSync(directory)) return;
  createWithParents(dirname(directory));
  mkdirSync(directory);
}
