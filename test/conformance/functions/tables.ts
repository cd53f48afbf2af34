// tables — what spec/functions.md says of src/contracts/tables.ts.

import { tablePushed, tableRead, tableUpdate } from "../../../src/contracts/tables.ts";
import * as words from "./common-words.ts";
import { documented, type FunctionFamily } from "./documented.ts";

const { PARAMETER, CLOCK, KEYS, KEY_VALUES } = words;
const LOWEST = "the lowest clock of all workers when the rows were read: they have every update that was stamped before it";
const APPLIED =
  "the stamp (of the frame) of the last update of this worker to the table that the server had taken when the rows were read; 0: none";
const ORDER = "how many requests with updates of the table the server had taken when the rows were read";

export const TABLES: FunctionFamily = {
  title: "Rows for process caches",
  about:
    "For caches that all threads of a process share, and that know by clocks how fresh their rows are. A row is fresh to a clock when it has every update that was stamped before it.",
  functions: [
    documented(tableUpdate, {
      about: "As `wb/rows/push` with the scale 1, of rows of which only some elements change.",
      request: {
        parameter: PARAMETER,
        clock: CLOCK,
        pushNumber: "as of `wb/rows/push`, but of this request alone",
        keys: KEYS,
        counts: "how many elements of each row change; empty, as `columns` is then: `updates` has whole rows",
        columns: "the indexes of those elements in their rows, row by row",
        updates: "what those elements change by, in the table's element type",
      },
      response: {},
      errors: [...words.PUSH_ERRORS, "BAD_REQUEST"],
      example: {
        request: {
          ...{ parameter: 2, clock: 3, pushNumber: 5 },
          keys: BigUint64Array.of(7n, 9n),
          counts: Uint32Array.of(1, 2),
          columns: Uint32Array.of(4, 0, 1),
          updates: Float32Array.of(1, -2, 0.5),
        },
        response: {},
      },
    }),
    documented(tableRead, {
      about: "Answers rows once the reader's clock allows it, as `wb/rows/pull` does, and says how fresh they are.",
      request: {
        parameter: PARAMETER,
        clock: "the clock of the thread that reads",
        subscribes: "whether the server is to push these rows from now on (`wb/tables/pushed`)",
        keys: KEYS,
      },
      response: { clock: LOWEST, applied: APPLIED, order: ORDER, values: KEY_VALUES },
      errors: words.PULL_ERRORS,
      example: {
        request: { parameter: 2, clock: 3, subscribes: false, keys: BigUint64Array.of(7n) },
        response: { clock: 2, applied: 5, order: 40, values: Float32Array.of(1, -2) },
      },
    }),
    documented(tablePushed, {
      about:
        "A server tells a worker of rows to which it has subscribed and that have changed, once the lowest clock has risen. All others to which it has subscribed there are as they were, and fresh to that clock too.",
      request: {
        parameter: PARAMETER,
        epoch:
          "of the placement by which the server owns these rows: a worker that has another one takes none of them, and answers with all keys",
        clock: LOWEST,
        applied: APPLIED,
        order: ORDER,
        hasMore: "whether more rows of this clock come in another call",
        keys: KEYS,
        values: KEY_VALUES,
      },
      response: { dropped: "those of `keys` that the worker does not have any more, and is not to be told of again" },
      errors: [],
      example: {
        request: {
          ...{ parameter: 2, epoch: 1, clock: 3, applied: 5, order: 41, hasMore: false },
          keys: BigUint64Array.of(7n),
          values: Float32Array.of(1, -2),
        },
        response: { dropped: BigUint64Array.of(7n) },
      },
    }),
  ],
};
