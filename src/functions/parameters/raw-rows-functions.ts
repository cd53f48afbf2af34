// raw-rows-functions — rows of a table with all that its optimizer keeps beside them, read and written as they are: for workers that hold rows
// themselves, apply the optimizer there and write back what they made (MindSpore's embedding cache). Not updates by gradients: that is rows-push.
//
//   raw row     values f32 × width │ slots f32 │ words u32        as in table-store, sent as floats whose bits nobody looks at
//
// Invariants:
//   W1. A read makes no row, and waits for no clock: whoever holds rows is the only one to write them.
//   W2. A write is applied once, and only under the newest claim: a worker that was replaced cannot undo what others made of its rows.

import { type PsFunction, psFunction } from "../ps-function.ts";
import { encodeTraining } from "./training-state.ts";

const readFields = { parameter: "u32", keys: "u64[]" } as const;
const writeFields = { parameter: "u32", clock: "u32", claim: "u32", keys: "u64[]", rows: "f32[]" } as const;
const claimFields = { parameter: "u32" } as const;
const syncFields = { parameter: "u32", claim: "u32", step: "u32" } as const;
const rawRows = { rows: "f32[]" } as const;
/** `training` as training-state.ts has it, in JSON. */
const claimed = { claim: "u32", training: "string" } as const;
const nothing = {} as const;

export const rawRowsRead: PsFunction<typeof readFields, typeof rawRows> = psFunction({
  name: "wb/raw-rows/read",
  request: readFields,
  response: rawRows,
  reads: true,
  inPlace: true,
  handler: (context, { parameter, keys }) => ({ rows: context.parameters.table(parameter).readRaw(keys, context) }),
});

export const rawRowsWrite: PsFunction<typeof writeFields, typeof nothing> = psFunction({
  name: "wb/raw-rows/write",
  request: writeFields,
  response: nothing,
  inPlace: true,
  handler: ({ parameters, life }, { parameter, ...write }) => {
    parameters.table(parameter).writeRaw({ life, ...write });
    return {};
  },
});

/** Begins a new claim (W2). */
export const rawRowsClaim: PsFunction<typeof claimFields, typeof claimed> = psFunction({
  name: "wb/raw-rows/claim",
  request: claimFields,
  response: claimed,
  handler: ({ parameters }, { parameter }) => {
    const table = parameters.table(parameter);
    return { claim: table.claim(), training: JSON.stringify(encodeTraining(table.training)) };
  },
});

/** Tells how many steps the rows of a claim have seen, and learns how the optimizer is set. */
export const rawRowsSync: PsFunction<typeof syncFields, typeof claimed> = psFunction({
  name: "wb/raw-rows/sync",
  request: syncFields,
  response: claimed,
  handler: ({ parameters }, { parameter, claim, step }) => {
    const table = parameters.table(parameter);
    table.noteSteps(claim, step);
    return { claim, training: JSON.stringify(encodeTraining(table.training)) };
  },
});
