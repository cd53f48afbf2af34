// resolve-key — finds the value of one key among all sources.
// Invariants:
//   ResolveKey.R1. The first source that has the key decides, valid or not: a mistake never falls through.
//   ResolveKey.R2. Within a source our own names beat ps-lite's and Hetu's, which beat MindSpore's.
//   ResolveKey.R3. Two of equal standing that differ are an error; one of ps-lite's and one of MindSpore's, a warning.

import { didYouMean } from "../../base/nearest-name.ts";
import type { ConfigKey } from "./config-key.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import type { ConfigSource, Given } from "./config-source.ts";
import { type ForeignVariable, Refusal, type VariableContext } from "./foreign-variable.ts";
import type { NetworkInterfaces } from "./network-interface.ts";
import type { FlatConfig } from "./node-config.ts";

export type Resolution<T> =
  | { readonly state: "missing" }
  | { readonly state: "broken"; readonly problem: ConfigProblem }
  | { readonly state: "given"; readonly value: T; readonly subject: string; readonly origin: string; readonly warning?: string };

export type KeyToResolve<T> = {
  readonly name: string;
  readonly key: ConfigKey<T>;
  /** The strongest first. */
  readonly sources: readonly ConfigSource[];
  readonly known: Readonly<Partial<FlatConfig>>;
  readonly interfaces: NetworkInterfaces;
};

export function resolveKey<T>(request: KeyToResolve<T>): Resolution<T> {
  for (const source of request.sources) {
    const own = agree(
      request,
      (source.own.get(request.name) ?? []).map((given) => read(request, given)),
    );
    if (own.state !== "missing") return own;
    const dmlc = agree(request, foreignValues(request, source, request.key.dmlc ?? []));
    const mindspore = agree(request, foreignValues(request, source, request.key.mindspore ?? []));
    if (dmlc.state !== "missing") return withWarning(dmlc, mindspore);
    if (mindspore.state !== "missing") return mindspore;
  }
  return { state: "missing" };
}

function read<T>({ key }: KeyToResolve<T>, { subject, origin, value }: Given): Resolution<T> {
  const accepted = key.kind.read(value);
  if (accepted !== undefined) return { state: "given", value: accepted.value, subject, origin };
  return { state: "broken", problem: rejected({ key, subject, origin, found: value }) };
}

type Rejected = { readonly key: ConfigKey<unknown>; readonly subject: string; readonly origin: string; readonly found: unknown };

function rejected({ key, subject, origin, found }: Rejected, refusal?: Refusal): ConfigProblem {
  const expected = refusal?.expected ?? key.kind.expected;
  const leaveOut = key.fallback.required ? "" : `, or leave it out (default: ${key.fallback.text})`;
  return {
    subject,
    origin,
    expected,
    found: quote(found),
    fix: refusal?.fix ?? `give ${subject} such a value${leaveOut}${didYouMean(found, key.kind.words ?? [])}`,
  };
}

function foreignValues<T>(request: KeyToResolve<T>, source: ConfigSource, variables: readonly ForeignVariable[]): Resolution<T>[] {
  const { key, known, interfaces } = request;
  const surroundings: VariableContext = { variable: (name) => source.foreign.get(name)?.text, known, interfaces };
  const found: Resolution<T>[] = [];
  for (const { name, roles, yields, translate } of variables) {
    const variable = source.foreign.get(name);
    const concerned = roles === undefined || (known.role !== undefined && roles.includes(known.role));
    if (variable === undefined || !concerned || (yields && found.length > 0)) continue;
    const { text, origin } = variable;
    const value = translate === undefined ? text : translate(text, surroundings);
    if (value instanceof Refusal) {
      found.push({ state: "broken", problem: rejected({ key, subject: name, origin, found: text }, value) });
    } else if (value !== undefined) {
      const result = read(request, { subject: name, origin, value });
      found.push(result.state === "broken" ? { ...result, problem: { ...result.problem, found: quote(text) } } : result);
    }
  }
  return found;
}

/** The one value that all of them mean. */
function agree<T>({ name }: KeyToResolve<T>, found: readonly Resolution<T>[]): Resolution<T> {
  const [first] = found;
  const broken = found.find((resolution) => resolution.state === "broken");
  if (broken !== undefined) return broken;
  if (first?.state !== "given") return { state: "missing" };
  for (const other of found) {
    if (other.state !== "given" || Object.is(other.value, first.value)) continue;
    const expected = `the same ${name} as ${other.subject} (${other.origin}), ${quote(other.value)}`;
    const fix = "make them agree, or remove one";
    return { state: "broken", problem: { subject: first.subject, origin: first.origin, expected, found: quote(first.value), fix } };
  }
  return first;
}

function withWarning<T>(winner: Resolution<T>, loser: Resolution<T>): Resolution<T> {
  if (winner.state !== "given" || loser.state !== "given" || Object.is(winner.value, loser.value)) return winner;
  const ignored = `${loser.subject} (${loser.origin}) says ${quote(loser.value)}`;
  return { ...winner, warning: `${winner.subject} (${winner.origin}) says ${quote(winner.value)} and is used; ${ignored} and is ignored` };
}
