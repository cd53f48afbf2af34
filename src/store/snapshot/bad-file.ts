// bad-file — the errors of a file of a checkpoint that cannot be used. Each names the file, and says what is wrong with it.

import { WeighbridgeError } from "../../base/errors.ts";

/** It is not what was written, as in "step-000001/manifest.json does not end with its checksum". */
export function torn(file: string, what: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("CHECKPOINT_TORN", `${file} ${what}`, { cause });
}

/** It may be whole, and is none of ours, or of another version, job or model. */
export function foreign(file: string, what: string, cause?: unknown): WeighbridgeError {
  return new WeighbridgeError("CHECKPOINT_FOREIGN", `${file} ${what}`, { cause });
}
