// groups — serves groups of workers that keep pace, or look for partners (contracts/groups.ts).

import { Deferred } from "../../base/deferred.ts";
import { partialReducePartners, sspSync } from "../../contracts/groups.ts";
import { type ServedFunction, serve } from "../served-function.ts";

/** Longer than any worker should take for a clock; a caller's own deadline is shorter. */
const WAIT_MS_MAX = 600_000;

export const GROUP_HANDLERS: readonly ServedFunction[] = [
  serve(sspSync, {
    handler: ({ groups, holder }, { group, size, tolerance, version }) => {
      if (size > 0) return { version: groups.ssp.init({ ...holder, group, size, tolerance }) };
      const passed = new Deferred<void>();
      const waiter = { admitted: () => passed.resolve(), failed: passed.reject.bind(passed) };
      const waitId = groups.ssp.sync({ ...holder, group, version, deadlineMs: WAIT_MS_MAX, waiter });
      return waitId === undefined ? { version } : passed.promise.then(() => ({ version }));
    },
  }),
  serve(partialReducePartners, {
    handler: ({ groups, holder }, { group, want, patienceMs }) => {
      const formed = new Deferred<readonly number[]>();
      const waiter = { formed: (ranks: readonly number[]) => formed.resolve(ranks), failed: formed.reject.bind(formed) };
      const ranks = groups.partialReduce.join({ ...holder, key: group, want, patienceMs, waiter });
      const answer = (members: readonly number[]): { ranks: Uint32Array } => ({ ranks: Uint32Array.from(members) });
      return ranks === undefined ? formed.promise.then(answer) : answer(ranks);
    },
  }),
];
