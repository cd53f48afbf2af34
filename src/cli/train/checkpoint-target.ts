// checkpoint-target — makes the directory of a training's checkpoints before it begins, and makes sure that they can be saved there.

import { existsSync, mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { requireWritableDirectory, unwritableError } from "../../node/checkpoint/checkpoint-directory.ts";

/** Creates the directory where it is missing. Throws BAD_CONFIG when it cannot be written to. */
export function prepareCheckpointTarget(path: string): void {
  requireWritableDirectory(path);
  try {
    createWithParents(resolve(path));
  } catch (thrown) {
    throw unwritableError(path, thrown);
  }
}

/** One by one: Node's own way to make parents never returns where the system says that there is no such place (/proc). */
function createWithParents(directory: string): void {
  if (existsSync(directory)) return;
  createWithParents(dirname(directory));
  mkdirSync(directory);
}
