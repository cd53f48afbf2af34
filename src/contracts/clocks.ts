// clocks — the iterations of a worker, as servers count them: it joins the clock set, finishes clocks, and leaves with
// the last. CLOCK travels behind everything that the worker sent before it, so a server that hears of the end of a
// clock has the updates of that clock (spec/consistency.md, W8). An update that a server refused because it was cut by
// an older placement comes again before the end of its clock.
//
// A worker numbers its pushes to each parameter (consistency/push-counts.ts). These messages tell a server of the
// pushes that have no row here (spec/consistency.md, N2).

import { type Contract, contract } from "./contract.ts";

const joined = { clock: "u32", lost: "u32[]" } as const;
/** The number of the worker's last push to each parameter. */
const numbers = { parameters: "u32[]", numbers: "u32[]" } as const;
const ended = {
  clock: "u32",
  /** Whether the worker leaves the clock set in good order: nobody waits for it until it joins again. */
  leaves: "bool",
  /**
   * What the worker pushed at clocks that some server may not have heard of, by rising clock: its pushes to
   * `parameters[i]` came to `numbers[i]` there.
   */
  clocks: "u32[]",
  parameters: "u32[]",
  numbers: "u32[]",
} as const;
const nothing = {} as const;

/**
 * Answers the clock at which the worker stands on this server, and the clocks of which its sync updates were dropped
 * there because it was taken for dead, each once.
 */
export const clockJoin: Contract<typeof numbers, typeof joined> = contract({
  name: "wb/clock/join",
  target: "server",
  effect: "update",
  followsUpdates: true,
  request: numbers,
  response: joined,
});

/** The worker has finished all clocks before this one. One that leaves need not be a member. */
export const clockAdvance: Contract<typeof ended, typeof nothing> = contract({
  name: "wb/clock/advance",
  target: "server",
  effect: "update",
  followsUpdates: true,
  acknowledgesLater: true,
  request: ended,
  response: nothing,
});
