// groups — groups of workers that keep pace, or look for partners, by themselves and beside any parameter (Hetu:
// SSPInit, SSPSync and PReduceGetPartner, which polled and blocked). A worker that has to wait is parked and told.

import { type Contract, contract } from "./contract.ts";

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
