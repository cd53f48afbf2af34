// tiered-rows-options — the options of a cache of rows, their defaults, and their checks.

import { badArgument, type WeighbridgeError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import type { Arena } from "../../kernel/arena.ts";
import type { Embedding } from "../../worker/embedding.ts";
import type { RowMembers } from "./row-members.ts";

const ROWS_MAX = 2 ** 26;
export const HOST_ROWS_PER_DEVICE_ROW = 10;
export const FLUSH_EVERY_STEPS = 1000;

export type TieredRowsOptions = {
  /** Its consistency is "bsp". Nobody pushes to it while it is cached. */
  readonly embedding: Embedding;
  /** Where the layer computes. */
  readonly arena: Arena;
  /** Rows on the device. */
  readonly vocabCacheSize: number;
  /** Rows on the host; ten times as many as on the device by default, 0 for none. */
  readonly hostRows?: number | undefined;
  /** The most ids that one batch of this worker has. */
  readonly idCountMax: number;
  /** The workers that share the rows; this worker alone if left out. */
  readonly members?: RowMembers | undefined;
  /**
   * Changed rows are written back after this many steps (see tiered-rows.ts); Infinity: at `flush`. Defaults to 1000.
   */
  readonly flushEverySteps?: number | undefined;
  readonly log?: Log | undefined;
};

/** Throws BAD_ARGUMENT. */
export function checkTieredRows({ embedding, vocabCacheSize, hostRows = 0, idCountMax, flushEverySteps = 1 }: TieredRowsOptions): void {
  const isCount = (value: number, least: number): boolean => Number.isSafeInteger(value) && value >= least && value <= ROWS_MAX;
  const bad = (what: string, value: number): WeighbridgeError => badArgument(`${embedding.name}: ${what}, not ${value}`);
  if (!isCount(vocabCacheSize, 1)) throw bad(`vocabCacheSize is a whole number of rows from 1 to ${ROWS_MAX}`, vocabCacheSize);
  if (!isCount(hostRows, 0)) throw bad(`hostRows is a whole number of rows up to ${ROWS_MAX}`, hostRows);
  if (!isCount(idCountMax, 1)) throw bad(`idCountMax is a whole number of ids from 1 to ${ROWS_MAX}`, idCountMax);
  if (flushEverySteps !== Infinity && !isCount(flushEverySteps, 1))
    throw bad("flushEverySteps is a whole number from 1 on", flushEverySteps);
}
