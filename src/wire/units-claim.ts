// units-claim — what a worker tells a restarted scheduler of the units that it was lent (REGISTER), and how units are
// described and listed. The messages that lend them are in units.ts.

import { badRequest } from "../base/errors.ts";
import { type Check, count, list, object, oneOf, optional, shortText } from "./json-body.ts";

/** Longer lists do not travel; there are as many runs as there are gaps. Two of them fit a message. */
export const UNIT_RUNS_MAX = 8192;
const SHOWN_LENGTH_MAX = 80;

/** How units are given to workers. */
export type Assignment = "even" | "free" | "rounds";
export const ASSIGNMENTS: readonly Assignment[] = ["even", "free", "rounds"];

/** What all workers have to agree on. */
export type EpochDescription = {
  readonly name: string;
  readonly epoch: number;
  readonly batchCount: number;
  readonly partCount: number;
  readonly assignment: Assignment;
};

/** from, to, from, to … */
export type Runs = readonly number[];

export const runs: Check<Runs> = (value, path) => {
  const bounds = list(count)(value, path);
  const isRising = bounds.every((bound, i) => i === 0 || bound > (bounds[i - 1] as number));
  if (bounds.length % 2 === 0 && bounds.length <= 2 * UNIT_RUNS_MAX && isRising) return bounds;
  const actual = bounds.length > 2 * UNIT_RUNS_MAX ? `${bounds.length} numbers` : JSON.stringify(bounds).slice(0, SHOWN_LENGTH_MAX);
  const message = `${path} must be runs, from, to, from, to …, rising, at most ${UNIT_RUNS_MAX}, but is ${actual}`;
  throw badRequest(message);
};

/** The checks of its fields. */
export const epochFields: { readonly [Field in keyof EpochDescription]: Check<EpochDescription[Field]> } = {
  name: shortText(256),
  epoch: count,
  batchCount: count,
  partCount: count,
  assignment: oneOf(...ASSIGNMENTS),
};

/** What a worker reports to a restarted scheduler about an epoch that is not over. */
export type UnitsAccount = EpochDescription & {
  /** As in UnitsRequest. */
  readonly done: Runs;
  readonly held: Runs;
  readonly clock?: number | undefined;
  /** Were lent to a worker that died, as far as it knows, and may have been begun. */
  readonly suspect: Runs;
  readonly repeatedCount: number;
  /** In rounds: clock, from, to, clock, from, to … of the shares that it holds or has done last. */
  readonly dues?: readonly number[] | undefined;
};

export type UnitsClaim = {
  readonly open: readonly UnitsAccount[];
  /** The epochs of each name that are over. */
  readonly over: readonly { readonly name: string; readonly epochs: Runs }[];
};
const accountClocks = { clock: optional(count), dues: optional(list(count)) };
export const unitsClaimShape: Check<UnitsClaim> = object({
  open: list(object({ ...epochFields, done: runs, held: runs, suspect: runs, repeatedCount: count, ...accountClocks })),
  over: list(object({ name: shortText(256), epochs: runs })),
});
