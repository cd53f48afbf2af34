// row-updater — what a table asks of its optimizer and of its initializer: an Updater and an Initializer are such.

import type { InitializerKernels } from "../kernel/initializer-kernels.ts";
import type { SlotLayout } from "./updaters/slot-layout.ts";
import type { Trial } from "./updaters/trial.ts";

/** What a table asks of its optimizer; an Updater is one. `rows` lists the addresses (u32) of the rows' first values. */
export interface RowUpdater {
  /** Bytes of slots and words behind the values of a row. */
  rowExtraBytes(): number;
  /** Sets the slots of new rows, whose values are set already and whose slots and words are zero. */
  startRows(rows: number, rowCount: number): void;
  /** One step for each listed row in turn, with `width` floats of gradient each. */
  updateRows(rows: number, rowCount: number, gradients: number): void;
  /** Whether the step in hand has to go through `attempt`, (Updater P4). */
  readonly isTried: boolean;
  readonly layout: SlotLayout;
  /** Without a trial the updater keeps itself what it is about to change. */
  attempt(apply: (trial?: Trial) => void, undone?: () => void): boolean;
  /** Whether it compares with what workers pulled: with what this one did, in the step in hand. */
  readonly notesPulls: boolean;
  readonly comparedRank: number | undefined;
  /** As `updateRows`, compared with the rows that `pulled` lists (Updater). */
  updatePulledRows(rows: number, pulled: number, rowCount: number, gradients: number, justPulled: boolean): void;
  /** Values and slots came from elsewhere, with magnitudes up to this. */
  noteMagnitude(magnitude: number): void;
}

/** What a table asks of its initializer; an Initializer is one. */
export interface RowInitializer {
  /** Where the recipe is by which the kernels set the values of rows, listed as above, to what their keys begin with; nothing else decides it (T3). */
  readonly recipe: number;
  readonly kernels: Pick<InitializerKernels, "initializeRows">;
}
