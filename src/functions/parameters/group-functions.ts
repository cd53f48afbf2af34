// group-functions — groups of workers that keep pace, or look for partners, by themselves and beside any parameter (Hetu: SSPInit, SSPSync
// and PReduceGetPartner, which polled and blocked). Whoever has to wait is parked and told.

import { Deferred } from "../../base/deferred.ts";
import { type PsFunction, psFunction } from "../ps-function.ts";

/** Longer than any worker should take for a clock; a caller's own deadline is shorter. */
const WAIT_MS_MAX = 600_000;

const sspInitRequest = { group: "u64", size: "u32", tolerance: "u32" } as const;
const sspInitResponse = { version: "f64" } as const;
/** Makes the worker a member of a group of `size`; answers the version at which it starts. */
export const sspInit: PsFunction<typeof sspInitRequest, typeof sspInitResponse> = psFunction({
  name: "wb/ssp/init",
  request: sspInitRequest,
  response: sspInitResponse,
  handler: ({ groups, life }, request) => ({ version: groups.ssp.init({ ...life, ...request }) }),
});

const sspSyncRequest = { group: "u64", version: "f64" } as const;
const sspSyncResponse = {} as const;
/** Answers when nobody of the group is further behind `version` than its tolerance. */
export const sspSync: PsFunction<typeof sspSyncRequest, typeof sspSyncResponse> = psFunction({
  name: "wb/ssp/sync",
  request: sspSyncRequest,
  response: sspSyncResponse,
  handler: ({ groups, life }, { group, version }) => {
    const passed = new Deferred<void>();
    const waiter = { admitted: () => passed.resolve(), failed: passed.reject.bind(passed) };
    const ticket = groups.ssp.sync({ ...life, group, version, deadlineMs: WAIT_MS_MAX, waiter });
    return ticket === undefined ? {} : passed.promise.then(() => ({}));
  },
});

const partnersRequest = { group: "u64", want: "u32", patienceMs: "f64" } as const;
const partnersResponse = { ranks: "u32[]" } as const;
/** The ranks of a group of `want` that met under this key, or of those who had come when the first one's patience ended. */
export const partialReducePartners: PsFunction<typeof partnersRequest, typeof partnersResponse> = psFunction({
  name: "wb/partial-reduce/partners",
  request: partnersRequest,
  response: partnersResponse,
  handler: ({ groups, life }, { group, want, patienceMs }) => {
    const formed = new Deferred<readonly number[]>();
    const waiter = { formed: (ranks: readonly number[]) => formed.resolve(ranks), failed: formed.reject.bind(formed) };
    const ranks = groups.partialReduce.ask({ ...life, key: group, want, patienceMs, waiter });
    const answer = (members: readonly number[]): { ranks: Uint32Array } => ({ ranks: Uint32Array.from(members) });
    return ranks === undefined ? formed.promise.then(answer) : answer(ranks);
  },
});
