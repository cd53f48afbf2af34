// tensors — one block of a tensor: gradients for it or for some of its rows, its values, and both in one (Hetu: DensePush, DensePull, DDPushPull,
// SparsePush, SparsePull, SDPushPull, SSPushPull on a dense table; the last two were not atomic). `pushNumber` is as in
// rows.ts. The encoded ones carry values as the parameter's link encodes them (spec/codecs.md).

import { type Contract, contract } from "./contract.ts";

const block = { parameter: "u32", block: "u32", clock: "u32" } as const;
const pushRequest = { parameter: "u32", block: "u32", clock: "u32", pushNumber: "u32", scale: "f32", gradients: "f32[]" } as const;
const pushRowsRequest = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  rows: "u32[]",
  gradients: "f32[]",
} as const;
const pullRowsRequest = { parameter: "u32", block: "u32", clock: "u32", rows: "u32[]" } as const;
const pushPullRowsRequest = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  pushRows: "u32[]",
  gradients: "f32[]",
  pullRows: "u32[]",
} as const;
const startRequest = { parameter: "u32", block: "u32", values: "f32[]" } as const;
const pushEncodedRequest = { parameter: "u32", block: "u32", clock: "u32", pushNumber: "u32", scale: "f32", gradients: "u8[]" } as const;
const pushRowsEncodedRequest = {
  parameter: "u32",
  block: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  rows: "u32[]",
  gradients: "u8[]",
} as const;
const values = { values: "f32[]" } as const;
const encodedValues = { values: "u8[]" } as const;
const isTaken = { isTaken: "bool" } as const;
const nothing = {} as const;

/** A gradient, which the parameter's optimizer applies. */
export const tensorPush: Contract<typeof pushRequest, typeof nothing> = contract({
  name: "wb/tensor/push",
  target: "block",
  effect: "update",
  request: pushRequest,
  response: nothing,
});

/** The block's values, once the reader's clock allows it. They leave from where they lie. */
export const tensorPull: Contract<typeof block, typeof values> = contract({
  name: "wb/tensor/pull",
  target: "block",
  effect: "recordingRead",
  request: block,
  response: values,
});

/**
 * A gradient, and the block's values right after it, with nothing in between. Of a parameter with sync updates it is the values before the gradient: that
 * counts once everybody's has come.
 */
export const tensorPushPull: Contract<typeof pushRequest, typeof values> = contract({
  name: "wb/tensor/push-pull",
  target: "block",
  effect: "update",
  answersAgain: true,
  request: pushRequest,
  response: values,
});

/** Gradients for some rows, each row once. */
export const tensorPushRows: Contract<typeof pushRowsRequest, typeof nothing> = contract({
  name: "wb/tensor/push-rows",
  target: "block",
  effect: "update",
  request: pushRowsRequest,
  response: nothing,
});

export const tensorPullRows: Contract<typeof pullRowsRequest, typeof values> = contract({
  name: "wb/tensor/pull-rows",
  target: "block",
  effect: "recordingRead",
  request: pullRowsRequest,
  response: values,
});

/** Gradients for some rows, and the whole block right after it. */
export const tensorPushRowsPull: Contract<typeof pushRowsRequest, typeof values> = contract({
  name: "wb/tensor/push-rows-pull",
  target: "block",
  effect: "update",
  answersAgain: true,
  request: pushRowsRequest,
  response: values,
});

/** Gradients for some rows, and other rows right after that. */
export const tensorPushPullRows: Contract<typeof pushPullRowsRequest, typeof values> = contract({
  name: "wb/tensor/push-pull-rows",
  target: "block",
  effect: "update",
  answersAgain: true,
  request: pushPullRowsRequest,
  response: values,
});

/**
 * The values that the block begins with, in place of those its initializer would give it. The first to come counts; after that, and once anybody has pushed
 * to the block, nothing is changed: whoever starts anew, or late, does no harm.
 */
export const tensorStart: Contract<typeof startRequest, typeof isTaken> = contract({
  name: "wb/tensor/start",
  target: "block",
  effect: "update",
  request: startRequest,
  response: isTaken,
});

export const tensorPushEncoded: Contract<typeof pushEncodedRequest, typeof nothing> = contract({
  name: "wb/tensor/push-encoded",
  target: "block",
  effect: "update",
  request: pushEncodedRequest,
  response: nothing,
});

export const tensorPullEncoded: Contract<typeof block, typeof encodedValues> = contract({
  name: "wb/tensor/pull-encoded",
  target: "block",
  effect: "recordingRead",
  request: block,
  response: encodedValues,
});

export const tensorPushPullEncoded: Contract<typeof pushEncodedRequest, typeof encodedValues> = contract({
  name: "wb/tensor/push-pull-encoded",
  target: "block",
  effect: "update",
  answersAgain: true,
  request: pushEncodedRequest,
  response: encodedValues,
});

export const tensorPushRowsEncoded: Contract<typeof pushRowsEncodedRequest, typeof nothing> = contract({
  name: "wb/tensor/push-rows-encoded",
  target: "block",
  effect: "update",
  request: pushRowsEncodedRequest,
  response: nothing,
});

export const tensorPullRowsEncoded: Contract<typeof pullRowsRequest, typeof encodedValues> = contract({
  name: "wb/tensor/pull-rows-encoded",
  target: "block",
  effect: "recordingRead",
  request: pullRowsRequest,
  response: encodedValues,
});
