// parameters — makes, changes and clears parameters on a server, and changes their consistency while the job runs.
// Specs and settings travel as JSON: rare, small, and easy to compare (Hetu: ParamInit, ParamClear). Which number
// stands for a name, and which edition of it is to be made or cleared, the scheduler's catalogue says (catalogue.ts).
//
// A worker that changes a consistency asks every server first how far its workers are, and then names a clock that is
// beyond all of them: the change begins there, on every server (spec/consistency.md, M4).

import type { FieldValues } from "../wire/function-schema.ts";
import { type Contract, contract, serverUpdate } from "./contract.ts";

const createRequest = { parameter: "u32", edition: "u32", spec: "string" } as const;
const clearRequest = { parameter: "u32", edition: "u32", pushNumber: "u32" } as const;
const stateRequest = { parameter: "u32", name: "string" } as const;
const configureRequest = { parameter: "u32", settings: "string", consistency: "string", clock: "u32", turn: "u32" } as const;
const state = {
  /**
   * Whether this server has it from a checkpoint, or from what was saved of it; otherwise somebody has made it here.
   */
  isRestored: "bool",
  /** The highest clock of any worker here, or of any update of the parameter, and the turn of the last change. */
  clock: "u32",
  turn: "u32",
  /** What was pushed to it here and was not finite, since it was made. */
  refusedPushes: "f64",
  skippedPushes: "f64",
  zeroedElements: "f64",
  /** What the caller's reads of it wait for here, in words; "" when none waits. */
  waits: "string",
} as const;
const sizeRequest = { parameter: "u32", keys: "u64[]" } as const;
const size = { count: "f64", bytes: "f64", found: "u8[]" } as const;
const created = { plugIns: "string" } as const;
const changed = { clock: "u32" } as const;
const nothing = {} as const;

/**
 * Makes the parameter, or does nothing if it is there and described alike. Throws SPEC_MISMATCH otherwise, with the
 * differences, UNKNOWN_PARAMETER for an edition that was cleared, and UNKNOWN_PLUG_IN where it needs a row type or an
 * updater that the server has not loaded. Answers which of users' it is made with, as JSON: a list of `{ kind, name,
 * version, deterministic, hash, module }`, which the worker that makes it compares among the servers.
 */
export const parameterCreate: Contract<typeof createRequest, typeof created> = contract({
  name: "wb/parameter/create",
  target: "server",
  effect: "update",
  answersAgain: true,
  request: createRequest,
  response: created,
});

/** How a parameter stands on a server. */
export type ParameterState = FieldValues<typeof state>;

/**
 * How the parameter stands on this server, for the worker that asks. The name is for a server that was restarted, and
 * has never heard of it: its errors and its log then name what is missing.
 */
export const parameterState: Contract<typeof stateRequest, typeof state> = contract({
  name: "wb/parameter/state",
  target: "server",
  effect: "read",
  request: stateRequest,
  response: state,
});

/** How much of a parameter a server has. */
export type ParameterSize = FieldValues<typeof size>;

/**
 * How much of the parameter this server has: `count` rows of a table, or elements of a tensor, in `bytes` of memory
 * with what the optimizer keeps and the index. `found` says of each key, in order, whether this server has its row: 1
 * or 0. Makes no row and reads no values. Callers that are no nodes may call it through the scheduler (tools.ts).
 * Servers answer for themselves: while a part moves, two of them may count it.
 */
export const parameterSize: Contract<typeof sizeRequest, typeof size> = contract({
  name: "wb/parameter/size",
  target: "server",
  effect: "read",
  request: sizeRequest,
  response: size,
});

/**
 * Clears this edition of the parameter, or an earlier one; a later one stays. `pushNumber` is that of the worker's
 * last push to it: one that is made anew under this name does not count what was pushed to this one.
 */
export const parameterClear: Contract<typeof clearRequest, typeof nothing> = serverUpdate("wb/parameter/clear", clearRequest, nothing);

/**
 * Changes what may change while training goes on: the learning rate and its schedule, the staleness bound (`settings`,
 * empty: none of these), and the consistency (empty: as it is). Answers the clock from which on the last change of the
 * consistency holds here: `clock`, or a later one (spec/consistency.md, M2); 0 without one.
 */
export const parameterConfigure: Contract<typeof configureRequest, typeof changed> = serverUpdate(
  "wb/parameter/configure",
  configureRequest,
  changed,
);
