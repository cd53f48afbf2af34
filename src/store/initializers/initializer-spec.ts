// initializer-spec — an initializer as users write it, its defaults and checks. The numbers that follow from a
// parameter's shape: initializer-draw.ts.
//
//   type              fields                                                       values
//   constant          value 0                                                      value
//   uniform           low -0.05, high 0.05                                         in [low, high)
//   normal            mean 0, std 0.05                                             normal
//   truncatedNormal   mean 0, std 0.05                                             normal, within 2 std of the mean
//   xavier            distribution "uniform", gain 1                               variance gain² · 2/(fanIn + fanOut)
//   he                distribution "normal", fan "in"                              variance 2/fan
//
// All but constant take a seed (0). A shape is [out, in, …], as in PyTorch: fanIn is the product of all but the first,
// fanOut that of all but the second; a shape of one number has both fans equal to it. A table's shape is [dim]. A
// resolved spec has every field of its type, in this order: equal specs have equal JSON.

import { badChoice, badField, checkFields } from "../bad-field.ts";

type Seeded = {
  /** A whole number: other seeds give other values, the same seed the same. */
  readonly seed?: number;
};
export type Distribution = "uniform" | "normal" | "truncatedNormal";

export type InitializerSpec =
  | { readonly type: "constant"; readonly value?: number }
  | ({ readonly type: "uniform"; readonly low?: number; readonly high?: number } & Seeded)
  | ({ readonly type: "normal" | "truncatedNormal"; readonly mean?: number; readonly std?: number } & Seeded)
  | ({ readonly type: "xavier"; readonly distribution?: Distribution; readonly gain?: number } & Seeded)
  | ({ readonly type: "he"; readonly distribution?: Distribution; readonly fan?: "in" | "out" } & Seeded);

/** A spec with every field of its type. */
export type ResolvedInitializer =
  | { readonly type: "constant"; readonly value: number }
  | { readonly type: "uniform"; readonly low: number; readonly high: number; readonly seed: number }
  | { readonly type: "normal" | "truncatedNormal"; readonly mean: number; readonly std: number; readonly seed: number }
  | { readonly type: "xavier"; readonly distribution: Distribution; readonly gain: number; readonly seed: number }
  | { readonly type: "he"; readonly distribution: Distribution; readonly fan: "in" | "out"; readonly seed: number };

const FIELDS: Readonly<Record<string, readonly string[]>> = {
  constant: ["value"],
  uniform: ["low", "high", "seed"],
  normal: ["mean", "std", "seed"],
  truncatedNormal: ["mean", "std", "seed"],
  xavier: ["distribution", "gain", "seed"],
  he: ["distribution", "fan", "seed"],
};
const DISTRIBUTIONS: readonly Distribution[] = ["uniform", "normal", "truncatedNormal"];
const FLOAT32_MAX = 3.4028234663852886e38;
/** No normal value is further from the mean than this many standard deviations. */
export const NORMAL_MAX = 7;

/** Checks a spec and sets its defaults. Throws BAD_ARGUMENT, naming the field, the expected and the actual value. */
export function resolveInitializer(spec: InitializerSpec, path = "init"): ResolvedInitializer {
  if (typeof spec !== "object" || spec === null) throw badField(path, "an object with a type", spec);
  const fields = spec as Readonly<Record<string, unknown>>;
  const type = fields.type as InitializerSpec["type"];
  const known = Object.hasOwn(FIELDS, String(type)) ? FIELDS[type] : undefined;
  if (known === undefined) throw badChoice(`${path}.type`, Object.keys(FIELDS), fields.type);
  checkFields(path, fields, ["type", ...known], type);
  const seed = seedOf(`${path}.seed`, fields.seed);
  switch (type) {
    case "constant":
      return { type, value: float(`${path}.value`, fields.value, 0) };
    case "uniform": {
      const low = float(`${path}.low`, fields.low, -0.05);
      const high = float(`${path}.high`, fields.high, 0.05);
      if (Math.fround(high) <= Math.fround(low)) throw badField(`${path}.high`, `a float32 above low, which is ${low}`, high);
      if (high - low > FLOAT32_MAX) throw badField(`${path}.high`, `a range that float32 can hold, from ${low} on`, high);
      return { type, low, high, seed };
    }
    case "normal":
    case "truncatedNormal": {
      const mean = float(`${path}.mean`, fields.mean, 0);
      const std = notNegative(`${path}.std`, fields.std, 0.05);
      if (Math.abs(mean) + NORMAL_MAX * std > FLOAT32_MAX) throw badField(`${path}.std`, `mean ± ${NORMAL_MAX} std within float32`, std);
      return { type, mean, std, seed };
    }
    case "xavier": {
      const distribution = oneOf(`${path}.distribution`, fields.distribution ?? "uniform", DISTRIBUTIONS);
      return { type, distribution, gain: notNegative(`${path}.gain`, fields.gain, 1), seed };
    }
    case "he": {
      const distribution = oneOf(`${path}.distribution`, fields.distribution ?? "normal", DISTRIBUTIONS);
      return { type, distribution, fan: oneOf(`${path}.fan`, fields.fan ?? "in", ["in", "out"]), seed };
    }
  }
}

function float(path: string, value: unknown, initial: number): number {
  if (value === undefined) return initial;
  if (typeof value === "number" && Math.abs(value) <= FLOAT32_MAX) return value;
  throw badField(path, "a number that float32 can hold", value);
}

function notNegative(path: string, value: unknown, initial: number): number {
  const checked = float(path, value, initial);
  if (checked >= 0) return checked;
  throw badField(path, "a number of at least 0", value);
}

function seedOf(path: string, value: unknown): number {
  if (value === undefined) return 0;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  throw badField(path, "a whole number from 0 to 2^53 - 1", value);
}

function oneOf<T extends string>(path: string, value: unknown, names: readonly T[]): T {
  const found = names.find((name) => name === value);
  if (found !== undefined) return found;
  throw badChoice(path, names, value);
}
