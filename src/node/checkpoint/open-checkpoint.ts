// open-checkpoint — opens the checkpoint somebody means who names a directory. If it is of no use, which may show only when its data is read, the error also
// names the one before it, which is for its user to choose.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { CheckpointReader, type ReaderOptions } from "./checkpoint-reader.ts";
import type { FileLayer } from "./file-layer.ts";
import { type FindOptions, findCheckpoint, olderCheckpoint } from "./find-checkpoint.ts";

export async function openCheckpoint(
  directory: string,
  options: FindOptions & Omit<ReaderOptions, "explain"> = {},
): Promise<CheckpointReader> {
  const path = await findCheckpoint(directory, options);
  const explain = (thrown: unknown): Promise<unknown> => withOlder(thrown, path, options.layer);
  try {
    return await CheckpointReader.open(path, { ...options, explain });
  } catch (thrown) {
    throw await explain(thrown);
  }
}

async function withOlder(thrown: unknown, path: string, layer: FileLayer | undefined): Promise<unknown> {
  if (!isWeighbridgeError(thrown) || !thrown.code.startsWith("CHECKPOINT_")) return thrown;
  const older = await olderCheckpoint(path, layer);
  if (older === undefined) return thrown;
  const { code, message, retryable } = thrown;
  return new WeighbridgeError(code, `${message}; the checkpoint before it is ${older}`, { cause: thrown, retryable });
}
