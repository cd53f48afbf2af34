// set-values — values of a parameter in place of those that are there, as they are: not gradients, and no step of an
// optimizer, which keeps what it has beside them. Values travel as they are, whatever the link. They count when they
// come: what others push meanwhile comes before or after them, and a sync round that is open is applied to them.

import { type Contract, contract } from "./contract.ts";

const blockRequest = { parameter: "u32", block: "u32", values: "f32[]" } as const;
const rowsRequest = { parameter: "u32", isStart: "bool", keys: "u64[]", values: "f32[]" } as const;
const taken = { takenCount: "u32" } as const;
const nothing = {} as const;

/** The values of a block of a tensor. */
export const tensorSet: Contract<typeof blockRequest, typeof nothing> = contract({
  name: "wb/tensor/set",
  target: "block",
  effect: "update",
  request: blockRequest,
  response: nothing,
});

/**
 * Rows of a table, each key once; missing ones are made. With `isStart` only those: the first to come decides what a
 * row begins with, and rows that anybody has pushed to stay as they are. Answers how many rows have these values now.
 */
export const rowsSet: Contract<typeof rowsRequest, typeof taken> = contract({
  name: "wb/rows/set",
  target: "part",
  effect: "update",
  request: rowsRequest,
  response: taken,
});
