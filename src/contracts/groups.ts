// groups — groups of workers that keep pace, or look for partners, by themselves and beside any parameter (Hetu: SSPInit, SSPSync and
// PReduceGetPartner, which polled and blocked). A worker that has to wait is parked and told.

import { type Contract, contract } from "./contract.ts";

const initRequest = { group: "u64", size: "u32", tolerance: "u32" } as const;
const syncRequest = { group: "u64", version: "f64" } as const;
const partnersRequest = { group: "u64", want: "u32", patienceMs: "f64" } as const;
const version = { version: "f64" } as const;
const ranks = { ranks: "u32[]" } as const;
const nothing = {} as const;

/** Makes the worker a member of a group of `size`; answers the version at which it starts. */
export const sspInit: Contract<typeof initRequest, typeof version> = contract({
  name: "wb/ssp/init",
  target: "server",
  effect: "update",
  request: initRequest,
  response: version,
});

/** Answers when nobody of the group is further behind `version` than its tolerance. */
export const sspSync: Contract<typeof syncRequest, typeof nothing> = contract({
  name: "wb/ssp/sync",
  target: "server",
  effect: "update",
  request: syncRequest,
  response: nothing,
});

/** The ranks of a group of `want` that met under this key, or of those who had come when the first one's patience ended. */
export const partialReducePartners: Contract<typeof partnersRequest, typeof ranks> = contract({
  name: "wb/partial-reduce/partners",
  target: "server",
  effect: "update",
  request: partnersRequest,
  response: ranks,
});
