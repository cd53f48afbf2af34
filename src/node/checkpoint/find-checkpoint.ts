// find-checkpoint — finds the checkpoint that a directory stands for: the directory itself, or the newest in it. It
// never falls back to an older one by itself, which would silently undo training: the error says what is wrong and
// names the older one.

import { join } from "node:path";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { MANIFEST_FILE } from "../../store/snapshot/checkpoint-manifest.ts";
import { foreign } from "../../store/snapshot/snapshot-files.ts";
import { CheckpointDirectory, type StoredCheckpoint, stepName } from "./checkpoint-directory.ts";
import { CheckpointReader, type ReaderOptions } from "./checkpoint-reader.ts";
import { type FileLayer, fileError, realFiles } from "./file-layer.ts";

export type FindOptions = {
  readonly layer?: FileLayer | undefined;
  /** The checkpoint of this step instead of the newest. */
  readonly step?: number | undefined;
};

/** Returns the checkpoint's own directory. Throws CHECKPOINT_MISSING, with what is there instead. */
export async function findCheckpoint(directory: string, { layer = realFiles, step }: FindOptions = {}): Promise<string> {
  const names = await listDirectory(directory, layer);
  if (names.includes(MANIFEST_FILE)) return directory;
  const stored = await new CheckpointDirectory({ root: directory, layer }).list();
  const found = step === undefined ? stored.at(-1) : stored.find((checkpoint) => checkpoint.step === step);
  if (found !== undefined) return found.path;
  throw new WeighbridgeError("CHECKPOINT_MISSING", `${missing(directory, step)}: ${whatIsThere(names, stored)}`);
}

async function listDirectory(directory: string, layer: FileLayer): Promise<readonly string[]> {
  try {
    return await layer.list(directory);
  } catch (cause) {
    if ((cause as { readonly code?: unknown }).code !== "ENOTDIR") throw fileError(`cannot read ${directory}`, cause);
    throw foreign(directory, `is a file; a checkpoint is a directory with a ${MANIFEST_FILE}`, cause);
  }
}

/** The newest checkpoint beside this one that is older, to be named in an error about this one. */
export async function olderCheckpoint(path: string, layer: FileLayer = realFiles): Promise<string | undefined> {
  const root = join(path, "..");
  const stored = await new CheckpointDirectory({ root, layer }).list();
  const own = stored.findIndex((checkpoint) => join(checkpoint.path) === join(path));
  return own < 1 ? undefined : stored[own - 1]?.path;
}

function missing(directory: string, step: number | undefined): string {
  return step === undefined ? `there is no checkpoint in ${directory}` : `there is no ${stepName(step)} in ${directory}`;
}

function whatIsThere(names: readonly string[], stored: readonly StoredCheckpoint[]): string {
  if (stored.length > 0) return `there are the steps ${stored.map(({ step }) => step).join(", ")}`;
  if (names.some((name) => name.includes(".pending-"))) return "only one that was never completed";
  const shard = names.find((name) => name.endsWith(".safetensors"));
  if (shard !== undefined) return `${shard} has no ${MANIFEST_FILE} beside it`;
  return names.length === 0 ? "it is empty" : `it has no ${MANIFEST_FILE} and no ${stepName(0)} or the like`;
}

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

/**
 * The newest checkpoint, for servers that may begin without one. Throws CHECKPOINT_MISSING only if there is none: a
 * file that the newest one lacks is CHECKPOINT_TORN, as every other damage (docs/decisions/0070).
 */
export async function resumeCheckpoint(directory: string, options: FindOptions = {}): Promise<CheckpointReader> {
  const path = await findCheckpoint(directory, options);
  try {
    return await openCheckpoint(path, { layer: options.layer });
  } catch (thrown) {
    if (!isWeighbridgeError(thrown, "CHECKPOINT_MISSING")) throw thrown;
    throw new WeighbridgeError("CHECKPOINT_TORN", thrown.message, { cause: thrown });
  }
}
