// adam — Adam, LazyAdam and AdamW: one formula.
//
//   m' = m + (1-β1)·(g - m)      v' = v + (1-β2)·(g² - v)      w' = w - (lr·c1)·m' / (√v'·c2 + ε)      slots 0, 1: m, v
//
// c1 = 1/(1-β1^t) and c2 = 1/√(1-β2^t). Adam and LazyAdam add decay·w to g; AdamW subtracts (lr·decay)·w beside the
// change instead (multiplied by 1 - lr·decay, rounded to f32, w would miss some per cent of a small decay).
// Which t: a table row of Adam and AdamW counts its own updates in the u32 after its slots, so that a row first touched late is corrected as
// a row first touched early was (with one count for all, its first step would be three times as long). Blocks and LazyAdam use the t of
// the parameter, whose corrections come in hyper.
//
// M1. A row's own count stops at 2^32 - 1.

import { averaged, clipped, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

/** [β1^t, β2^t] in f64, from the table that src/kernel/beta-powers.ts describes. */
@inline function betaPowers(table: usize, t: u32): v128 {
  const low = f64x2.mul(v128.load(table + (<usize>(t & 255) << 4)), v128.load(table + (<usize>((t >> 8) & 255) << 4), 4096));
  const high = f64x2.mul(v128.load(table + (<usize>((t >> 16) & 255) << 4), 8192), v128.load(table + (<usize>(t >> 24) << 4), 12288));
  return f64x2.mul(low, high);
}

@inline function adamLanes(
  to: usize, from: usize, gradient: usize, first: usize, second: usize, lanes: u32, bare: bool, decoupled: bool,
  scale: v128, low: v128, high: v128, decay: v128,
  part1: v128, part2: v128, epsilon: v128, step: v128, correction2: v128,
): void {
  const value = read(from, lanes), pushed = read(gradient, lanes);
  const g = decoupled ? clipped(pushed, bare, scale, low, high) : decayed(pushed, value, bare, scale, low, high, decay);
  const m = averaged(read(first, lanes), g, part1), v = averaged(read(second, lanes), f32x4.mul(g, g), part2);
  write(first, m, lanes);
  write(second, v, lanes);
  const change = f32x4.div(f32x4.mul(step, m), f32x4.add(f32x4.mul(f32x4.sqrt(v), correction2), epsilon));
  write(to, f32x4.sub(value, decoupled ? f32x4.add(f32x4.mul(decay, value), change) : change), lanes);
}

@inline function adamSpans(job: Job, hyper: Hyper, bare: bool, decoupled: bool, ownSteps: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, stride = <usize>job.slotStride, powers = <usize>hyper.betaPowers;
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const part1 = splat(1.0 - hyper.beta1), part2 = splat(1.0 - hyper.beta2);
  const decay = splat(decoupled ? hyper.learningRate * hyper.weightDecay : hyper.weightDecay);
  let step = splat(hyper.learningRate * hyper.correction1), correction2 = splat(hyper.correction2);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), m = job.slotsAt(row);
    if (ownSteps) {
      const count = load<u32>(m + stride * 2), own = count + u32(count != u32.MAX_VALUE); // M1
      store<u32>(m + stride * 2, own);
      const rest = f64x2.sub(f64x2.splat(1), betaPowers(powers, own));
      step = splat(hyper.learningRate / f64x2.extract_lane(rest, 0));
      correction2 = splat(1.0 / sqrt<f64>(f64x2.extract_lane(rest, 1)));
    }
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, m += 16, g += 16) {
      adamLanes(w, w + delta, g, m, m + stride, 4, bare, decoupled, scale, low, high, decay, part1, part2, epsilon, step, correction2);
    }
    if (w < end) {
      const rest = <u32>(end - w) >> 2;
      adamLanes(w, w + delta, g, m, m + stride, rest, bare, decoupled, scale, low, high, decay, part1, part2, epsilon, step, correction2);
      g += end - w;
    }
  }
}

export function adamRows(job: Job, hyper: Hyper, ownSteps: bool): void {
  if (isBare(hyper, true)) adamSpans(job, hyper, true, false, ownSteps);
  else adamSpans(job, hyper, false, false, ownSteps);
}

export function adamWRows(job: Job, hyper: Hyper, ownSteps: bool): void {
  if (isBare(hyper, false)) adamSpans(job, hyper, true, true, ownSteps);
  else adamSpans(job, hyper, false, true, ownSteps);
}
