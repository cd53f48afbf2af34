// config-source — options, command line, environment and file in one form, for `resolveKey`.
//
// Kubernetes sets variables in every pod for every service, and Docker for its links: for "weighbridge-scheduler"
// WEIGHBRIDGE_SCHEDULER_SERVICE_HOST, …_SERVICE_PORT_HTTP, …_PORT=tcp://192.0.2.11:8000 and …_PORT_8000_TCP_ADDR.
//
// Invariants:
//   ConfigSource.S1. No service link is configuration: it sets no key, and it is not reported as a mistake either.
//   ConfigSource.S2. A variable of ours with the name of a link is a link only when its value is one.

import { badArgument, showValue } from "../../base/errors.ts";
import { type ConfigKey, flagKeyOf, flagOf, variableOf } from "./config-key.ts";
import { FILE_KEYS, KEY_NAMES, KEYS } from "./config-keys.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { flattenKeys } from "./flat-config.ts";
import { unknownName, unknownVariables } from "./known-names.ts";
import type { KeyName } from "./node-config.ts";
import { hasUnit } from "./value-kind.ts";

/** A value under one of our own names, as it was written. */
export type Given = { readonly subject: string; readonly origin: string; readonly value: unknown };

export type ConfigSource = {
  readonly origin: string;
  /** By key. More than one if a file spells a key in two ways. */
  readonly own: ReadonlyMap<string, readonly Given[]>;
  /** The variables of ps-lite, Hetu and MindSpore; none of them empty. */
  readonly foreign: ReadonlyMap<string, { readonly origin: string; readonly text: string }>;
  /** Variables with the names of keys whose values are Kubernetes' service links, which are not read. */
  readonly links?: ReadonlyMap<string, string>;
  readonly problems: readonly ConfigProblem[];
};

const OPTION_NAMES: readonly string[] = [...KEY_NAMES, ...Object.keys(FILE_KEYS)];

const LINK_NAME = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?)$/;
const LINK_VALUE = /^(?:tcp|udp|sctp):\/\//;

/** Trimmed text; undefined for what counts as missing: undefined, null and the empty text. */
export function present(value: unknown): unknown {
  const trimmed = typeof value === "string" ? value.trim() : value;
  return trimmed === "" || trimmed === null ? undefined : trimmed;
}

/** `others` are options of the same call that are not keys: a misspelt name may mean one of them. */
export function optionsSource(
  options: Readonly<Record<string, unknown>>,
  { origin = "option", others = [] }: { readonly origin?: string; readonly others?: readonly string[] | undefined } = {},
): ConfigSource {
  const spelling = new Map(OPTION_NAMES.map((name) => [name, name]));
  if (typeof options !== "object" || options === null) throw badArgument(`the options of a node are an object, not ${showValue(options)}`);
  return namedSource({ origin, noun: "option", given: flattenKeys(options), spelling, subjectOf: (name) => name, others });
}

/** `flags` is what commander's `opts()` returns for the flags of `describeKeys`. */
export function commandLineSource(flags: Readonly<Record<string, unknown>>): ConfigSource {
  const origin = "command line";
  const spelling = new Map(OPTION_NAMES.map((name) => [flagKeyOf(name), name]));
  const source = namedSource({ origin, noun: "flag", given: new Map(Object.entries(flags)), spelling, subjectOf: flagOf });
  const unitless = [...source.own].flatMap(([name, given]) => given.flatMap((one) => (isUnitless(name, one) ? [withoutUnit(one)] : [])));
  return { ...source, problems: [...source.problems, ...unitless] };
}

function isUnitless(name: string, { value }: Given): boolean {
  const key: ConfigKey<unknown> | undefined = Object.hasOwn(KEYS, name) ? KEYS[name as KeyName] : undefined;
  return key?.kind.isTime === true && typeof value === "string" && !hasUnit(value);
}

function withoutUnit({ subject, origin, value }: Given): ConfigProblem {
  const fix = `write ${String(value)}ms or ${String(value)}s`;
  return { subject, origin, expected: "a time with its unit, such as 500ms, 5s or 2min", found: quote(value), fix };
}

type NamedSource = {
  readonly origin: string;
  readonly noun: string;
  readonly given: ReadonlyMap<string, unknown>;
  /** From the name as it is spelled here to the key. */
  readonly spelling: ReadonlyMap<string, string>;
  readonly subjectOf: (name: string) => string;
  /** Names that the caller reads. */
  readonly others?: readonly string[];
};

function namedSource({ origin, noun, given, spelling, subjectOf, others = [] }: NamedSource): ConfigSource {
  const own = new Map<string, Given[]>();
  const problems: ConfigProblem[] = [];
  for (const [spelled, raw] of given) {
    const value = present(raw);
    if (value === undefined) continue;
    const name = spelling.get(spelled);
    if (name !== undefined) own.set(name, [{ subject: subjectOf(name), origin, value }]);
    else
      problems.push(
        unknownName({ typed: subjectOf(spelled), origin, noun, candidates: [...[...spelling.values()].map(subjectOf), ...others] }),
      );
  }
  return { origin, own, foreign: new Map(), problems };
}

export function environmentSource(env: Readonly<Record<string, string | undefined>>): ConfigSource {
  const origin = "environment";
  const set = new Map<string, { origin: string; text: string }>();
  const links = new Map<string, string>();
  for (const [name, raw] of Object.entries(env)) {
    const text = present(raw);
    if (typeof text !== "string") continue;
    if (isServiceLink(name, text)) links.set(name, text);
    else set.set(name, { origin, text });
  }
  const own = new Map<string, Given[]>();
  for (const name of OPTION_NAMES) {
    const variable = set.get(variableOf(name));
    if (variable !== undefined) own.set(name, [{ subject: variableOf(name), origin, value: variable.text }]);
  }
  return { origin, own, foreign: set, links, problems: unknownVariables(set.keys(), origin) };
}

function isServiceLink(name: string, value: string): boolean {
  return LINK_NAME.test(name) || (name.endsWith("_PORT") && LINK_VALUE.test(value));
}
