// initializer-spec — an initializer as users write it, its defaults and checks. The numbers that follow from a
// parameter's shape: initializer-draw.ts.
//
//   type              fields                                                       values
//   constant          value 0                                                      value
//   uniform           low -0.05, high 0.05                                         in [low, high)
//   normal            mean 0, std 0.05                                             normal
//   truncatedNormal   mean 0, std 0.05                                             normal, within 2 std of the mean
//   xavier            distribution "uniform", gain 1, fanIn, fanOut                variance gain² · 2/(fanIn + fanOut)
//   he                distribution "normal", fan "in", fanIn, fanOut               variance 2/fan
//
// All but constant take a seed (0). A shape is [out, in, …], as in PyTorch: fanIn is the product of all but the first,
// fanOut that of all but the second; a shape of one number has both fans equal to it. A table's shape is [dim]. A
// resolved spec has every field of its type, in this order: equal specs have equal JSON.
//
// Users of another order, [in, out] in TensorFlow and jax, give the fans. They fix the variance without the shape, so
// such a spec resolves to the uniform, normal or truncatedNormal that he or xavier is: a resolved spec has no fans, and
// the wire carries none.

import { badArgument } from "../../base/errors.ts";
import { badField, checkChoice, checkFields, checkNumber } from "../bad-field.ts";

/** What every initializer that draws numbers may have. */
export type Seeded = {
  /** A whole number: other seeds give other values, the same seed the same. */
  readonly seed?: number | undefined;
};
/** How random values are distributed; truncatedNormal stays within 2 standard deviations. */
export type Distribution = "uniform" | "normal" | "truncatedNormal";
/** What initializers may have whose variance follows from the fans. */
export type Fans = {
  /** How many inputs an output has. Default: by the shape, which is read as [out, in, …]. */
  readonly fanIn?: number | undefined;
  /** How many outputs an input has. Default: by the shape, as `fanIn`. */
  readonly fanOut?: number | undefined;
};

/** How the elements of a parameter begin. `xavier` (Glorot) and `he` (Kaiming) read a shape as [out, in, …]. */
export type InitializerSpec =
  | {
      readonly type: "constant";
      /** What every element begins with. Defaults to 0. */
      readonly value?: number | undefined;
    }
  | ({
      readonly type: "uniform";
      /** The least value. Defaults to -0.05. */
      readonly low?: number | undefined;
      /** What all values are below. Defaults to 0.05. */
      readonly high?: number | undefined;
    } & Seeded)
  | ({
      readonly type: "normal" | "truncatedNormal";
      /** Defaults to 0. */
      readonly mean?: number | undefined;
      /** The standard deviation. Defaults to 0.05. */
      readonly std?: number | undefined;
    } & Seeded)
  | ({
      readonly type: "xavier";
      /** Defaults to "uniform". */
      readonly distribution?: Distribution | undefined;
      /** What the values are multiplied with. Defaults to 1. */
      readonly gain?: number | undefined;
    } & Fans &
      Seeded)
  | ({
      readonly type: "he";
      /** Defaults to "normal". */
      readonly distribution?: Distribution | undefined;
      /** By which fan the variance is divided. Defaults to "in". */
      readonly fan?: "in" | "out" | undefined;
    } & Fans &
      Seeded);

/** An initializer with every field of its type, as servers have it. The fields are those of `InitializerSpec`. */
export type ResolvedInitializer =
  | { readonly type: "constant"; readonly value: number }
  | { readonly type: "uniform"; readonly low: number; readonly high: number; readonly seed: number }
  | { readonly type: "normal" | "truncatedNormal"; readonly mean: number; readonly std: number; readonly seed: number }
  | { readonly type: "xavier"; readonly distribution: Distribution; readonly gain: number; readonly seed: number }
  | { readonly type: "he"; readonly distribution: Distribution; readonly fan: "in" | "out"; readonly seed: number };

