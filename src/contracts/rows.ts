// rows — rows of a table: gradients for them, their values, and both in one (Hetu: SparsePush, SparsePull, SSPushPull
// on a table). `pushNumber` is the number of the push among those of its worker to the parameter, in all its frames: it
// counts once, however it is cut (consistency/push-counts.ts). Keys and values travel as the table says: u64 and f32 as
// they are, or as its link carries them (spec/codecs.md), keys then ascending, perhaps only by the name of their list.

import { KEY_BYTES } from "../kernel/elements.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import { type Contract, contract } from "./contract.ts";

/** The longest key list that a message has: a frame is about a block. */
export const LISTED_KEYS_MAX: number = BLOCK_BYTES / KEY_BYTES;

/** How many key lists a worker names at most. */
export const NAMED_LISTS_MAX = 32;

const pushRequest = { parameter: "u32", clock: "u32", pushNumber: "u32", scale: "f32", keys: "keys", gradients: "values" } as const;
const pullRequest = { parameter: "u32", clock: "u32", keys: "keys" } as const;
const pushPullRequest = {
  parameter: "u32",
  clock: "u32",
  pushNumber: "u32",
  scale: "f32",
  pushKeys: "keys",
  gradients: "values",
  pullKeys: "keys",
} as const;
const values = { values: "values" } as const;
const nothing = {} as const;

/** Gradients, each key once, which the parameter's optimizer applies; missing rows are made first. */
export const rowsPush: Contract<typeof pushRequest, typeof nothing> = contract({
  name: "wb/rows/push",
  target: "part",
  effect: "update",
  request: pushRequest,
  response: nothing,
});

/** Values, once the reader's clock allows it; a row that nobody has pushed has its initial values. */
export const rowsPull: Contract<typeof pullRequest, typeof values> = contract({
  name: "wb/rows/pull",
  target: "part",
  effect: "recordingRead",
  request: pullRequest,
  response: values,
});

/** Gradients for some rows, then the values of others, with nothing in between. */
export const rowsPushPull: Contract<typeof pushPullRequest, typeof values> = contract({
  name: "wb/rows/push-pull",
  target: "part",
  effect: "update",
  answersAgain: true,
  request: pushPullRequest,
  response: values,
});
