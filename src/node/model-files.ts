// model-files — safetensors files of models in a directory: written under another name first, then renamed, so that a
// file is always complete.

import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { WeighbridgeError } from "../base/errors.ts";
import { checkOptions } from "../base/known-options.ts";
import {
  type ModelCheckpointOptions as CallbackOptions,
  CHECKPOINT_OPTIONS,
  ModelCheckpoint as CheckpointCallback,
  type ModelFiles,
} from "../faces/training/callbacks/model-checkpoint.ts";
import type { Model, OpenOptions } from "../faces/training/model.ts";
import { attempt, realFiles, writeSmallFile } from "./checkpoint/file-layer.ts";

function modelFiles(directory: string): ModelFiles {
  const at = (name: string): string => join(resolve(directory), name);
  return {
    async write(name, bytes) {
      const path = at(name);
      await attempt(`cannot write ${path}`, async () => {
        await realFiles.makeDirectory(dirname(path));
        await writeSmallFile(realFiles, path, bytes);
        await realFiles.syncDirectory(dirname(path));
      });
      return path;
    },
    async remove(name) {
      await attempt(`cannot remove ${at(name)}`, () => realFiles.remove(at(name)));
    },
  };
}

/** When the model is saved, and where. */
export type ModelCheckpointOptions = Omit<CallbackOptions, "files"> & {
  /**
   * Where parameters of this process are saved; the working directory by default. Servers have their own checkpointDir.
   */
  readonly directory?: string | undefined;
};

/**
 * Saves the model while it is trained, and at the end (MindSpore: ModelCheckpoint): files in a directory of this
 * worker, or a checkpoint of the servers if parameters live there.
 */
export class ModelCheckpoint extends CheckpointCallback {
  constructor(options: ModelCheckpointOptions = {}) {
    checkOptions(options, ["directory", ...CHECKPOINT_OPTIONS], "the options of a ModelCheckpoint");
    const { directory = ".", ...others } = options;
    super({ ...others, files: modelFiles(directory) });
  }
}

/**
 * Loads what a ModelCheckpoint saved into a model (MindSpore: load_checkpoint). Throws CHECKPOINT_MISSING, _TORN,
 * _FOREIGN or _IO, naming the file.
 */
export async function loadModel(model: Model, path: string, options: OpenOptions = {}): Promise<void> {
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    throw new WeighbridgeError("CHECKPOINT_MISSING", `cannot read ${path}`, { cause });
  }
  await model.decode(bytes, path, options);
}
