// describe-keys — the table of keys as text, for `--help` and for docs/configuration.md.

import { DESCRIPTIONS, SHORT_DESCRIPTIONS } from "./config-descriptions.ts";
import { type ConfigKey, flagKeyOf, flagOf, foreignVariablesOf, longFlag, plainName, variableOf } from "./config-key.ts";
import { FILE_KEYS, KEYS } from "./config-keys.ts";
import type { ForeignVariable } from "./foreign-variable.ts";

export type KeyDescription = {
  /** As in code and in a file. */
  readonly name: string;
  /** As commander takes it: `-s, --servers <count>`. */
  readonly flag: string;
  /** As commander returns it, and `loadConfig` takes it. */
  readonly flagKey: string;
  /** What it was called before, if it had another name. */
  readonly oldFlag: string | undefined;
  readonly variable: string;
  /** Variables of ps-lite, Hetu and MindSpore that also set the key. */
  readonly foreignVariables: readonly string[];
  readonly expected: string;
  readonly default: string;
  readonly description: string;
  /** The same in a few words. */
  readonly summary: string;
};

// TypeScript does not know that these are all keys.
const ALL_KEYS = Object.entries({ ...KEYS, ...FILE_KEYS }) as readonly (readonly [keyof typeof DESCRIPTIONS, ConfigKey<unknown>])[];

export function describeKeys(): KeyDescription[] {
  return ALL_KEYS.map(([name, key]) => ({
    name,
    flag: `${key.short === undefined ? "" : `${key.short}, `}${flagOf(name)}${placeholderText(key.kind)}`,
    flagKey: flagKeyOf(name),
    oldFlag: oldFlagOf(name),
    variable: variableOf(name),
    foreignVariables: [...new Set(foreignVariablesOf(key).map((variable) => variable.name))],
    expected: key.kind.expected,
    default: key.fallback.text,
    description: DESCRIPTIONS[name],
    summary: SHORT_DESCRIPTIONS[name] ?? firstClause(DESCRIPTIONS[name]),
  }));
}

/** The flag as it was spelled before: all had the names of their keys. */
function oldFlagOf(name: string): string | undefined {
  const flag = longFlag(plainName(name));
  return flag === flagOf(name) ? undefined : flag;
}

/** "Where nodes listen; 0.0.0.0 for all." as "where nodes listen". */
function firstClause(description: string): string {
  const [clause = ""] = description.split(/[.;:](?: |$)/, 1);
  return clause.charAt(0).toLowerCase() + clause.slice(1);
}

/** In angle brackets, unless the value may be left out. */
function placeholderText({ placeholder }: ConfigKey<unknown>["kind"]): string {
  if (placeholder === "") return "";
  return placeholder.startsWith("[") ? ` ${placeholder}` : ` <${placeholder}>`;
}

export function keyTable(): string {
  const rows = describeKeys().map(({ name, flag, variable, expected, default: standard, description }) => {
    return [`\`${name}\``, `\`${flag}\``, `\`${variable}\``, standard, `${description} Takes ${expected}.`];
  });
  return markdownTable(["key", "flag", "variable", "default", "meaning"], rows);
}

export function foreignVariableTable(): string {
  const entries = ALL_KEYS.flatMap(([name, key]) =>
    [key.dmlc ?? [], key.mindspore ?? []].flatMap((list) =>
      list.map((variable) => ({ name, variable, remarks: remarksOn(variable, list) })),
    ),
  );
  entries.sort((a, b) => (a.variable.name < b.variable.name ? -1 : Number(a.variable.name > b.variable.name)));
  const rows = entries.map(({ name, variable, remarks }) => [`\`${variable.name}\``, `\`${name}\``, remarks]);
  return markdownTable(["variable", "sets", "remarks"], rows);
}

function remarksOn(variable: ForeignVariable, list: readonly ForeignVariable[]): string {
  const { note, roles, yields } = variable;
  const before = list.slice(0, list.indexOf(variable)).map(({ name }) => `\`${name}\``);
  const listeners = roles === undefined ? undefined : `${roles.join(" and ")} only`;
  const order = yields ? `yields to ${before.join(", ")}` : undefined;
  return [note, listeners, order].filter((remark) => remark !== undefined).join("; ");
}

/** Columns are padded as biome pads them, so that formatting the page changes nothing. */
function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) => `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
