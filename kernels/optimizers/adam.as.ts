// adam — Adam, LazyAdam and AdamW: one formula.
//
//   m' = m + (1-β1)·(g - m)      v' = v + (1-β2)·(g² - v)      w' = w - (shrink·w + (lr·c1)·m' / (√v'·c2 + ε))      slots 0, 1: m, v
//
// c1 = 1/(1-β1^t) and c2 = 1/√(1-β2^t). Adam and LazyAdam add decay·w to g; AdamW shrinks w by lr·decay instead
// (subtracted: a factor 1 - lr·decay, rounded to f32, would lose some per cent of a small decay).
// Which t: a table row of Adam and AdamW counts its own updates in the u32 after its slots, so that a row first touched late is corrected as
// a row first touched early was (with one count for all, its first step would be three times as long). Blocks and LazyAdam use the t of
// the parameter, whose corrections come in hyper.
//
// M1. A row's own count stops at 2^32 - 1; from hyper.stepSaturated on, its corrections are 1.

import { averaged, decayed, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

/** base^exponent by squaring: the same operations, and so the same bits, as the plain reference. */
function power(base: f64, exponent: u32): f64 {
  let result: f64 = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) if (exponent & 1) result *= base;
  return result;
}

@inline function adamLanes(
  to: usize, from: usize, gradient: usize, first: usize, second: usize, lanes: u32,
  scale: v128, low: v128, high: v128, decay: v128, shrink: v128,
  part1: v128, part2: v128, epsilon: v128, step: v128, correction2: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, scale, low, high, decay);
  const m = averaged(read(first, lanes), g, part1), v = averaged(read(second, lanes), f32x4.mul(g, g), part2);
  write(first, m, lanes);
  write(second, v, lanes);
  const change = f32x4.div(f32x4.mul(step, m), f32x4.add(f32x4.mul(f32x4.sqrt(v), correction2), epsilon));
  write(to, f32x4.sub(value, f32x4.add(f32x4.mul(shrink, value), change)), lanes);
}

export function adamRows(job: Job, hyper: Hyper, decoupled: bool, ownSteps: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, stride = <usize>job.slotStride;
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const part1 = splat(1.0 - hyper.beta1), part2 = splat(1.0 - hyper.beta2);
  const decay = splat(decoupled ? 0 : hyper.weightDecay), shrink = splat(decoupled ? hyper.learningRate * hyper.weightDecay : 0);
  let step = splat(hyper.learningRate * hyper.correction1), correction2 = splat(hyper.correction2);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), m = job.slotsAt(row);
    if (ownSteps) {
      const count = load<u32>(m + stride * 2), own = count + u32(count != u32.MAX_VALUE), settled = <f64>own >= hyper.stepSaturated; // M1
      store<u32>(m + stride * 2, own);
      step = splat(settled ? hyper.learningRate : hyper.learningRate / (1.0 - power(hyper.beta1, own)));
      correction2 = splat(settled ? 1 : 1.0 / sqrt<f64>(1.0 - power(hyper.beta2, own)));
    }
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, m += 16, g += 16) {
      adamLanes(w, w + delta, g, m, m + stride, 4, scale, low, high, decay, shrink, part1, part2, epsilon, step, correction2);
    }
    if (w < end) {
      const rest = <u32>(end - w) >> 2;
      adamLanes(w, w + delta, g, m, m + stride, rest, scale, low, high, decay, shrink, part1, part2, epsilon, step, correction2);
      g += end - w;
    }
  }
}
