// known-names — which names we read, and the problem of an unknown one: every WEIGHBRIDGE_* and DMLC_* name is ours or
// ps-lite's, so an unknown one is a mistake; PS_* and MS_* belong to other programs also, and only near misses are
// mistakes.

import { renamedTo } from "../../base/known-options.ts";
import { isSlip, nearestName } from "../../base/nearest-name.ts";
import { foreignVariablesOf, variableOf } from "./config-key.ts";
import { FILE_KEYS, KEY_NAMES, KEYS } from "./config-keys.ts";
import type { ConfigProblem } from "./config-problem.ts";

/** Set by the launchers of dmlc-core for themselves and for rabit; we do not need them. */
export const LAUNCHER_VARIABLES: readonly string[] = [
  ...["DMLC_TRACKER_*", "DMLC_JOB_*", "DMLC_TASK_ID", "DMLC_NODE_RANK", "DMLC_NUM_ATTEMPT", "DMLC_MAX_ATTEMPT", "DMLC_HDFS_OPTS"],
  ...["DMLC_WORKER_CORES", "DMLC_WORKER_MEMORY_MB", "DMLC_SERVER_CORES", "DMLC_SERVER_MEMORY_MB"],
  ...["DMLC_WORKER_CONNECT_RETRY", "DMLC_WORKER_STOP_PROCESS_ON_ERROR"],
];

export const FOREIGN_VARIABLES: ReadonlySet<string> = new Set(
  KEY_NAMES.flatMap((name) => foreignVariablesOf(KEYS[name]).map((variable) => variable.name)),
);
export const FILE_VARIABLES: readonly string[] = Object.keys(FILE_KEYS).map(variableOf);
/** The variables that a file may contain: all but those that name the file. */
export const KEY_VARIABLES: ReadonlySet<string> = new Set([...KEY_NAMES.map(variableOf), ...FOREIGN_VARIABLES]);
const ALL_VARIABLES: ReadonlySet<string> = new Set([...KEY_VARIABLES, ...FILE_VARIABLES]);

export function isLauncherVariable(name: string): boolean {
  return LAUNCHER_VARIABLES.some((known) => (known.endsWith("*") ? name.startsWith(known.slice(0, -1)) : name === known));
}

export type UnknownName = {
  readonly typed: string;
  readonly origin: string;
  /** What a known name is called here: option, flag, variable, key. */
  readonly noun: string;
  readonly candidates: Iterable<string>;
};

export function unknownName({ typed, origin, noun, candidates }: UnknownName): ConfigProblem {
  const known = [...candidates];
  const renamed = renamedTo(typed, known);
  if (renamed !== undefined)
    return { subject: typed, origin, expected: `a known ${noun}`, found: "its old name", fix: `it is now called ${renamed}` };
  const nearest = nearestName(typed, known);
  const fix = nearest === undefined ? "remove it" : `did you mean ${nearest}? Otherwise remove it`;
  return { subject: typed, origin, expected: `a known ${noun}`, found: "a name that nothing reads", fix };
}

export function unknownVariables(names: Iterable<string>, origin: string): ConfigProblem[] {
  return [...names].filter(isMistake).map((typed) => unknownName({ typed, origin, noun: "variable", candidates: ALL_VARIABLES }));
}

/** A variable of ps-lite, Hetu or MindSpore, mistyped or not. */
export function isForeignName(name: string): boolean {
  return FOREIGN_VARIABLES.has(name) || name.startsWith("DMLC_") || isForeignSlip(name);
}

function isMistake(name: string): boolean {
  if (ALL_VARIABLES.has(name) || isLauncherVariable(name)) return false;
  return /^(WEIGHBRIDGE|DMLC)_/.test(name) || isForeignSlip(name);
}

function isForeignSlip(name: string): boolean {
  return /^(PS|MS)_/.test(name) && [...ALL_VARIABLES].some((known) => isSlip(name, known));
}
