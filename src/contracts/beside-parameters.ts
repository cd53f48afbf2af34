// beside-parameters — functions of servers that are about no parameter. Arrays of any length by index: features that
// workers leave for each other (Hetu: PushData, PullData). A push to an index that is there adds to it, as it does in
// Hetu; one of another length is an error. And groups of workers that keep pace, or look for partners, by themselves
// (Hetu: SSPInit, SSPSync and PReduceGetPartner, which polled and blocked): a worker that has to wait is parked and
// told.

import { type Contract, contract } from "./contract.ts";

const arrays = { indexes: "u64[]", lengths: "u32[]", values: "f32[]" } as const;
const indexes = { indexes: "u64[]" } as const;
const found = { lengths: "u32[]", values: "f32[]" } as const;
const nothing = {} as const;

/** A worker's reads of data follow its own pushes of data, as those of a parameter do; no parameter has this number. */
export const DATA_SCOPE: number = 2 ** 32 - 1;

export const dataPush: Contract<typeof arrays, typeof nothing> = contract({
  name: "wb/data/push",
  target: "part",
  effect: "update",
  request: arrays,
  response: nothing,
});

export const dataPull: Contract<typeof indexes, typeof found> = contract({
  name: "wb/data/pull",
  target: "part",
  effect: "read",
  request: indexes,
  response: found,
});

const syncRequest = { group: "u64", size: "u32", tolerance: "u32", version: "f64" } as const;
const partnersRequest = { group: "u64", want: "u32", patienceMs: "f64" } as const;
const version = { version: "f64" } as const;
const ranks = { ranks: "u32[]" } as const;

/**
 * With a `size`: makes the worker a member of a group of so many, and answers the version at which it starts. Without
 * (0): answers `version` when nobody of the group is further behind it than its tolerance.
 */
export const sspSync: Contract<typeof syncRequest, typeof version> = contract({
  name: "wb/ssp/sync",
  target: "server",
  effect: "update",
  request: syncRequest,
  response: version,
});

/**
 * The ranks of a group of `want` that met under this key, or of those who had come when the first one's patience ended.
 */
export const partialReducePartners: Contract<typeof partnersRequest, typeof ranks> = contract({
  name: "wb/partial-reduce/partners",
  target: "server",
  effect: "update",
  request: partnersRequest,
  response: ranks,
});
