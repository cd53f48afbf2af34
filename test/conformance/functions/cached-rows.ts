// cached-rows — what spec/functions.md says of src/contracts/cached-rows.ts and of raw rows in
// src/contracts/raw-values.ts.

import { cachePush, cachePushSync, cacheSync } from "../../../src/contracts/cached-rows.ts";
import { rawRowsClaim, rawRowsRead, rawRowsWrite } from "../../../src/contracts/raw-values.ts";
import * as words from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const { PARAMETER, CLOCK, PUSH_NUMBER, SCALE, KEYS } = words;
const pushWords = {
  parameter: PARAMETER,
  clock: CLOCK,
  pushNumber: PUSH_NUMBER,
  scale: SCALE,
  pushKeys: KEYS,
  gradients: "the rows of gradients one after the other, in the order of `pushKeys`",
  updates: "how many updates each gradient sums up; empty: one each",
};
const syncWords = {
  parameter: PARAMETER,
  clock: CLOCK,
  generation: "the generation of `versions`; of another one than the table's they count for nothing",
  bound: "how many updates a row that the cache has may be behind",
  keptCount: "how many rows the cache wants to keep of those that it does not have",
  keys: "each once: the rows that it has, those that it wants to keep, then those that it only reads",
  versions: "of the rows that it has, in the order of `keys`",
};
const freshWords = {
  generation: "the generation of the versions: a restore or the removal of rows begins a new one",
  rate: "the learning rate at the caller's clock; 0 for optimizers without one",
  indexes: "of the rows that were too far behind: their positions in `keys`, ascending",
  versions: "of the rows that were too far behind, then of those to keep; the number of their updates, modulo 2^32",
  rows: "the rows that were too far behind, then all that the cache did not have, in the order of `keys`",
};
const push = {
  ...{ parameter: 2, clock: 3, pushNumber: 5, scale: 1 },
  pushKeys: BigUint64Array.of(7n),
  gradients: Float32Array.of(1, -2),
  updates: Uint32Array.of(3),
};
const sync = {
  ...{ parameter: 2, clock: 3, generation: 1, bound: 4, keptCount: 1 },
  keys: BigUint64Array.of(7n, 9n, 11n),
  versions: Uint32Array.of(2),
};
const fresh = {
  ...{ generation: 1, rate: 0.5 },
  indexes: Uint32Array.of(0),
  versions: Uint32Array.of(8, 1),
  rows: Float32Array.of(-1, 2, 0, 0.25, 0, 0),
};

export const CACHED_ROWS: FunctionFamily = {
  title: "Rows for caches with bounded staleness",
  about: "For tables that count versions (`versions` of their spec). None of these waits for a clock: the bound of the cache replaces it.",
  functions: [
    documented(cachePush, {
      about: "As `wb/rows/push`, with gradients that may sum up several updates.",
      request: pushWords,
      response: { rate: freshWords.rate },
      errors: words.PUSH_ERRORS,
      example: { request: push, response: { rate: 0.5 } },
    }),
    documented(cacheSync, {
      about: "Answers the rows that the cache does not have, and of those that it has the ones that are more than `bound` updates behind.",
      request: syncWords,
      response: freshWords,
      errors: [...words.FIND_ERRORS, "BAD_REQUEST", "OUT_OF_RANGE", "ARENA_FULL"],
      example: { request: sync, response: fresh },
    }),
    documented(cachePushSync, {
      about: "Both in one, the push first, with nothing in between; if either is refused nothing was pushed.",
      request: { ...pushWords, ...syncWords },
      response: freshWords,
      errors: [...words.PUSH_ERRORS, "BAD_REQUEST"],
      example: { request: { ...push, ...sync }, response: fresh },
    }),
  ],
};

const RAW =
  "raw rows one after the other, in the order of `keys`: the values, the optimizer's slots (f32), then its words (u32), each row's 4-byte units as they are (checkpoint.md has the columns of each optimizer)";
const CLAIM = "the number of the claim; a newer one fences this one";
const TRAINING = "how the optimizer is set, in JSON: `{learningRate, schedule, staleness, consistency?, step}` (checkpoint.md, `training`)";
const training = '{"learningRate":0.5,"schedule":{"type":"constant"},"staleness":"any","step":7}';

export const RAW_ROWS: FunctionFamily = {
  title: "Raw rows",
  about:
    "For workers that hold rows of a table, apply the optimizer themselves and write back what they made. No read of these makes a row or waits for a clock.",
  functions: [
    documented(rawRowsRead, {
      about: "Answers rows with all that the optimizer keeps beside them; of a key without a row, what its first update would find.",
      request: { parameter: PARAMETER, keys: "in any order" },
      response: { rows: RAW },
      errors: [...words.FIND_ERRORS, "OUT_OF_RANGE", "ARENA_FULL"],
      example: { request: { parameter: 2, keys: BigUint64Array.of(7n) }, response: { rows: Float32Array.of(0.5, -1, 4, 9) } },
    }),
    documented(rawRowsWrite, {
      about: "Replaces the rows that are there.",
      request: { parameter: PARAMETER, clock: CLOCK, claim: `${CLAIM}: FENCED`, keys: KEYS, rows: RAW },
      response: {},
      errors: [...words.FIND_ERRORS, ...words.MEMBER_ERRORS, "STALE_UPDATE", "OUT_OF_RANGE", "VALUE_LENGTH", "ARENA_FULL"],
      example: {
        request: { parameter: 2, clock: 3, claim: 1, keys: BigUint64Array.of(7n), rows: Float32Array.of(0.25, -1, 5, 9) },
        response: {},
      },
    }),
    documented(rawRowsClaim, {
      about:
        "Begins a new claim: from then on only a worker that knows its number writes raw rows on this server. Or, for a claim there is, tells how many steps its rows have seen; the count never goes back. Both answer how the optimizer is set.",
      request: { parameter: PARAMETER, claim: `${CLAIM}; 0: a new one is begun`, step: "how many steps the rows of the claim have seen" },
      response: { claim: CLAIM, training: TRAINING },
      errors: [...words.FIND_ERRORS, "FENCED"],
      example: { request: { parameter: 2, claim: 1, step: 7 }, response: { claim: 1, training } },
    }),
  ],
};
