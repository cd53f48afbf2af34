// initializer-draw — what an initializer draws for a parameter of some shape: the servers' half of initializer-spec.ts.

import { type Distribution, NORMAL_MAX, type ResolvedInitializer } from "./initializer-spec.ts";

/** What is drawn, once the shape is known. */
export type Draw =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "uniform"; readonly low: number; readonly high: number }
  | { readonly kind: "normal" | "truncatedNormal"; readonly mean: number; readonly std: number };

/** The standard deviation of a standard normal that is cut at ±2. */
const TRUNCATED_STD = 0.8796256610342398;

/** More than any value that it draws, roughly: to tell whether values are large. */
export function greatestDrawn(spec: ResolvedInitializer): number {
  switch (spec.type) {
    case "constant":
      return Math.abs(spec.value);
    case "uniform":
      return Math.max(Math.abs(spec.low), Math.abs(spec.high));
    case "normal":
    case "truncatedNormal":
      return Math.abs(spec.mean) + NORMAL_MAX * spec.std;
    case "xavier":
      return NORMAL_MAX * spec.gain;
    case "he":
      return NORMAL_MAX;
  }
}

/** What a spec means for a parameter of this shape. */
export function drawOf(spec: ResolvedInitializer, shape: readonly number[]): Draw {
  switch (spec.type) {
    case "constant":
      return { kind: "constant", value: spec.value };
    case "uniform":
      return { kind: "uniform", low: spec.low, high: spec.high };
    case "normal":
    case "truncatedNormal":
      return { kind: spec.type, mean: spec.mean, std: spec.std };
    case "xavier": {
      const { fanIn, fanOut } = fansOf(shape);
      return drawOfStd(spec.distribution, spec.gain * Math.sqrt(2 / (fanIn + fanOut)));
    }
    case "he": {
      const { fanIn, fanOut } = fansOf(shape);
      return drawOfStd(spec.distribution, Math.sqrt(2 / (spec.fan === "in" ? fanIn : fanOut)));
    }
  }
}

export function fansOf(shape: readonly number[]): { readonly fanIn: number; readonly fanOut: number } {
  const [first = 1, second = first] = shape;
  const field = shape.slice(2).reduce((product, length) => product * length, 1);
  return { fanIn: second * field, fanOut: first * field };
}

/** Numbers around 0 with this standard deviation. */
function drawOfStd(distribution: Distribution, std: number): Draw {
  if (std === 0) return { kind: "constant", value: 0 };
  if (distribution === "uniform") return { kind: "uniform", low: -std * Math.sqrt(3), high: std * Math.sqrt(3) };
  return { kind: distribution, mean: 0, std: distribution === "normal" ? std : std / TRUNCATED_STD };
}
