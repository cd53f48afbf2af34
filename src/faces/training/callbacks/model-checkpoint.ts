// model-checkpoint — saves a model while it trains (MindSpore: ModelCheckpoint). Servers save their parameters as a
// checkpoint of the cluster; parameters in this process go into a safetensors file. A model that has both gets both.
//
// Invariants:
//   ModelCheckpoint.C1. Only worker 0 saves.
//   ModelCheckpoint.C2. One save at a time: a step that is due during a save is skipped.
//   ModelCheckpoint.C3. After an error nothing is saved: the last good checkpoint stays the newest.
//   ModelCheckpoint.C4. A failed save by the servers is reported at once and ends nothing: the next one that is due is
//       tried. The last one has to succeed.
//   ModelCheckpoint.C5. Rows that workers cache are saved only at the end of an epoch, when the servers have them, and
//       no worker continues before the save is done.

import { badArgument, isWeighbridgeError, reasonOf } from "../../../base/errors.ts";
import { type Complete, checkOptions } from "../../../base/known-options.ts";
import type { EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callback.ts";

/** A store for files of models. */
export interface ModelFiles {
  /** Whole or not at all; replaces a file of that name. Returns its path. */
  write(name: string, bytes: Uint8Array): Promise<string>;
  remove(name: string): Promise<void>;
}

/** When the model is saved, and where. */
export type ModelCheckpointOptions = {
  /** The prefix of file names, and the job's name on servers. "CKP" by default, as in MindSpore. */
  readonly prefix?: string | undefined;
  /** Save every this many steps; if left out, at the end of every epoch. */
  readonly everySteps?: number | undefined;
  /** How many are kept; 5 by default. */
  readonly keepMax?: number | undefined;
  /** @internal */
  readonly files: ModelFiles;
  /** Called for every saved checkpoint. */
  readonly onSaved?: ((path: string) => void) | undefined;
  /** Called for a failed save by the servers, if another one will be tried; by default it is a warning in the log. */
  readonly onFailed?: ((error: unknown) => void) | undefined;
};

export const CHECKPOINT_OPTIONS: readonly string[] = ["prefix", "everySteps", "keepMax", "onSaved", "onFailed"];

/** Saves the model as it trains (MindSpore: ModelCheckpoint). */
export class ModelCheckpoint implements TrainingCallback {
  readonly #options: Complete<Omit<ModelCheckpointOptions, "everySteps" | "onSaved" | "onFailed">> &
    Pick<ModelCheckpointOptions, "everySteps" | "onSaved" | "onFailed">;
  readonly #names: string[] = [];
  #saving: Promise<void> | undefined;
  #stepCount = 0;
  #savedStep = 0;
  #where = "";

  /** Throws BAD_ARGUMENT. */
  constructor(options: ModelCheckpointOptions) {
    checkOptions(options, ["files", ...CHECKPOINT_OPTIONS], "the options of a ModelCheckpoint");
    const { prefix = "CKP", everySteps, keepMax = 5, files, onSaved, onFailed } = options;
    if (!/^[\w.-]+$/.test(prefix))
      throw badArgument(`prefix must be a file name of letters, digits, _, . and -, not ${JSON.stringify(prefix)}`);
    for (const [name, count] of Object.entries({ everySteps: everySteps ?? 1, keepMax })) {
      if (!(Number.isSafeInteger(count) && count >= 1)) {
        throw badArgument(`${name} is a whole number from 1 on, not ${count}`);
      }
    }
    this.#options = { prefix, everySteps, keepMax, files, onSaved, onFailed };
  }

  /** Refuses `everySteps` for a network with cached rows: throws BAD_ARGUMENT (ModelCheckpoint.C5). */
  begin({ keepsRows }: TrainingView): void {
    const { everySteps } = this.#options;
    if (!keepsRows || everySteps === undefined) return;
    const text = "leave everySteps out: the servers have the rows that workers cache (vocabCacheSize) only at the end of an epoch";
    throw badArgument(`a ModelCheckpoint cannot save every ${everySteps} steps of a network with cached rows: ${text}`);
  }

  async stepEnd({ epoch, epochStep }: StepEvent, view: TrainingView): Promise<void> {
    const { everySteps } = this.#options;
    this.#stepCount++;
    this.#where = `${epoch}_${epochStep}`; // also of an epoch that was resumed in its middle
    if (everySteps !== undefined && this.#stepCount % everySteps === 0) await this.#save(view);
  }

  async epochEnd({ isMissed }: EpochEvent, view: TrainingView): Promise<void> {
    if (this.#options.everySteps !== undefined || isMissed) return;
    await this.#saving; // the end of an epoch is not skipped
    await this.#save(view);
    if (view.keepsRows) await this.#saving; // ModelCheckpoint.C5
  }

  /** Waits for a save under way, and saves what was learned since. Throws its error (ModelCheckpoint.C4). */
  async end(view: TrainingView, error?: unknown): Promise<void> {
    await this.#saving;
    // ModelCheckpoint.C1, ModelCheckpoint.C3.
    if (error !== undefined || view.rank !== 0 || this.#savedStep === this.#stepCount) return;
    const { saving } = await this.#begin(view);
    await saving;
  }

  /** If servers save, training goes on while they write. */
  async #save(view: TrainingView): Promise<void> {
    if (view.rank !== 0 || this.#saving !== undefined) return; // ModelCheckpoint.C1, ModelCheckpoint.C2
    const step = this.#where;
    const { saving } = await this.#begin(view);
    if (!view.isDistributed) return await saving;
    const told = (error: unknown): void => view.log.warn("no checkpoint was saved", { step, reason: reasonOf(error) });
    this.#saving = saving.catch(this.#options.onFailed ?? told).finally(() => {
      this.#saving = undefined;
    });
  }

  /** Resolves when training may go on: the checkpoint is of this step. */
  async #begin(view: TrainingView): Promise<{ readonly saving: Promise<void> }> {
    const step = this.#stepCount;
    const name = `${this.#options.prefix}-${this.#where}.safetensors`;
    const bytes = await view.encode();
    const parts = [view.isDistributed ? this.#byServers(view) : undefined, bytes === undefined ? undefined : this.#toFile(name, bytes)];
    const saving = Promise.all(parts).then(() => {
      this.#savedStep = step;
    });
    return { saving };
  }

  async #toFile(name: string, bytes: Uint8Array): Promise<void> {
    const { keepMax, files, onSaved } = this.#options;
    const path = await files.write(name, bytes);
    onSaved?.(path);
    const before = this.#names.indexOf(name); // a step that was made again
    if (before >= 0) this.#names.splice(before, 1);
    this.#names.push(name);
    while (this.#names.length > keepMax) await files.remove(this.#names.shift()!);
  }

  /** Requests the cut at once: at this step's clock. */
  async #byServers(view: TrainingView): Promise<void> {
    const { prefix, keepMax, onSaved } = this.#options;
    try {
      const { path } = await view.checkpoint({ job: prefix, keep: keepMax });
      onSaved?.(path);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown; // another one is being taken
    }
  }
}
