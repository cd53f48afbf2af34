// rows — what spec/functions.md says of src/contracts/rows.ts.

import { rowsSet } from "../../../src/contracts/raw-values.ts";
import { rowsPull, rowsPush, rowsPushPull } from "../../../src/contracts/rows.ts";
import * as words from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const { PARAMETER, CLOCK, PUSH_NUMBER, SCALE, KEYS, KEY_GRADIENTS, KEY_VALUES } = words;
const push = { parameter: 2, clock: 3, pushNumber: 5, scale: 0.5 };
export const ROWS: FunctionFamily = {
  title: "Rows of a table",
  about:
    "Rows are named by their keys. A call is cut by the owner of each key (protocol.md, P1), and may be cut further: each key is in one request only. A row that nobody has pushed to has the values of the table's initializer; a pull makes no row. Keys and values of a table with a link travel as it carries them (codecs.md, §6).",
  functions: [
    documented(rowsPush, {
      about: "Applies gradients with the table's optimizer; rows that are not there are made first. A push of no keys changes nothing.",
      request: { parameter: PARAMETER, clock: CLOCK, pushNumber: PUSH_NUMBER, scale: SCALE, keys: KEYS, gradients: KEY_GRADIENTS },
      response: {},
      errors: [...words.PUSH_ERRORS, ...words.CODED_KEY_ERRORS],
      example: {
        request: { ...push, keys: BigUint64Array.of(7n, 2n ** 64n - 1n), gradients: Float32Array.of(1, -2, 0.5, 4) },
        response: {},
      },
    }),
    documented(rowsPull, {
      about: "Answers the rows as soon as the clocks allow it (consistency.md, W2).",
      request: { parameter: PARAMETER, clock: CLOCK, keys: "in any order; one that is named twice is answered twice" },
      response: { values: KEY_VALUES },
      errors: [...words.PULL_ERRORS, ...words.CODED_KEY_ERRORS],
      example: {
        request: { parameter: 2, clock: 3, keys: BigUint64Array.of(7n, 2n ** 64n - 1n) },
        response: { values: Float32Array.of(-0.5, 1, -0.25, -2) },
      },
    }),
    documented(rowsPushPull, {
      about:
        "A push, and a pull right after it with nothing in between. Of a table with sync updates the values are those before the push: it counts when its round is complete.",
      request: {
        parameter: PARAMETER,
        clock: CLOCK,
        pushNumber: PUSH_NUMBER,
        scale: SCALE,
        pushKeys: KEYS,
        gradients: "the rows of gradients one after the other, in the order of `pushKeys`",
        pullKeys: "the rows to be read, in any order",
      },
      response: { values: "the rows one after the other, in the order of `pullKeys`" },
      errors: [...words.PUSH_PULL_ERRORS, ...words.CODED_KEY_ERRORS],
      example: {
        request: { ...push, pushKeys: BigUint64Array.of(7n), gradients: Float32Array.of(1, -2), pullKeys: BigUint64Array.of(9n, 7n) },
        response: { values: Float32Array.of(0, 0, -0.5, 1) },
      },
    }),
    documented(rowsSet, {
      about:
        "Replaces rows, for all workers, or makes them, as they are whatever the link. What the optimizer keeps beside them stays, and counts no step. An open round of sync updates is applied to them.",
      request: {
        parameter: PARAMETER,
        isStart: "whether rows that are there stay as they are: the first to come decides what a row begins with",
        keys: KEYS,
        values: "the rows one after the other, in the order of `keys`, as 32-bit words; floats are finite",
      },
      response: { takenCount: "how many rows have these values now" },
      errors: [...words.FIND_ERRORS, "OUT_OF_RANGE", "VALUE_LENGTH", "NOT_FINITE", "ARENA_FULL"],
      example: {
        request: { parameter: 2, isStart: false, keys: BigUint64Array.of(7n, 9n), values: Float32Array.of(1, -2, 0.5, 4) },
        response: { takenCount: 2 },
      },
    }),
  ],
};
