// writable-directory — whether checkpoints can be saved in a directory, checked when a node starts: at the first checkpoint it would be too
// late for what was trained until then. It creates nothing.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { reasonText } from "./file-layer.ts";

/** What this asks of a file system; each throws an error with the system's code. */
export type DirectoryProbe = {
  readonly exists: (path: string) => boolean;
  readonly isDirectory: (path: string) => boolean;
  /** Throws unless names can be added there. */
  readonly requireWritable: (path: string) => void;
};

const realDirectories: DirectoryProbe = {
  exists: existsSync,
  isDirectory: (path) => statSync(path).isDirectory(),
  requireWritable: (path) => accessSync(path, constants.W_OK | constants.X_OK),
};

/** Throws BAD_CONFIG, with the system's reason. A directory that is not there yet is judged by the one in which it would be made. */
export function requireWritableDirectory(path: string, probe: DirectoryProbe = realDirectories): void {
  let nearest = resolve(path);
  try {
    while (!probe.exists(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    if (!probe.isDirectory(nearest)) throw Object.assign(new Error(`${nearest} is a file`), { code: "ENOTDIR" });
    probe.requireWritable(nearest);
  } catch (thrown) {
    throw unwritableError(path, thrown);
  }
}

export function unwritableError(path: string, cause: unknown): WeighbridgeError {
  const message = `nothing can be saved in ${path}: ${reasonText(cause)}; name another directory with --checkpoint-dir`;
  return new WeighbridgeError("BAD_CONFIG", message, { cause });
}
