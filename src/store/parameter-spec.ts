// parameter-spec — what a parameter is, as workers describe and servers compare it: a plain value that JSON preserves.
//
// Invariants:
//   ParameterSpec.P1. A spec from the wire is checked whole before it is used.
//   ParameterSpec.P2. Two specs are equal if every field is. Differences are listed by field, under the names of the
//       options.

import { badArgument, badRequest, showValue, unsupported, WeighbridgeError } from "../base/errors.ts";
import type { ConsistencyMode } from "../consistency/consistency-phases.ts";
import { type LinkEncoding, linkEncoding } from "../wire/codecs/link-encoding.ts";
import { type Check, count, flag, list, object, oneOf, optional, shortText } from "../wire/json-body.ts";
import type { JsonObject } from "../wire/json-value.ts";
import { consistencyText } from "./consistency.ts";
import { decodeInitializer, type ResolvedInitializer } from "./initializers/initializer-spec.ts";
import { checkRowType, type RowTypeSpec, rowTypeShape } from "./row-types/row-type-spec.ts";
import { decodeOptimizer, type ResolvedOptimizer, takesValues } from "./updaters/optimizer-spec.ts";

/** The fields of tensors and tables. */
type CommonSpec = {
  /** Its name in the job. */
  readonly name: string;
  /** How its elements begin. */
  readonly initializer: ResolvedInitializer;
  /** What the servers do with a push. */
  readonly optimizer: ResolvedOptimizer;
  /** async: applied on arrival. sync: collected for each clock, reduced in rank order and applied once. */
  readonly updates: "async" | "sync";
  /** How a sync round becomes one gradient. */
  readonly reduce: "sum" | "mean";
  /** How many clocks a read may be behind; left out: any number. */
  readonly staleness: number | undefined;
  /** How links encode values and keys. Default: as they are. */
  readonly link?: LinkEncoding | undefined;
};

/** A tensor of the job. */
export type TensorSpec = CommonSpec & {
  readonly kind: "tensor";
  /** Its sizes. */
  readonly shape: readonly number[];
};

/** A table of the job, which an embedding stands for. */
export type TableSpec = CommonSpec & {
  readonly kind: "table";
  /** Elements of a row (`dim`). */
  readonly width: number;
  /** A table of fixed size has keys below this; left out, every u64 is one. */
  readonly rows: number | undefined;
  /** Counts the updates of each row, for caches that must not be too far behind. */
  readonly versions: boolean;
  /** What its rows are; left out: f32. */
  readonly rowType?: RowTypeSpec | undefined;
};

/** A parameter of the job, as servers have it. */
export type ParameterSpec = TensorSpec | TableSpec;

/** A parameter as its caller describes it, to make or open it, or by its name alone, to open what is there. */
export type Wanted<S extends ParameterSpec = ParameterSpec> = S | { readonly kind: S["kind"]; readonly name: string };

export function isDescribed<S extends ParameterSpec>(wanted: Wanted<S>): wanted is S {
  return "optimizer" in wanted;
}

/** Throws BAD_ARGUMENT for fields that exclude each other. */
export function checkCombination({
  name,
  optimizer,
  reduce,
  link: encoding,
}: Omit<CommonSpec, "initializer" | "updates" | "staleness">): void {
  if (!takesValues(optimizer)) return;
  const { type } = optimizer;
  if (reduce === "mean") throw badArgument(`${name}: reduce cannot be "mean" with ${type}: the mean of values is none that anybody pushed`);
  if (typeof encoding?.push === "object")
    throw badArgument(`${name}: link encoding: push cannot be top-k with ${type}: what does not travel would count as 0`);
}

const NAME_LENGTH_MAX = 256;
/** The prefix of sums in checkpoints (snapshot/describe-sums.ts): no parameter has such a name. */
export const SUMS_PREFIX = "wb/sums/";
/** A kind as users call it. */
export const KIND_WORDS = { tensor: "tensor", table: "embedding" } as const;

const common = {
  name: shortText(NAME_LENGTH_MAX),
  updates: oneOf("async", "sync"),
  reduce: oneOf("sum", "mean"),
  staleness: optional(count),
  initializer: decodeInitializer as Check<ResolvedInitializer>,
  optimizer: decodeOptimizer as Check<ResolvedOptimizer>,
};
/** Throws BAD_ARGUMENT. */
const link = (kind: "tensor" | "table"): Check<LinkEncoding | undefined> =>
  optional((value, path) => linkEncoding(kind, object({})(value, path) && (value as Partial<LinkEncoding>)));
