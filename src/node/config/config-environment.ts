// config-environment — a config as variables for a child process, from which `loadConfig` reads the same config
// whatever else the child inherits; and the environment of a command that starts a cluster of its own, without what
// describes another job (addresses, ports, counts, ranks, files).

import { tmpdir } from "node:os";
import { join } from "node:path";
import { foreignVariablesOf, variableOf } from "./config-key.ts";
import { FILE_KEYS, KEY_NAMES, KEYS } from "./config-keys.ts";
import { flattenConfig } from "./flat-config.ts";
import { FILE_VARIABLES, isForeignName, KEY_VARIABLES } from "./known-names.ts";
import type { KeyName, NodeConfig } from "./node-config.ts";
import { NONE } from "./value-kind.ts";

/** Spread it over the child's environment: `{ ...process.env, ...configToEnvironment(config) }`. */
export function configToEnvironment(config: NodeConfig): Record<string, string> {
  const flat = flattenConfig(config);
  const env = KEY_NAMES.map((name) => [variableOf(name), String(flat[name] ?? NONE)]);
  // All keys are set, so no file is needed; an inherited one might not even be valid for the child.
  const noFile = Object.keys(FILE_KEYS).map((name) => [variableOf(name), ""]);
  return Object.fromEntries([...env, ...noFile]);
}

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The environment without every variable that configures a node, except our own for these keys. Those of ps-lite, Hetu
 * and MindSpore are removed, mistyped ones too. An unknown WEIGHBRIDGE_* name stays: it is a mistake in this command's
 * own environment, which `loadConfig` reports.
 */
export function ownEnvironment(env: Variables, keys: readonly KeyName[]): Variables {
  const kept = new Set(keys.map(variableOf));
  const isOfAnotherJob = (name: string): boolean =>
    (KEY_VARIABLES.has(name) || FILE_VARIABLES.includes(name) || isForeignName(name)) && !kept.has(name);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isOfAnotherJob(name)));
}

/** The role that the environment gives a process, and the variable that says so. */
export function roleInEnvironment(env: Variables): { readonly variable: string; readonly role: string } | undefined {
  for (const variable of [variableOf("role"), ...foreignVariablesOf(KEYS.role).map(({ name }) => name)]) {
    const role = env[variable]?.trim() ?? "";
    if (role !== "") return { variable, role };
  }
  return undefined;
}

export type Environment = Readonly<Record<string, string>>;

/**
 * The variables of a launched process: its whole configuration, and those from which programs for ps-lite and Hetu
 * learn their role.
 */
export function nodeEnvironment(config: NodeConfig): Environment {
  return { ...configToEnvironment(config), ...dmlcVariables(config), ...compileCache() };
}

function dmlcVariables({ role, rank, serverCount, workerCount, schedulerHost, schedulerPort }: NodeConfig): Environment {
  const common = {
    DMLC_ROLE: role,
    DMLC_NUM_SERVER: String(serverCount),
    DMLC_NUM_WORKER: String(workerCount),
    DMLC_PS_ROOT_URI: schedulerHost,
    DMLC_PS_ROOT_PORT: String(schedulerPort),
  };
  if (role === "scheduler" || rank === undefined) return common;
  return { ...common, DMLC_RANK: String(rank), [role === "server" ? "SERVER_ID" : "WORKER_ID"]: String(rank) };
}

/**
 * Processes of a job load the same modules, and only the first has to compile them. Halves the time a node takes to
 * start.
 */
function compileCache(): Environment {
  const { NODE_COMPILE_CACHE, NODE_DISABLE_COMPILE_CACHE } = process.env;
  if (NODE_COMPILE_CACHE !== undefined || NODE_DISABLE_COMPILE_CACHE !== undefined) return {};
  return { NODE_COMPILE_CACHE: join(tmpdir(), "node-compile-cache") };
}
