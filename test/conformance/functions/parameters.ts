// parameters — what spec/functions.md says of src/contracts/parameters.ts, and of data in
// src/contracts/beside-parameters.ts.

import { dataPull, dataPush } from "../../../src/contracts/beside-parameters.ts";
import * as parameters from "../../../src/contracts/parameters.ts";
import { FIND_ERRORS, PARAMETER, SPEC } from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const EDITION = "which parameter of this name it is (protocol.md, C38)";

export const PARAMETERS: FunctionFamily = {
  title: "Parameters",
  about: "A worker calls them on every server, once the scheduler's catalogue has given the name its number (protocol.md, C36 and §10e).",
  functions: [
    documented(parameters.parameterCreate, {
      about: "Makes the parameter, or changes nothing if it is there and described alike.",
      request: { parameter: PARAMETER, edition: EDITION, spec: "the spec, as JSON (protocol.md, §10e)" },
      response: { plugIns: "the users' row types and updaters that it is made with, as JSON (protocol.md, B8)" },
      errors: [
        "BAD_REQUEST",
        "BAD_ARGUMENT",
        "SPEC_MISMATCH",
        "UNKNOWN_PARAMETER",
        "UNKNOWN_PLUG_IN",
        "HANDLER_FAILED",
        "UNSUPPORTED",
        "ARENA_FULL",
        "QUEUE_FULL",
      ],
      example: { request: { parameter: 1, edition: 1, spec: SPEC }, response: { plugIns: "[]" } },
    }),
    documented(parameters.parameterState, {
      about:
        "How the parameter stands on this server: where it is from (consistency.md, Exactly once), what a worker has to know before it changes its consistency (consistency.md, M4 and M5), what was refused, and what the worker's reads of it wait for (consistency.md, P3).",
      request: { parameter: PARAMETER, name: "for the messages of a server that has never heard of it" },
      response: {
        isRestored: "true: from a checkpoint, or from what was saved of it; otherwise somebody has made it since the server started",
        clock: "the highest clock of any worker on this server, or of any update of the parameter",
        turn: "of the last change of the consistency; 0: there was none",
        refusedPushes: "pushes that failed with NOT_FINITE, since it was made here",
        skippedPushes: 'pushes that were dropped whole (`"nonFinite": "skip"`)',
        zeroedElements: 'elements that counted as 0 (`"nonFinite": "zero"`)',
        waits: 'what this worker\'s reads of the parameter wait for on this server, for people; "" when none waits',
      },
      errors: ["UNKNOWN_PARAMETER", "QUEUE_FULL"],
      example: {
        request: { parameter: 1, name: "w" },
        response: { isRestored: false, clock: 7, turn: 0, refusedPushes: 1, skippedPushes: 0, zeroedElements: 0, waits: "" },
      },
    }),
    documented(parameters.parameterSize, {
      about:
        "How much of the parameter this server has. Makes no row. The counts are kept, so only the keys are looked up. While a part moves, two servers may count it. The command line calls it through `wb/relay/call`.",
      request: { parameter: PARAMETER, keys: "rows of a table to look for, of any server; none for a tensor" },
      response: {
        count: "rows of the table, or elements of the tensor, that this server has; an untouched block of a tensor counts for its owner",
        bytes: "what they take in memory, with what the optimizer keeps, and the index",
        found: "for each key, in order, 1 if this server has its row, otherwise 0",
      },
      errors: ["UNKNOWN_PARAMETER", "UNSUPPORTED", "QUEUE_FULL"],
      example: {
        request: { parameter: 2, keys: BigUint64Array.of(17n, 42n) },
        response: { count: 1200, bytes: 65_536, found: Uint8Array.of(1, 0) },
      },
    }),
    documented(parameters.parameterClear, {
      about: "Clears this edition of the parameter, or an earlier one; a later one stays.",
      request: { parameter: PARAMETER, edition: EDITION, pushNumber: "of this worker's last push to it; 0 if there was none" },
      response: {},
      errors: ["UNKNOWN_PARAMETER", "QUEUE_FULL"],
      example: { request: { parameter: 1, edition: 1, pushNumber: 5 }, response: {} },
    }),
    documented(parameters.parameterConfigure, {
      about:
        "Changes what may change while training goes on; the consistency from a clock on (consistency.md, M2). What is left out stays.",
      request: {
        parameter: PARAMETER,
        settings: 'JSON: `{learningRate?, schedule?, staleness?}`, a staleness without bound as `"any"` (protocol.md, §10e); or empty',
        consistency: 'JSON: `{updates, reduce, staleness}`, a staleness without bound as `"any"`; or empty',
        clock: "before which a change of the consistency does not begin",
        turn: "of such a change: one above the highest that the servers knew; from 1",
      },
      response: { clock: "from which on the last change of the consistency holds on this server; 0 if none was asked for" },
      errors: ["BAD_REQUEST", "BAD_ARGUMENT", ...FIND_ERRORS],
      example: {
        request: {
          ...{ parameter: 1, settings: '{"learningRate":0.25}', clock: 9, turn: 1 },
          consistency: '{"updates":"sync","reduce":"mean","staleness":0}',
        },
        response: { clock: 9 },
      },
    }),
  ],
};

const INDEXES = "numbers that name arrays; each is sent to the owner of the row with this key";

export const DATA: FunctionFamily = {
  title: "Arrays by index",
  about:
    "Arrays of any length beside the parameters, spread over the servers as rows are (protocol.md, P1), and in checkpoints as sums (checkpoint.md).",
  functions: [
    documented(dataPush, {
      about: "Stores arrays, or adds to those that are there, which have the same length.",
      request: { indexes: INDEXES, lengths: "beside each index, the length of its array", values: "the arrays one after the other" },
      response: {},
      errors: ["VALUE_LENGTH", "ARENA_FULL", "QUEUE_FULL"],
      example: {
        request: { indexes: BigUint64Array.of(3n, 8n), lengths: Uint32Array.of(1, 2), values: Float32Array.of(5, 6, 7) },
        response: {},
      },
    }),
    documented(dataPull, {
      about: "Answers arrays.",
      request: { indexes: INDEXES },
      response: { lengths: "beside each index, the length of its array", values: "the arrays one after the other" },
      errors: ["OUT_OF_RANGE", "ARENA_FULL", "QUEUE_FULL"],
      example: {
        request: { indexes: BigUint64Array.of(8n) },
        response: { lengths: Uint32Array.of(2), values: Float32Array.of(6, 7) },
      },
    }),
  ],
};
