// tables — what the processes and their threads agree on: the tables, their ids and their rows.

import { denseRow } from "weighbridge/tables";
import { ITEMS, RANK } from "./ratings.ts";

/** Of each run. The first one is not counted: it gives the engine time to compile. */
export const STALENESS = [0, 0, 2, 8] as const;
export const THREADS = 2; // of each process

export const FLOATS = 0;
export const DOUBLES = 1;
export const floats = denseRow("f32");
export const doubles = denseRow("f64");

// Tables 0 to 3 have the factors of the items, a row each, one table for each run.
/** A row for each run and clock: what all workers together have made of the factors by then. */
export const HISTORY = STALENESS.length;
export const HISTORY_COLUMNS: number = ITEMS * RANK;
/** A row for each run and clock: the objective, and behind it when each worker ended the clock, in milliseconds. */
export const CURVES = HISTORY + 1;
