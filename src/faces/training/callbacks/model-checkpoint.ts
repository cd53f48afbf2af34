// model-checkpoint — saves a model while it trains (MindSpore: ModelCheckpoint). What lives on servers is saved by
// them, as a checkpoint of the cluster; what lives in this process goes into a safetensors file. Both, where a model is
// in both.
//
// Invariants:
//   C1. Worker 0 saves, and no other.
//   C2. One save at a time: a step that is due while the one before is under way is passed over.
//   C3. After an error nothing is saved: the last good checkpoint stays the newest.
//   C4. A save by the servers that fails is told at once and ends nothing: the next one that is due is tried. The last
//       one has to succeed.
//   C5. Rows that workers keep are saved at the end of an epoch alone, when the servers have them, and nobody goes on
//       before that is done.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../../base/errors.ts";
import { checkOptions } from "../../../base/known-options.ts";
import type { EpochEvent, StepEvent, TrainingCallback, TrainingView } from "./callback.ts";

/** Where files of models are kept. */
export interface ModelFiles {
  /** Whole or not at all; replaces a file of that name. Returns its path. */
  write(name: string, bytes: Uint8Array): Promise<string>;
  remove(name: string): Promise<void>;
}

export type ModelCheckpointOptions = {
  /** Of file names, and the job's name on servers. "CKP" by default, as in MindSpore. */
  readonly prefix?: string;
  /** Every so many steps; left out: at the end of every epoch. */
  readonly everySteps?: number | undefined;
  /** How many are kept; 5 by default. */
  readonly keepMax?: number;
  readonly files: ModelFiles;
  /** Told of every checkpoint that was saved. */
  readonly onSaved?: ((path: string) => void) | undefined;
  /** Told of a save by the servers that failed, where another one will be tried; a line on the console by default. */
  readonly onFailed?: ((error: unknown) => void) | undefined;
};

export const CHECKPOINT_OPTIONS: readonly string[] = ["prefix", "everySteps", "keepMax", "onSaved", "onFailed"];

export class ModelCheckpoint implements TrainingCallback {
  readonly #options: Required<Omit<ModelCheckpointOptions, "onSaved" | "onFailed">> & Pick<ModelCheckpointOptions, "onSaved">;
  readonly #onFailed: (error: unknown) => void;
  readonly #names: string[] = [];
  #saving: Promise<void> | undefined;
  #stepCount = 0;
  #savedStep = 0;
  #where = "";

  /** Throws BAD_ARGUMENT. */
  constructor(options: ModelCheckpointOptions) {
    checkOptions(options, ["files", ...CHECKPOINT_OPTIONS], "the options of a ModelCheckpoint");
    const { prefix = "CKP", everySteps, keepMax = 5, files, onSaved } = options;
    if (!/^[\w.-]+$/.test(prefix)) throw new WeighbridgeError("BAD_ARGUMENT", `prefix is a name for files, not ${JSON.stringify(prefix)}`);
    for (const [name, count] of Object.entries({ everySteps: everySteps ?? 1, keepMax })) {
      if (!(Number.isSafeInteger(count) && count >= 1)) {
        throw new WeighbridgeError("BAD_ARGUMENT", `${name} is a whole number from 1 on, not ${count}`);
      }
    }
    this.#options = { prefix, everySteps, keepMax, files, onSaved };
    this.#onFailed = options.onFailed ?? ((error) => console.warn(`no checkpoint was saved after step ${this.#where}: ${reasonOf(error)}`));
  }

  /** Throws BAD_ARGUMENT (C5). */
  begin({ keepsRows }: TrainingView): void {
    const { everySteps } = this.#options;
    if (!keepsRows || everySteps === undefined) return;
    const text = "leave everySteps out: the servers have the rows that workers keep (vocabCacheSize) at the end of an epoch alone";
    throw new WeighbridgeError("BAD_ARGUMENT", `a ModelCheckpoint every ${everySteps} steps of a network with cached rows: ${text}`);
  }

  async stepEnd({ epoch, step }: StepEvent, view: TrainingView): Promise<void> {
    const { everySteps } = this.#options;
    this.#stepCount++;
    this.#where = `${epoch}_${step}`;
    if (everySteps !== undefined && this.#stepCount % everySteps === 0) await this.#save(view);
  }

  async epochEnd(_event: EpochEvent, view: TrainingView): Promise<void> {
    if (this.#options.everySteps !== undefined) return;
    await this.#saving; // the end of an epoch is not passed over
    await this.#save(view);
    if (view.keepsRows) await this.#saving; // C5
  }

  /** Waits for what is under way, and saves what was learned since. Throws what went wrong with that (C4). */
  async end(view: TrainingView, error?: unknown): Promise<void> {
    await this.#saving;
    if (error !== undefined || view.rank !== 0 || this.#savedStep === this.#stepCount) return; // C1, C3
    const { saving } = await this.#begin(view);
    await saving;
  }

  /** Where servers save, training goes on while they write. */
  async #save(view: TrainingView): Promise<void> {
    if (view.rank !== 0 || this.#saving !== undefined) return; // C1, C2
    const { saving } = await this.#begin(view);
    if (!view.isDistributed) return await saving;
    this.#saving = saving.catch(this.#onFailed).finally(() => {
      this.#saving = undefined;
    });
  }

  /** Resolves when training may go on: what is saved is that of this step. */
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
    this.#names.push(name);
    while (this.#names.length > keepMax) await files.remove(this.#names.shift()!);
  }

  /** Asks for the cut at once: at this step's clock. */
  async #byServers(view: TrainingView): Promise<void> {
    const { prefix, keepMax, onSaved } = this.#options;
    try {
      const { path } = await view.checkpoint({ job: prefix, keep: keepMax });
      onSaved?.(path);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown; // somebody else takes one just now
    }
  }
}
