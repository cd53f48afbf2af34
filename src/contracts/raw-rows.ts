// raw-rows — rows of a table with all that its optimizer keeps beside them, read and written as they are: for workers
// that hold rows themselves, apply the optimizer there and write back what they made (MindSpore's embedding cache). Not
// updates by gradients: those are in rows.ts.
//
//   raw row     values f32 × width │ slots f32 │ words u32        as in the table store, sent as floats, bit for bit
//
// Invariants:
//   RawRowFunctions.W1. A read makes no row, and waits for no clock: only the holder of rows writes them.
//   RawRowFunctions.W2. A write is applied once, and only under the newest claim: a worker that was replaced cannot
//       undo what others made of its rows.

import { type Contract, contract } from "./contract.ts";

const readRequest = { parameter: "u32", keys: "u64[]" } as const;
const writeRequest = { parameter: "u32", clock: "u32", claim: "u32", keys: "u64[]", rows: "f32[]" } as const;
const claimRequest = { parameter: "u32", claim: "u32", step: "u32" } as const;
const rawRows = { rows: "f32[]" } as const;
/** `training` as store/training-state has it, in JSON. */
const claimed = { claim: "u32", training: "string" } as const;
const nothing = {} as const;

export const rawRowsRead: Contract<typeof readRequest, typeof rawRows> = contract({
  name: "wb/raw-rows/read",
  target: "part",
  effect: "read",
  request: readRequest,
  response: rawRows,
});

export const rawRowsWrite: Contract<typeof writeRequest, typeof nothing> = contract({
  name: "wb/raw-rows/write",
  target: "part",
  effect: "update",
  request: writeRequest,
  response: nothing,
});

/**
 * Begins a new claim (RawRowFunctions.W2) if `claim` is 0; otherwise reports how many steps the rows of that claim have
 * seen. The answer has the settings of the optimizer in both cases.
 */
export const rawRowsClaim: Contract<typeof claimRequest, typeof claimed> = contract({
  name: "wb/raw-rows/claim",
  target: "server",
  effect: "update",
  request: claimRequest,
  response: claimed,
});
