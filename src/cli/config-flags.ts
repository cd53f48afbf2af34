// config-flags — the configuration keys as flags of a command. What they mean is the business of node/config.

import { type Command, Option } from "commander";
import { describeKeys } from "../node/config/describe-keys.ts";

export type Flags = Readonly<Record<string, unknown>>;

const HEADING = "Configuration (each also by its variable, or in a file):";

export type FlagChoice = {
  /** The keys to offer; all when left out. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /** What the command prefers to the usual defaults, in words. */
  readonly defaults?: Readonly<Record<string, string>>;
};

export function addConfigFlags(command: Command, { only, except = [], defaults = {} }: FlagChoice = {}): Command {
  for (const { name, flag, description, default: standard, variable } of describeKeys()) {
    if (except.includes(name) || (only !== undefined && !only.includes(name))) continue;
    const option = new Option(flag, `${description} [${defaults[name] ?? standard}; ${variable}]`);
    command.addOption(option.helpGroup(HEADING));
  }
  return command;
}

/** Of what commander parsed, the part that `loadConfig` takes. */
export function configFlags(flags: Flags): Flags {
  const keys = new Set(describeKeys().map(({ flagKey }) => flagKey));
  return Object.fromEntries(Object.entries(flags).filter(([key]) => keys.has(key)));
}
