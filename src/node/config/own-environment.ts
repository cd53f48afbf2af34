// own-environment — the environment of a command that starts a cluster of its own, for itself and for its processes. Whatever there is about
// another job (its addresses, ports, counts, ranks, files, protocol) would lead the new nodes astray, so it is left out.

import { variableOf } from "./config-key.ts";
import { FILE_VARIABLES, isForeignName, KEY_VARIABLES } from "./known-names.ts";
import type { KeyName } from "./node-config.ts";

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Without every variable that configures a node, except our own ones of these keys. Those of ps-lite, Hetu and MindSpore go, mistyped ones too.
 * An unknown WEIGHBRIDGE_* name stays: it is a mistake in this command's own environment, and `loadConfig` says so.
 */
export function ownEnvironment(env: Variables, keys: readonly KeyName[]): Variables {
  const kept = new Set(keys.map(variableOf));
  const isOfAnotherJob = (name: string): boolean =>
    (KEY_VARIABLES.has(name) || FILE_VARIABLES.includes(name) || isForeignName(name)) && !kept.has(name);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isOfAnotherJob(name)));
}
