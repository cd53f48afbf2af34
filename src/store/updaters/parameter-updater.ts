// parameter-updater — the interface of a server to the updater of a parameter. Updater calls the kernels of our
// optimizers on f32 (updater.ts); PlugInUpdater runs plain TypeScript, users' and ours for other rows
// (plug-in-updater.ts).

import type { InitializerKernels } from "../../kernel/initializer-kernels.ts";
import type { LearningRate } from "./learning-rate.ts";
import type { ResolvedOptimizer } from "./optimizer-spec.ts";
import type { SlotLayout } from "./slot-layout.ts";
import type { Trial } from "./trial.ts";
import type { NonFiniteCounts, UpdatedBlock, UpdateStep } from "./updater.ts";

export interface ParameterUpdater extends RowUpdater {
  readonly spec: ResolvedOptimizer;
  /** Words of a row's values. */
  readonly width: number;
  readonly counts: NonFiniteCounts;
  /** Whether the updates of each row count, and not those of the whole. */
  readonly countsRows: boolean;
  /** Whether the pushes to the whole parameter count. */
  readonly countsPushes: boolean;
  /** Prepares for rows that count their own steps. */
  countRows(): void;

  /** Changes of it count from the next `begin` on. */
  readonly rate: LearningRate;
  /** Call it before the updates of a message; it holds until the next. */
  begin(at: UpdateStep): void;
  /** Whether a push may be applied: its greatest magnitude, or undefined if it is skipped. Throws NOT_FINITE. */
  admit(gradients: number, wordCount: number): number | undefined;
  /** As `admit`, for the sum of a round, for which no caller waits: undefined for every refusal. */
  admitSum(gradients: number, wordCount: number, bound?: number): number | undefined;
  /** Runs the update of a round, for which no caller waits. Undefined, with nothing applied, if it was refused. */
  inRound<T>(act: () => T): T | undefined;

  /** Where the rows of the block in hand count their steps; 0 where they do not. */
  readonly rowSteps: number;
  /** Updates a block of whole rows. Reads values at `source`, writes them at `target`. */
  updateBlock(block: UpdatedBlock, gradients: number): void;
  /** As `updateBlock`, for its rows from `from` up to `to` alone; `gradients` has those of all its rows. */
  updateBlockRun(block: UpdatedBlock, run: { readonly from: number; readonly to: number }, gradients: number): void;
  /** Updates the rows of a block whose indexes within it `rows` lists. */
  updateBlockRows(block: BlockAddresses, rows: number, listed: number, gradients: number): void;
  /** Bytes from one slot of a block to the next. */
  slotStride(rowCount: number): number;
  /** Bytes of all slots of a block; may be 0. */
  blockSlotBytes(rowCount: number): number;
  /** Sets the slots of a new block, whose values are set already. */
  startBlock(values: number, slots: number, rowCount: number): void;
  close(): void;
}

/** Addresses of a block that is updated without moving. */
export type BlockAddresses = {
  readonly values: number;
  readonly slots: number;
  readonly rowCount: number;
  readonly pulled?: number | undefined;
};

/** The interface of a table to its optimizer. `rows` lists the addresses (u32) of the rows' first values. */
export interface RowUpdater {
  /** Bytes of slots and words behind the values of a row. */
  rowExtraBytes(): number;
  /** Sets the slots of new rows, whose values are set already and whose slots and words are zero. */
  startRows(rows: number, rowCount: number): void;
  /** One step for each listed row in turn, with `width` floats of gradient each. */
  updateRows(rows: number, rowCount: number, gradients: number): void;
  /** Whether the current step must go through `attempt` (Updater.P4). */
  readonly isTried: boolean;
  readonly layout: SlotLayout;
  /** Without a trial the updater itself saves what it changes. */
  attempt(apply: (trial?: Trial) => void, undone?: () => void): boolean;
  /** Whether it compares with what workers pulled. */
  readonly notesPulls: boolean;
  readonly comparedRank: number | undefined;
  /** As `updateRows`, compared with the rows that `pulled` lists (Updater). */
  updatePulledRows(rows: number, pulled: number, rowCount: number, gradients: number, justPulled: boolean): void;
  /** Values and slots from elsewhere have magnitudes up to this. */
  noteMagnitude(magnitude: number): void;
}

/** The interface of a table to its initializer. */
export interface RowInitializer {
  /** The address of the recipe by which kernels set the first values of rows; it alone decides them (TableStore.T3). */
  readonly recipe: number;
  readonly kernels: Pick<InitializerKernels, "initializeRows">;
}
