// model-params — the options of mshadow-ps that setParam sets, checked. Names are mshadow's; values may be text, as
// there.
//
//   update_on_server   0, 1      whether rounds update weights; defaults to 1 if the model has an updater
//   test_on_server     0, 1      whether checkWeight may be called
//   push_op[<key>]     sum, gather
//   reduce_thread      8         threads that reduce one round together
//   bigarray_bound     1000000   elements from which on they do
//   use_pin_memory     1         checked alone: copies of CUDA always go through pinned memory
//   push_thread        ndev, one whether an urgent reduce overtakes one that has begun
//   pull_thread        ndev, one the same of hand-outs
//   msg:…                        ignored, but for what level 2 has (all-reduce-level.ts)

import { badArgument, showValue, type WeighbridgeError } from "../../base/errors.ts";
import { didYouMean, isSlip } from "../../base/nearest-name.ts";
import type { PushOperation } from "../../worker/level-one/model-backend.ts";

export type ModelParams = {
  updateOnServer: boolean | undefined;
  testOnServer: boolean;
  readonly pushOperations: Map<number, PushOperation>;
  reduceThreads: number;
  bigArrayLength: number;
  oneReduceAtATime: boolean;
  oneHandOutAtATime: boolean;
};

export function defaultParams(): ModelParams {
  return {
    ...{ updateOnServer: undefined, testOnServer: false, pushOperations: new Map() },
    ...{ reduceThreads: 8, bigArrayLength: 1_000_000 },
    ...{ oneReduceAtATime: false, oneHandOutAtATime: false },
  };
}

type Setter = (params: ModelParams, value: string) => void;

const SETTERS: Readonly<Record<string, Setter>> = {
  update_on_server: (params, value) => {
    params.updateOnServer = flag("update_on_server", value);
  },
  test_on_server: (params, value) => {
    params.testOnServer = flag("test_on_server", value);
  },
  reduce_thread: (params, value) => {
    params.reduceThreads = whole("reduce_thread", value);
  },
  bigarray_bound: (params, value) => {
    params.bigArrayLength = whole("bigarray_bound", value);
  },
  use_pin_memory: (_, value) => {
    flag("use_pin_memory", value); // copies of CUDA always go through pinned memory
  },
  push_thread: (params, value) => {
    params.oneReduceAtATime = choice("push_thread", ["ndev", "one"], value) === "one";
  },
  pull_thread: (params, value) => {
    params.oneHandOutAtATime = choice("pull_thread", ["ndev", "one"], value) === "one";
  },
};
const NAMES: readonly string[] = [...Object.keys(SETTERS), "push_op[<key>]"];
const PUSH_OP = /^push_op\[(.*)\]$/;

/**
 * False for a name that is not the model's, but may be level 2's or the updater's. Throws BAD_ARGUMENT for an
 * impossible value.
 */
export function setModelParam(params: ModelParams, name: string, value: string): boolean {
  const setter = Object.hasOwn(SETTERS, name) ? SETTERS[name] : undefined;
  const [, key] = PUSH_OP.exec(name) ?? [];
  if (setter !== undefined) setter(params, value);
  else if (key !== undefined) params.pushOperations.set(keyOf(name, key), choice(name, ["sum", "gather"], value));
  else return false;
  return true;
}

/** Names that mshadow-ps hands to what it is built on. */
export function isMessageParam(name: string): boolean {
  return name.startsWith("msg:");
}

/** The error for a name that is nobody's. Undefined if it may be an updater's: it is no slip for one of the model's. */
export function unknownParam(name: string, hasUpdater: boolean, settings: readonly string[] = []): WeighbridgeError | undefined {
  if (hasUpdater && !NAMES.some((known) => isSlip(name, known))) return undefined;
  const names = [...NAMES, ...settings];
  return badArgument(`there is no option ${JSON.stringify(name)}; there are ${names.join(", ")}${didYouMean(name, names)}`);
}

function keyOf(name: string, text: string): number {
  const key = Number(text);
  if (!/^\d+$/.test(text) || key >= 2 ** 31) throw badArgument(`${name}: a key is a whole number from 0 to ${2 ** 31 - 1}`);
  return key;
}

/** Throws BAD_ARGUMENT. */
export function flag(name: string, value: string): boolean {
  return choice(name, ["0", "1"], value === "true" ? "1" : value === "false" ? "0" : value) === "1";
}

function whole(name: string, value: string): number {
  const number = Number(value);
  if (!(value.trim() !== "" && Number.isSafeInteger(number) && number >= 1))
    throw badArgument(`${name} is a whole number from 1 up, not ${showValue(value)}`);
  return number;
}

function choice<const C extends string>(name: string, choices: readonly C[], value: string): C {
  const found = choices.find((candidate) => candidate === value);
  if (found === undefined) throw badArgument(`${name} is ${choices.join(" or ")}, not ${showValue(value)}${didYouMean(value, choices)}`);
  return found;
}