const tensorFields = object({ kind: oneOf("tensor"), ...common, link: link("tensor"), shape: list(count) });
const sizes = { width: count, rows: optional(count), versions: flag, rowType: rowTypeShape };
const tableFields = object({ kind: oneOf("table"), ...common, link: link("table"), ...sizes });

/** Why this is no name of a parameter; undefined for one. */
export function problemWithName(name: string): string | undefined {
  if (name === "" || name.length > NAME_LENGTH_MAX)
    return `a parameter's name must have 1 to ${NAME_LENGTH_MAX} characters, got ${showValue(name)}`;
  return name.startsWith(SUMS_PREFIX)
    ? `a parameter's name must not begin with ${SUMS_PREFIX}, as the sums of the kv face do in checkpoints, got ${showValue(name)}`
    : undefined;
}

/** ParameterSpec.P1. Throws BAD_REQUEST, or BAD_ARGUMENT for an invalid optimizer, initializer or link. */
export function decodeParameterSpec(json: string): ParameterSpec {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new WeighbridgeError("BAD_REQUEST", "the spec of a parameter is no JSON", { cause });
  }
  const kind = object({ kind: oneOf("tensor", "table") })(value, "spec").kind;
  const spec = kind === "tensor" ? tensorFields(value, "spec") : tableFields(value, "spec");
  checkCombination(spec);
  const problem = problemWithName(spec.name);
  if (problem !== undefined) throw badRequest(problem);
  if (spec.kind === "table" && spec.width === 0) throw badRequest(`the rows of ${spec.name} have no elements`);
  if (spec.kind === "table") checkRowType(spec);
  return spec;
}

/** ParameterSpec.P2. A phrase for each field in which they differ: "optimizer.learningRate is 0.1 and 0.2". */
export function specDifferences(one: ParameterSpec, other: ParameterSpec): readonly string[] {
  const [{ kind }, { kind: otherKind }] = [one, other];
  if (kind !== otherKind) return [`kind is ${KIND_WORDS[kind]} and ${KIND_WORDS[otherKind]}`];
  const [words, otherWords] = [consistencyText(one), consistencyText(other)];
  const consistency = words === otherWords ? [] : [`consistency is ${words} and ${otherWords}`];
  return [...consistency, ...differences(inOptions(one), inOptions(other), "")];
}

/** All fields but kind and consistency, under the names of the options. */
function inOptions(spec: ParameterSpec): Readonly<Record<string, unknown>> {
  const { kind: _kind, updates: _updates, reduce: _reduce, staleness: _staleness, initializer: init, ...rest } = spec;
  if (!("width" in rest)) return { ...rest, init };
  const { width: dim, ...others } = rest;
  return { ...others, init, dim };
}

function differences(one: unknown, other: unknown, path: string): string[] {
  if (Object.is(one, other)) return [];
  if (isRecord(one) && isRecord(other)) {
    const isWhole = Array.isArray(one) && Array.isArray(other);
    const names = new Set([...Object.keys(one), ...Object.keys(other)]);
    const parts = [...names].sort().flatMap((name) => differences(one[name], other[name], path === "" ? name : `${path}.${name}`));
    if (!isWhole || parts.length === 0) return parts;
  }
  return [`${path} is ${show(one)} and ${show(other)}`];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function show(value: unknown): string {
  return value === undefined ? "left out" : JSON.stringify(value);
}

/** In JSON, of requests and checkpoints; training-state.ts reads it. */
export const ANY_STALENESS = "any";

export function encodeStaleness(staleness: number): number | string {
  return staleness === Infinity ? ANY_STALENESS : staleness;
}

export function encodeMode({ updates, reduce, staleness }: ConsistencyMode): JsonObject {
  return { updates, reduce, staleness: encodeStaleness(staleness) };
}

/**
 * A table that counts versions stays "asp": caches of its rows, which may hold updates, do not learn of a change.
 * Throws UNSUPPORTED for that, and BAD_ARGUMENT for a mode that the optimizer excludes.
 */
export function checkChange(spec: ParameterSpec, { updates, reduce, staleness }: ConsistencyMode): void {
  checkCombination({ ...spec, reduce });
  if (spec.kind === "table") checkRowType({ ...spec, reduce });
  if (spec.kind !== "table" || !spec.versions || (updates === "async" && staleness === Infinity)) return;
  const text = `${spec.name} counts versions of its rows for caches, which bound staleness by versions, not clocks: its consistency stays "asp"`;
  throw unsupported(text);
}
