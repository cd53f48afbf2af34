// cannot-start — a process that cannot become a node (its rank is beyond the counts, its module is missing) reports why
// to the scheduler, so that the others end with that error instead of waiting (docs/decisions/0019). The report itself
// is in failed-start.ts, which few processes load.

import { type ConfigSources, loadConfig } from "./config/config.ts";
import type { NodeConfig } from "./config/node-config.ts";

/** `loadConfig` for a process that is a node: if only its rank is wrong, it reports that before it throws. */
export async function loadNodeConfig(sources: ConfigSources): Promise<NodeConfig> {
  return await orReport(
    () => loadConfig({ ...sources, isAnyRankAllowed: true, warn: () => {} }),
    () => loadConfig(sources),
  );
}

/** Returns what `prepare` returns, which a node of this configuration needs to start; reports what it throws first. */
export async function orReport<T>(configOf: () => NodeConfig, prepare: () => T | Promise<T>): Promise<T> {
  try {
    return await prepare();
  } catch (thrown) {
    let config: NodeConfig | undefined;
    try {
      config = configOf();
    } catch {
      // A process that does not know its scheduler cannot report; its own error is thrown anyway.
    }
    if (config !== undefined) await (await import("./failed-start.ts")).reportCannotStart(config, thrown);
    throw thrown;
  }
}