const FIELDS: Readonly<Record<InitializerSpec["type"], readonly string[]>> = {
  constant: ["value"],
  uniform: ["low", "high", "seed"],
  normal: ["mean", "std", "seed"],
  truncatedNormal: ["mean", "std", "seed"],
  xavier: ["distribution", "gain", "seed"],
  he: ["distribution", "fan", "seed"],
};
const FAN_FIELDS: readonly string[] = ["fanIn", "fanOut"];
const TYPES = Object.keys(FIELDS) as InitializerSpec["type"][];
const DISTRIBUTIONS: readonly Distribution[] = ["uniform", "normal", "truncatedNormal"];
const FLOAT32_MAX = 3.4028234663852886e38;
/** No normal value is further from the mean than this many standard deviations. */
export const NORMAL_MAX = 7;

/** Checks a spec and sets its defaults. Throws BAD_ARGUMENT, naming the field, the expected and the actual value. */
export function resolveInitializer(spec: InitializerSpec, path = "init"): ResolvedInitializer {
  if (typeof spec !== "object" || spec === null) throw badField(path, "an object with a type", spec);
  const fields = spec as Readonly<Record<string, unknown>>;
  const type = checkChoice(`${path}.type`, fields.type, TYPES);
  const known = ["type", ...FIELDS[type]];
  checkFields(path, fields, type === "xavier" || type === "he" ? [...known, ...FAN_FIELDS] : known, type);
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
      const distribution = checkChoice(`${path}.distribution`, fields.distribution ?? "uniform", DISTRIBUTIONS);
      const gain = notNegative(`${path}.gain`, fields.gain, 1);
      const [fanIn, fanOut] = FAN_FIELDS.map((name) => fanOf(`${path}.${name}`, fields[name]));
      if (fanIn === undefined && fanOut === undefined) return { type, distribution, gain, seed };
      if (fanIn === undefined || fanOut === undefined) throw badArgument(`${path}: xavier needs both fanIn and fanOut, or neither`);
      return ofStd(distribution, gain * Math.sqrt(2 / (fanIn + fanOut)), seed);
    }
    case "he": {
      const distribution = checkChoice(`${path}.distribution`, fields.distribution ?? "normal", DISTRIBUTIONS);
      const fan = checkChoice(`${path}.fan`, fields.fan ?? "in", ["in", "out"]);
      const [used, unused] = fan === "in" ? (["fanIn", "fanOut"] as const) : (["fanOut", "fanIn"] as const);
      if (fields[unused] !== undefined) throw badArgument(`${path}: he with fan "${fan}" reads ${used}, not ${unused}`);
      const given = fanOf(`${path}.${used}`, fields[used]);
      return given === undefined ? { type, distribution, fan, seed } : ofStd(distribution, Math.sqrt(2 / given), seed);
    }
  }
}

/** An initializer as the wire and checkpoints have it: without fans. Throws BAD_ARGUMENT. */
export function decodeInitializer(value: unknown, path: string): ResolvedInitializer {
  const resolved = resolveInitializer(value as InitializerSpec, path);
  const fan = FAN_FIELDS.find((name) => name in (value as object));
  if (fan !== undefined) throw badField(`${path}.${fan}`, "no such field", (value as Readonly<Record<string, unknown>>)[fan]);
  return resolved;
}

/** The standard deviation of a standard normal that is cut at ±2. */
const TRUNCATED_STD = 0.8796256610342398;

/** Numbers around 0 with this standard deviation. */
export function ofStd(distribution: Distribution, std: number, seed: number): ResolvedInitializer {
  if (std === 0) return { type: "constant", value: 0 };
  if (distribution === "uniform") return { type: "uniform", low: -std * Math.sqrt(3), high: std * Math.sqrt(3), seed };
  return { type: distribution, mean: 0, std: distribution === "normal" ? std : std / TRUNCATED_STD, seed };
}

function fanOf(path: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  return checkNumber(path, value, "a whole number from 1 up", (fan) => Number.isSafeInteger(fan) && fan >= 1);
}

function float(path: string, value: unknown, initial: number): number {
  if (value === undefined) return initial;
  return checkNumber(path, value, "a number that float32 can hold", (number) => Math.abs(number) <= FLOAT32_MAX);
}

function notNegative(path: string, value: unknown, initial: number): number {
  return checkNumber(path, float(path, value, initial), "a number of at least 0", (number) => number >= 0);
}

function seedOf(path: string, value: unknown = 0): number {
  return checkNumber(path, value, "a whole number from 0 to 2^53 - 1", (seed) => Number.isSafeInteger(seed) && seed >= 0);
}
