// parameters — makes, changes and clears parameters on a server, and changes their consistency while the job runs.
// Specs and settings travel as JSON: rare, small, and easy to compare (Hetu: ParamInit, ParamClear). Which number
// stands for a name, and which edition of it is to be made or cleared, the scheduler's catalogue says (catalogue.ts).
//
// Whoever changes a consistency asks every server first how far its workers are, and then names a clock that is
// beyond all of them: the change begins there, on every server (spec/consistency.md, M4).

import { type Contract, contract } from "./contract.ts";

const createRequest = { parameter: "u32", edition: "u32", spec: "string" } as const;
const ofParameter = { parameter: "u32" } as const;
const clearRequest = { parameter: "u32", edition: "u32", pushNumber: "u32" } as const;
const originRequest = { parameter: "u32", name: "string" } as const;
const configureRequest = { parameter: "u32", settings: "string" } as const;
const changeRequest = { parameter: "u32", clock: "u32", turn: "u32", consistency: "string" } as const;
const origin = { isRestored: "bool" } as const;
const nonFinite = { refusedPushes: "f64", skippedPushes: "f64", zeroedElements: "f64" } as const;
const survey = { clock: "u32", turn: "u32" } as const;
const changed = { clock: "u32" } as const;
const nothing = {} as const;

/**
 * Makes the parameter, or does nothing if it is there and described alike. Throws SPEC_MISMATCH otherwise, with the
 * differences, and UNKNOWN_PARAMETER for an edition that was cleared.
 */
export const parameterCreate: Contract<typeof createRequest, typeof nothing> = contract({
  name: "wb/parameter/create",
  target: "server",
  effect: "update",
  request: createRequest,
  response: nothing,
});

/**
 * Whether this server has the parameter from a checkpoint, or from what was saved of it; otherwise somebody has made
 * it here. The name is for a server that was restarted, and has never heard of it: its errors and its log then name
 * what is missing.
 */
export const parameterOrigin: Contract<typeof originRequest, typeof origin> = contract({
  name: "wb/parameter/origin",
  target: "server",
  effect: "read",
  request: originRequest,
  response: origin,
});

/**
 * Clears this edition of the parameter, or an earlier one; a later one stays. `pushNumber` is that of the worker's
 * last push to it: one that is made anew under this name does not count what was pushed to this one.
 */
export const parameterClear: Contract<typeof clearRequest, typeof nothing> = contract({
  name: "wb/parameter/clear",
  target: "server",
  effect: "update",
  request: clearRequest,
  response: nothing,
});

/** Changes what may change while training goes on: the learning rate and its schedule, the staleness bound. */
export const parameterConfigure: Contract<typeof configureRequest, typeof nothing> = contract({
  name: "wb/parameter/configure",
  target: "server",
  effect: "update",
  request: configureRequest,
  response: nothing,
});

/** What was pushed to the parameter on this server and was not finite, since it was made there. */
export const parameterNonFinite: Contract<typeof ofParameter, typeof nonFinite> = contract({
  name: "wb/parameter/non-finite",
  target: "server",
  effect: "read",
  request: ofParameter,
  response: nonFinite,
});

/** The highest clock of any worker here, or of any update of the parameter, and the turn of the last change. */
export const consistencySurvey: Contract<typeof ofParameter, typeof survey> = contract({
  name: "wb/consistency/survey",
  target: "server",
  effect: "read",
  request: ofParameter,
  response: survey,
});

/** Answers the clock from which on the last change holds here: `clock`, or a later one (M2). */
export const consistencyChange: Contract<typeof changeRequest, typeof changed> = contract({
  name: "wb/consistency/change",
  target: "server",
  effect: "update",
  request: changeRequest,
  response: changed,
});
