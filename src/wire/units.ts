// units — UNITS: a worker reports to the scheduler which units of an epoch it has done, and borrows others
// (docs/decisions/0014).
//
//   An epoch of B batches cut into P parts has B · P units: unit u is part u mod P of batch u div P. Messages number
//   them by ordinals, so that what one worker borrows lies side by side:
//     "even"     ordinal = part · B + batch      a worker borrows rising batches of one part
//     "free"     ordinal = batch · P + part      every worker borrows the next
//     "rounds"   ordinal = batch · P + part      every worker borrows its share of the next batches
//   and list them as runs: from, to, from, to …, half open, rising, no two touching.

import { didYouMean } from "../base/nearest-name.ts";
import { type Check, count, flag, list, object, optional } from "./json-body.ts";
import { ASSIGNMENTS, type EpochDescription, epochFields, type Runs, runs } from "./units-claim.ts";

const UNITS_MAX: number = 2 ** 40;
const UNIT_PARTS_MAX = 65_536;
/** What one worker may hold at a time. */
export const UNITS_HELD_MAX = 1024;

export type UnitsRequest = EpochDescription & {
  /** Done since the last request that was answered, their updates acknowledged. Repeating it does no harm. */
  readonly done: Runs;
  /** All it holds, begun or not. What it borrowed and does not name here is lent again, and may have been begun. */
  readonly held: Runs;
  /** Given back, never begun. */
  readonly unused: Runs;
  /** How many more it would like, in rounds: of how many rounds; 0: it only reports. */
  readonly want: number;
  /** How long the answer may wait for a unit to lend. */
  readonly waitMs: number;
  /** The newest `inherited` that it knows; 0: none. */
  readonly inherited: number;
  /** It takes no more part in the epoch. */
  readonly leaves: boolean;
  /** In rounds: where its clock stands when it has done all it holds. */
  readonly clock?: number | undefined;
  /** In rounds: the most parts of a batch that it has room for; as many as there are when left out. */
  readonly partsMax?: number | undefined;
  /** In rounds: it is about to leave, and takes no share of rounds that are not dealt yet. */
  readonly retires?: boolean | undefined;
};
export const unitsRequestShape: Check<UnitsRequest> = object({
  ...{ ...epochFields, done: runs, held: runs, unused: runs, want: count, waitMs: count, inherited: count, leaves: flag },
  ...{ clock: optional(count), partsMax: optional(count), retires: optional(flag) },
});

export type UnitsReply = {
  readonly isOver: boolean;
  /** Lent now, and to be done in the order of their numbers as units. */
  readonly units: Runs;
  /** What it claimed to hold, but others have or had: it was declared dead meanwhile. */
  readonly lost: Runs;
  /** Units of the epoch that were lent again and may have been begun before. */
  readonly repeatedCount: number;
  /** What perhaps only a dead worker knew: from now on this one knows it. Left out when there is nothing new. */
  readonly inherited: { readonly version: number; readonly done: Runs; readonly suspect: Runs } | undefined;
  /** Ranks that live, have units of their own to do, and have requested none of this epoch yet. Left out if none. */
  readonly awaited?: readonly number[] | undefined;
  /**
   * In rounds: the clock at which the first of `units` is to be done, those of the following batches at the following
   * clocks. If there are no units: where the worker's clock has to stand when it has done all it holds.
   */
  readonly clock?: number | undefined;
};
export const unitsReplyShape: Check<UnitsReply> = object({
  ...{ isOver: flag, units: runs, lost: runs, repeatedCount: count, awaited: optional(list(count)), clock: optional(count) },
  inherited: optional(object({ version: count, done: runs, suspect: runs })),
});

/** What is wrong with a description by itself, if anything. */
export function epochProblem({ name, epoch, batchCount, partCount, assignment }: EpochDescription): string | undefined {
  const isWhole = (value: number, low: number): boolean => Number.isSafeInteger(value) && value >= low;
  if (typeof name !== "string" || name === "" || name.length > 256) return "units need a name of 1 to 256 characters";
  if (!isWhole(epoch, 0)) return `an epoch is a whole number from 0 up, not ${epoch}`;
  if (!isWhole(batchCount, 1)) return `an epoch has at least one batch, not ${batchCount}`;
  if (!isWhole(partCount, 1) || partCount > UNIT_PARTS_MAX) return `a batch has 1 to ${UNIT_PARTS_MAX} parts, not ${partCount}`;
  if (batchCount * partCount > UNITS_MAX) return `an epoch has at most ${UNITS_MAX} units, not ${batchCount} · ${partCount}`;
  if (!ASSIGNMENTS.includes(assignment))
    return `units are assigned "even", "free" or "rounds", not ${JSON.stringify(assignment)}${didYouMean(assignment, ASSIGNMENTS)}`;
  return undefined;
}

/** The unit of this ordinal. */
export function unitOf({ assignment, batchCount, partCount }: EpochDescription, ordinal: number): number {
  if (assignment !== "even") return ordinal;
  return (ordinal % batchCount) * partCount + Math.floor(ordinal / batchCount);
}
