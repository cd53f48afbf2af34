// initializer-draw — what an initializer draws for a parameter of some shape: the servers' half of initializer-spec.ts.

import { NORMAL_MAX, ofStd, type ResolvedInitializer } from "./initializer-spec.ts";

/** What is drawn, once the shape is known. */
export type Draw =
  | { readonly kind: "constant"; readonly value: number }
  | { readonly kind: "uniform"; readonly low: number; readonly high: number }
  | { readonly kind: "normal" | "truncatedNormal"; readonly mean: number; readonly std: number };

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
      return drawOf(ofStd(spec.distribution, spec.gain * Math.sqrt(2 / (fanIn + fanOut)), spec.seed), shape);
    }
    case "he": {
      const { fanIn, fanOut } = fansOf(shape);
      return drawOf(ofStd(spec.distribution, Math.sqrt(2 / (spec.fan === "in" ? fanIn : fanOut)), spec.seed), shape);
    }
  }
}

export function fansOf(shape: readonly number[]): { readonly fanIn: number; readonly fanOut: number } {
  const [first = 1, second = first] = shape;
  const field = shape.slice(2).reduce((product, length) => product * length, 1);
  return { fanIn: second * field, fanOut: first * field };
}
