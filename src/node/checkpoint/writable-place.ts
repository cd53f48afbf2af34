// writable-place — whether checkpoints can be saved in a directory, found out when a node starts: who finds out at the first checkpoint has trained for
// nothing. It creates nothing.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { WeighbridgeError } from "../../base/errors.ts";
import { reasonText } from "./file-layer.ts";

/** What this asks of a file system; each throws an error with the system's code. */
export type PlaceProbe = {
  readonly exists: (path: string) => boolean;
  readonly isDirectory: (path: string) => boolean;
  /** Throws unless names can be added there. */
  readonly requireWritable: (path: string) => void;
};

const realPlaces: PlaceProbe = {
  exists: existsSync,
  isDirectory: (path) => statSync(path).isDirectory(),
  requireWritable: (path) => accessSync(path, constants.W_OK | constants.X_OK),
};

/** Throws BAD_CONFIG, with the system's reason. A directory that is not there yet is judged by the one in which it would be made. */
export function requireWritablePlace(path: string, probe: PlaceProbe = realPlaces): void {
  let place = resolve(path);
  try {
    while (!probe.exists(place) && dirname(place) !== place) place = dirname(place);
    if (!probe.isDirectory(place)) throw Object.assign(new Error(`${place} is a file`), { code: "ENOTDIR" });
    probe.requireWritable(place);
  } catch (thrown) {
    throw placeError(path, thrown);
  }
}

export function placeError(path: string, cause: unknown): WeighbridgeError {
  const message = `nothing can be saved in ${path}: ${reasonText(cause)}; name another place with --checkpoint-dir`;
  return new WeighbridgeError("BAD_CONFIG", message, { cause });
}
