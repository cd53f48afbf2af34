// flat-config — a configuration in the flat form of the table of keys, and back.

import type { FlatConfig, NodeConfig } from "./node-config.ts";

const FAULTS = "faults.";

export function nestConfig(flat: FlatConfig): NodeConfig {
  const config: Record<string, unknown> = {};
  const faults: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(flat)) {
    if (name.startsWith(FAULTS)) faults[name.slice(FAULTS.length)] = value;
    else config[name] = value;
  }
  return { ...config, faults } as NodeConfig; // FlatConfig and NodeConfig name the same keys.
}

export function flattenConfig(config: NodeConfig): FlatConfig {
  return Object.fromEntries(flattenKeys(config)) as FlatConfig; // As above.
}

/** Spells nested keys with a dot. Accepts any mapping, so that unknown keys are reported under their names. */
export function flattenKeys(nested: Readonly<Record<string, unknown>>): Map<string, unknown> {
  const flat = new Map<string, unknown>();
  for (const [name, value] of Object.entries(nested)) {
    if (name !== "faults" || !isMapping(value)) flat.set(name, value);
    else for (const [fault, setting] of Object.entries(value)) flat.set(FAULTS + fault, setting);
  }
  return flat;
}

export function isMapping(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
