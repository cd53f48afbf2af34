// lanes — four floats at a time, or the one to three that end a row: an optimizer's formula is written once, for v128,
// and serves both. Lanes beyond the end hold zeros on reading and are not written.
//
// AdaGrad, RMSprop and Adam, which roots and divisions bound, go by pairs of vectors: both are loaded before one is
// stored, at one address and 16 bytes further. An engine that can then computes a pair as one vector of twice the width
// (docs/decisions/0021).

import { Hyper } from "./job.as";

@inline export function splat(x: f64): v128 {
  return f32x4.splat(<f32>x);
}

@inline export function read(address: usize, lanes: u32): v128 {
  if (lanes >= 4) return v128.load(address);
  if (lanes == 1) return v128.load_zero<u32>(address);
  const pair = v128.load_zero<u64>(address);
  return lanes == 2 ? pair : v128.load_lane<u32>(address, pair, 2, 8);
}

@inline export function write(address: usize, x: v128, lanes: u32): void {
  if (lanes >= 4) {
    v128.store(address, x);
  } else if (lanes == 1) {
    v128.store_lane<u32>(address, x, 0);
  } else {
    v128.store_lane<u64>(address, x, 0);
    if (lanes == 3) v128.store_lane<u32>(address, x, 2, 8);
  }
}

/**
 * Whether gradients count as they were pushed: not scaled, clipped or decayed. The kernels have a loop of their own for
 * that, since the steps in between would cost Adam, whose long chain of operations the processor can just about
 * overlap, a quarter of its speed. Of a long loop that is inlined for both cases, each has to be in a function of its
 * own: the compiler folds the arms of an `if` that are alike at that moment, and the one loop that is left asks for
 * every element.
 */
@inline export function isBare(hyper: Hyper, decays: bool): bool {
  return hyper.gradientScale == 1 && hyper.clipValue == f64.POSITIVE_INFINITY && (!decays || hyper.weightDecay == 0);
}

/** The gradient as it counts: scaled, then cut to [low, high]. NaN stays NaN. */
@inline export function clipped(gradient: v128, bare: bool, scale: v128, low: v128, high: v128): v128 {
  return bare ? gradient : f32x4.pmin(f32x4.pmax(f32x4.mul(scale, gradient), low), high);
}

/** The clipped gradient plus decay × value: weight decay as in the classic optimizers of PyTorch. */
@inline export function decayed(gradient: v128, value: v128, bare: bool, scale: v128, low: v128, high: v128, decay: v128): v128 {
  return bare ? gradient : f32x4.add(clipped(gradient, false, scale, low, high), f32x4.mul(decay, value));
}

/**
 * A running average that takes up `part` of x: a + part·(x - a). With β and 1-β as two factors, each rounded to f32,
 * the two would miss 1 together by up to 6e-8, and an average over 1/(1-β) steps would be wrong by 6e-8/(1-β).
 */
@inline export function averaged(average: v128, x: v128, part: v128): v128 {
  return f32x4.add(average, f32x4.mul(part, f32x4.sub(x, average)));
}

/**
 * A running average of squares: a + ((part·g)·g - part·a). The part is taken before the square, as PyTorch does it, so
 * that the average of a large gradient is finite where its square is not: up to 5.8e20 for a part of 0.001, instead of
 * 1.8e19.
 */
@inline export function averagedSquares(average: v128, g: v128, part: v128): v128 {
  return f32x4.add(average, f32x4.sub(f32x4.mul(f32x4.mul(part, g), g), f32x4.mul(part, average)));
}
