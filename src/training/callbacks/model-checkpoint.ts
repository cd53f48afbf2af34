// model-checkpoint — saves a model while it trains (MindSpore: ModelCheckpoint). What lives on servers is saved by them, as a checkpoint of the cluster; what
// lives in this process goes into a safetensors file. Both, where a model is in both.
//
// Invariants:
//   C1. Worker 0 saves, and no other.
//   C2. One save at a time: a step that is due while the one before is under way is passed over.
//   C3. After an error nothing is saved: the last good checkpoint stays the newest.

import { checkOptions } from "../../api/known-options.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
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
};

export class ModelCheckpoint implements TrainingCallback {
  readonly #options: Required<Omit<ModelCheckpointOptions, "onSaved">> & Pick<ModelCheckpointOptions, "onSaved">;
  readonly #names: string[] = [];
  #saving: Promise<void> | undefined;
  #stepCount = 0;
  #savedStep = 0;
  #where = "";

  /** Throws BAD_ARGUMENT. */
  constructor(options: ModelCheckpointOptions) {
    checkOptions(options, ["prefix", "everySteps", "keepMax", "files", "onSaved"], "the options of a ModelCheckpoint");
    const { prefix = "CKP", everySteps, keepMax = 5, files, onSaved } = options;
    if (!/^[\w.-]+$/.test(prefix)) throw new WeighbridgeError("BAD_ARGUMENT", `prefix is a name for files, not ${JSON.stringify(prefix)}`);
    for (const [name, count] of Object.entries({ everySteps: everySteps ?? 1, keepMax })) {
      if (!(Number.isSafeInteger(count) && count >= 1)) {
        throw new WeighbridgeError("BAD_ARGUMENT", `${name} is a whole number from 1 on, not ${count}`);
      }
    }
    this.#options = { prefix, everySteps, keepMax, files, onSaved };
  }

  async stepEnd({ epoch, step }: StepEvent, view: TrainingView): Promise<void> {
    const { everySteps } = this.#options;
    this.#stepCount++;
    this.#where = `${epoch}_${step}`;
    if (everySteps !== undefined && this.#stepCount % everySteps === 0) await this.#save(view);
  }

  async epochEnd(_event: EpochEvent, view: TrainingView): Promise<void> {
    if (this.#options.everySteps === undefined) await this.#save(view);
  }

  /** Waits for what is under way, and saves what was learned since. */
  async end(view: TrainingView, error?: unknown): Promise<void> {
    await this.#saving;
    if (error !== undefined || this.#savedStep === this.#stepCount) return; // C3
    await this.#save(view);
    await this.#saving;
  }

  async #save(view: TrainingView): Promise<void> {
    if (view.rank !== 0 || this.#saving !== undefined) return; // C1, C2
    const step = this.#stepCount;
    const name = `${this.#options.prefix}-${this.#where}.safetensors`;
    const bytes = await view.encode();
    this.#saving = this.#write(view, name, bytes).then(() => {
      this.#savedStep = step;
    });
    this.#saving.catch(() => {}); // whoever waits next is told
    const saving = this.#saving;
    if (view.isDistributed) {
      saving.then(
        () => this.#ended(saving),
        () => {},
      );
      return; // training goes on while the servers write
    }
    await saving;
    this.#ended(saving);
  }

  #ended(saving: Promise<void>): void {
    if (this.#saving === saving) this.#saving = undefined;
  }

  async #write(view: TrainingView, name: string, bytes: Uint8Array | undefined): Promise<void> {
    const { prefix, keepMax, files, onSaved } = this.#options;
    if (bytes !== undefined) {
      const path = await files.write(name, bytes);
      onSaved?.(path);
      this.#names.push(name);
      while (this.#names.length > keepMax) await files.remove(this.#names.shift()!);
    }
    if (!view.isDistributed) return;
    try {
      const { path } = await view.checkpoint({ job: prefix, keep: keepMax });
      onSaved?.(path);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "QUEUE_FULL")) throw thrown; // somebody else takes one just now
    }
  }
}
