// config-key — a row of the key table, and how its key is spelled on the command line and in the environment.

import type { ForeignVariable } from "./foreign-variable.ts";
import type { FlatConfig } from "./node-config.ts";
import type { ValueKind } from "./value-kind.ts";

/** The value of a key that is not set. */
export type Fallback<T> = {
  readonly required: boolean;
  /** For the documentation. */
  readonly text: string;
  /** `known` holds every key that is set, and the defaults of those above in the table. */
  readonly valueFor: (known: Readonly<Partial<FlatConfig>>) => T | undefined;
};

export type ConfigKey<T> = {
  readonly kind: ValueKind<T>;
  readonly fallback: Fallback<T>;
  /** A one-letter flag beside the long one. */
  readonly short?: string;
  /** ps-lite's and Hetu's variables; they beat MindSpore's. */
  readonly dmlc?: readonly ForeignVariable[];
  readonly mindspore?: readonly ForeignVariable[];
};

export const REQUIRED: Fallback<never> = { required: true, text: "required", valueFor: () => undefined };
export const ABSENT: Fallback<never> = { required: false, text: "none", valueFor: () => undefined };

export function constant<T>(value: T): Fallback<T> {
  return { required: false, text: String(value), valueFor: () => value };
}

export function derived<T>(text: string, valueFor: Fallback<T>["valueFor"]): Fallback<T> {
  return { required: false, text, valueFor };
}

/** Flags whose names are not those of their keys. */
const FLAG_KEYS: Readonly<Record<string, string>> = { serverCount: "servers", workerCount: "workers", workerCountMax: "workersMax" };

/** Without the dot: `faults.dropPercent` is `faultDropPercent`. */
export function plainName(name: string): string {
  return name.replace(/^faults\.(.)/, (_, first: string) => `fault${first.toUpperCase()}`);
}

/** The key as commander spells its flag. A time has a unit there: `requestTimeoutMs` is `requestTimeout`. */
export function flagKeyOf(name: string): string {
  return FLAG_KEYS[name] ?? plainName(name).replace(/Ms$/, "");
}

/** `checkpointDir` as --checkpoint-dir. */
export function longFlag(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function flagOf(name: string): string {
  return longFlag(flagKeyOf(name));
}

export function variableOf(name: string): string {
  return `WEIGHBRIDGE_${plainName(name)
    .replace(/[A-Z]/g, (letter) => `_${letter}`)
    .toUpperCase()}`;
}

export function foreignVariablesOf(key: ConfigKey<unknown>): readonly ForeignVariable[] {
  return [...(key.dmlc ?? []), ...(key.mindspore ?? [])];
}

/** Every way to set a key, for an error about a missing one. */
export function waysToSet(name: string, key: ConfigKey<unknown>): string {
  const variables = [variableOf(name), ...new Set(foreignVariablesOf(key).map((variable) => variable.name))];
  return `set ${flagOf(name)}, ${variables.join(", ")}, the option ${name}, or ${name} in a config file`;
}
