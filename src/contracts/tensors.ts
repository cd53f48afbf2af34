// tensors — one block of a tensor, or some of its rows: gradients for it, its values, and both in one (Hetu: DensePush,
// DensePull, DDPushPull, SparsePush, SparsePull, SDPushPull, SSPushPull on a dense table; the last two were not
// atomic). A list of rows that is empty means the whole block. `pushNumber` is as in rows.ts. Values travel as the
// tensor says: f32 as they are, or as its link carries them (spec/codecs.md).

import { type Contract, contract } from "./contract.ts";

const pushRequest = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  rows: "u32[]",
  gradients: "values",
} as const;
const pullRequest = { parameter: "u32", block: "u32", clock: "u32", rows: "u32[]" } as const;
const pushPullRequest = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  pushRows: "u32[]",
  gradients: "values",
  pullRows: "u32[]",
} as const;
const startRequest = { parameter: "u32", block: "u32", values: "f32[]" } as const;
const values = { values: "values" } as const;
const isTaken = { isTaken: "bool" } as const;
const nothing = {} as const;

/** Gradients, each row once, which the parameter's optimizer applies. */
export const tensorPush: Contract<typeof pushRequest, typeof nothing> = contract({
  name: "wb/tensor/push",
  target: "block",
  effect: "update",
  request: pushRequest,
  response: nothing,
});

/** Values, once the reader's clock allows it. Those of a whole block leave from where they lie. */
export const tensorPull: Contract<typeof pullRequest, typeof values> = contract({
  name: "wb/tensor/pull",
  target: "block",
  effect: "recordingRead",
  request: pullRequest,
  response: values,
});

/**
 * Gradients, and values right after them, with nothing in between. Of a parameter with sync updates it is the values
 * before the gradients: those count once everybody's have come.
 */
export const tensorPushPull: Contract<typeof pushPullRequest, typeof values> = contract({
  name: "wb/tensor/push-pull",
  target: "block",
  effect: "update",
  answersAgain: true,
  request: pushPullRequest,
  response: values,
});

/**
 * The values that the block begins with, in place of those its initializer would give it. The first to come counts;
 * after that, and once anybody has pushed to the block, nothing is changed: a worker that starts anew, or late, does no
 * harm.
 */
export const tensorStart: Contract<typeof startRequest, typeof isTaken> = contract({
  name: "wb/tensor/start",
  target: "block",
  effect: "update",
  request: startRequest,
  response: isTaken,
});
