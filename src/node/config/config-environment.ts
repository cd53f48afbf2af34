// config-environment — a config as variables, to hand it to a child process. `loadConfig` reads back exactly the same config,
// whatever else the child inherits from its parent's environment.

import { variableOf } from "./config-key.ts";
import { FILE_KEYS, KEY_NAMES } from "./config-keys.ts";
import { flattenConfig, type NodeConfig } from "./node-config.ts";
import { NONE } from "./value-kind.ts";

/** Spread it over the child's environment: `{ ...process.env, ...configToEnvironment(config) }`. */
export function configToEnvironment(config: NodeConfig): Record<string, string> {
  const flat = flattenConfig(config);
  const env = KEY_NAMES.map((name) => [variableOf(name), String(flat[name] ?? NONE)]);
  // Nothing is left for a file to say; an inherited one might not even make sense to the child.
  const noFile = Object.keys(FILE_KEYS).map((name) => [variableOf(name), ""]);
  return Object.fromEntries([...env, ...noFile]);
}
