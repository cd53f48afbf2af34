// open-checkpoint — opens the checkpoint somebody means who names a directory. If it is of no use the error also names the one before it, which
// is for its user to choose.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { CheckpointReader, type ReaderOptions } from "./checkpoint-reader.ts";
import { type FindOptions, findCheckpoint, olderCheckpoint } from "./find-checkpoint.ts";

export async function openCheckpoint(directory: string, options: FindOptions & ReaderOptions = {}): Promise<CheckpointReader> {
  const path = await findCheckpoint(directory, options);
  try {
    return await CheckpointReader.open(path, options);
  } catch (cause) {
    const older = isWeighbridgeError(cause) ? await olderCheckpoint(path, options.layer) : undefined;
    if (older === undefined || !isWeighbridgeError(cause)) throw cause;
    throw new WeighbridgeError(cause.code, `${cause.message}; the checkpoint before it is ${older}`, { cause, retryable: cause.retryable });
  }
}
