// adam — Adam, LazyAdam and AdamW: one formula.
//
//   m' = m + (1-β1)·(g - m)      v' = v + (1-β2)·(g² - v)      w' = w - (lr·c1)·m' / (√v'·c2 + ε)      slots 0, 1: m, v
//
// c1 = 1/(1-β1^t) and c2 = 1/√(1-β2^t). Adam and LazyAdam add decay·w to g; AdamW subtracts (lr·decay)·w beside the
// change instead (multiplied by 1 - lr·decay, rounded to f32, w would miss some per cent of a small decay).
// Which t: a row of Adam and AdamW counts its own updates, so that a row first touched late is corrected as a row first
// touched early was (with one count for all, its first step would be three times as long). A table row has the count in
// the u32 behind its slots. A block has one count of the updates of all its rows, which gives the corrections in hyper;
// once single rows were updated it has a list of their updates as well, and a row's t is stepBase and its entry
// together. LazyAdam uses the t of the parameter, whose corrections come in hyper.
//
//   Adam.M1. A row's own count stops at 2^32 - 1.

import { averaged, averagedSquares, clipped, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

/** [β1^t, β2^t] in f64, from the table that src/kernel/optimizer-kernels.ts describes. */
@inline function betaPowers(table: usize, t: u32): v128 {
  const low = f64x2.mul(v128.load(table + (<usize>(t & 255) << 4)), v128.load(table + (<usize>((t >> 8) & 255) << 4), 4096));
  const high = f64x2.mul(v128.load(table + (<usize>((t >> 16) & 255) << 4), 8192), v128.load(table + (<usize>(t >> 24) << 4), 12288));
  return f64x2.mul(low, high);
}

@inline function counted(pushed: v128, value: v128, bare: bool, decoupled: bool, scale: v128, low: v128, high: v128, decay: v128): v128 {
  return decoupled ? clipped(pushed, bare, scale, low, high) : decayed(pushed, value, bare, scale, low, high, decay);
}

@inline function moved(value: v128, m: v128, v: v128, decoupled: bool, decay: v128, epsilon: v128, step: v128, correction2: v128): v128 {
  const change = f32x4.div(f32x4.mul(step, m), f32x4.add(f32x4.mul(f32x4.sqrt(v), correction2), epsilon));
  return f32x4.sub(value, decoupled ? f32x4.add(f32x4.mul(decay, value), change) : change);
}

@inline function adamSpans(job: Job, hyper: Hyper, bare: bool, decoupled: bool, ownSteps: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, stride = <usize>job.slotStride, powers = <usize>hyper.betaPowers;
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const part1 = splat(1.0 - hyper.beta1), part2 = splat(1.0 - hyper.beta2);
  const decay = splat(decoupled ? hyper.learningRate * hyper.weightDecay : hyper.weightDecay);
  let step = splat(hyper.learningRate * hyper.correction1), correction2 = splat(hyper.correction2);
  const listed = <usize>hyper.rowSteps, base = <u64>hyper.stepBase, increment = <u64>hyper.stepIncrement;
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), m = job.slotsAt(row);
    if (ownSteps) {
      const at = listed == 0 ? m + stride * 2 : listed + (row << 2);
      const counted = min<u64>(<u64>load<u32>(at) + increment, <u64>u32.MAX_VALUE); // Adam.M1
      store<u32>(at, <u32>counted);
      const rest = f64x2.sub(f64x2.splat(1), betaPowers(powers, <u32>min<u64>(counted + base, <u64>u32.MAX_VALUE)));
      step = splat(hyper.learningRate / f64x2.extract_lane(rest, 0));
      correction2 = splat(1.0 / sqrt<f64>(f64x2.extract_lane(rest, 1)));
    }
    const end = w + bytes;
    for (const pairs = w + (bytes & ~31); w < pairs; w += 32, m += 32, g += 32) {
      const value0 = v128.load(w + delta), value1 = v128.load(w + delta, 16);
      const gradient0 = counted(v128.load(g), value0, bare, decoupled, scale, low, high, decay);
      const gradient1 = counted(v128.load(g, 16), value1, bare, decoupled, scale, low, high, decay);
      const first0 = averaged(v128.load(m), gradient0, part1), first1 = averaged(v128.load(m, 16), gradient1, part1);
      const second0 = averagedSquares(v128.load(m + stride), gradient0, part2);
      const second1 = averagedSquares(v128.load(m + stride, 16), gradient1, part2);
      v128.store(m, first0);
      v128.store(m, first1, 16);
      v128.store(m + stride, second0);
      v128.store(m + stride, second1, 16);
      v128.store(w, moved(value0, first0, second0, decoupled, decay, epsilon, step, correction2));
      v128.store(w, moved(value1, first1, second1, decoupled, decay, epsilon, step, correction2), 16);
    }
    while (w < end) {
      const lanes = min<u32>(4, <u32>(end - w) >> 2), value = read(w + delta, lanes);
      const gradient = counted(read(g, lanes), value, bare, decoupled, scale, low, high, decay);
      const first = averaged(read(m, lanes), gradient, part1), second = averagedSquares(read(m + stride, lanes), gradient, part2);
      write(m, first, lanes);
      write(m + stride, second, lanes);
      write(w, moved(value, first, second, decoupled, decay, epsilon, step, correction2), lanes);
      w += <usize>lanes << 2;
      m += <usize>lanes << 2;
      g += <usize>lanes << 2;
    }
  }
}

function bareAdam(job: Job, hyper: Hyper, ownSteps: bool): void {
  adamSpans(job, hyper, true, false, ownSteps);
}

function fullAdam(job: Job, hyper: Hyper, ownSteps: bool): void {
  adamSpans(job, hyper, false, false, ownSteps);
}

function bareAdamW(job: Job, hyper: Hyper, ownSteps: bool): void {
  adamSpans(job, hyper, true, true, ownSteps);
}

function fullAdamW(job: Job, hyper: Hyper, ownSteps: bool): void {
  adamSpans(job, hyper, false, true, ownSteps);
}

export function adamRows(job: Job, hyper: Hyper, ownSteps: bool): void {
  if (isBare(hyper, true)) bareAdam(job, hyper, ownSteps);
  else fullAdam(job, hyper, ownSteps);
}

export function adamWRows(job: Job, hyper: Hyper, ownSteps: bool): void {
  if (isBare(hyper, false)) bareAdamW(job, hyper, ownSteps);
  else fullAdamW(job, hyper, ownSteps);
}
