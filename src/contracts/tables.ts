// tables — what a process cache of rows asks of a table, and what servers tell it (Petuum: oplogs, row requests, server
// pushes). Rows are those of any table (contracts/rows.ts); these functions differ in what travels: of an update only
// the elements that change something, and with rows the clock to which they are fresh.
//
// Invariants:
//   TableContracts.T1. An answer's `clock` is the lowest of all workers when the rows were read: they have every update
//       that was stamped before it.
//   TableContracts.T2. Rows that were read with `subscribes` are pushed when the lowest clock has risen and they have
//       changed since, until the worker says that it has let go of them: in its answer, so that nothing is sent for it.
//   TableContracts.T3. `applied` is the stamp of the last update of that worker to the table that this server had taken
//       when the rows were read: the worker knows by it which of its own they have. Stamps rise on each link, whatever
//       was cut again on the way.
//   TableContracts.T4. `order` counts the updates that this process of the server had applied to the table when the
//       rows were read. A push at order n has all subscribed rows that changed up to n: who has a row that was read
//       before, and missed the push, cannot take it for unchanged.
//   TableContracts.T5. A server pushes rows that it owns. A worker that has another placement takes none of them, names
//       all as let go of, and reads them from whom it takes for their owners.

import type { FieldValues } from "../wire/function-schema.ts";
import { type Contract, contract } from "./contract.ts";
import { type WorkerFunction, workerFunction } from "./worker-function.ts";

const updateRequest = {
  parameter: "u32",
  clock: "u32",
  /** Of the push, as in `wb/rows/push`; here of one request. */
  pushNumber: "u32",
  /** Each row once. */
  keys: "u64[]",
  /** How many elements of each row change; none at all: `updates` has whole rows. */
  counts: "u32[]",
  /** Which those are, row by row: indexes in the row, rising within it. */
  columns: "u32[]",
  /** What they change by: one or two words each, as the table's elements have. */
  updates: "f32[]",
} as const;
const readRequest = { parameter: "u32", clock: "u32", subscribes: "bool", keys: "u64[]" } as const;
const readResponse = { clock: "u32", applied: "f64", order: "f64", values: "f32[]" } as const;
const pushedRequest = {
  parameter: "u32",
  /** Of the placement by which the server owns the rows (TableContracts.T5). */
  epoch: "u32",
  clock: "u32",
  applied: "f64",
  order: "f64",
  /** Whether more rows of this clock come in another call. */
  hasMore: "bool",
  keys: "u64[]",
  values: "f32[]",
} as const;
/** Rows that have changed, and what is said with them. */
export type PushedRequest = FieldValues<typeof pushedRequest>;
const pushedResponse = { dropped: "u64[]" } as const;
const nothing = {} as const;

/** Updates of rows, of which only what changes is named. They count as those of `wb/rows/push`. */
export const tableUpdate: Contract<typeof updateRequest, typeof nothing> = contract({
  name: "wb/tables/update",
  target: "part",
  effect: "update",
  acknowledgesLater: true,
  request: updateRequest,
  response: nothing,
});

/** Rows, once the reader's clock allows it, and the clock to which they are fresh (TableContracts.T1). */
export const tableRead: Contract<typeof readRequest, typeof readResponse> = contract({
  name: "wb/tables/read",
  target: "part",
  effect: "recordingRead",
  request: readRequest,
  response: readResponse,
});

/**
 * What workers serve: rows that have changed, once the lowest clock has risen (TableContracts.T2). All others that this
 * server has and the worker has read are as they were, and fresh to that clock too, once the last call of that clock
 * has come.
 */
export const tablePushed: WorkerFunction<typeof pushedRequest, typeof pushedResponse> = workerFunction({
  name: "wb/tables/pushed",
  request: pushedRequest,
  response: pushedResponse,
  inPlace: true,
});
