// adagrad — optimizers that divide by the root of squares: AdaGrad, row-wise AdaGrad, RMSprop without and with momentum.
//
//   AdaGrad      s' = s + g²                w' = w - lr·g / (√s' + ε)                           slot 0: s
//   row-wise     s' = s + mean of g²        w' = w - (lr / (√s' + ε))·g                         one float for the whole row: s
//   RMSprop      s' = s + (1-α)·(g² - s)    w' = w - lr·g / (√s' + ε)                           slot 0: s, α is beta2
//   … momentum   … b' = μ·b + g/(√s' + ε)   w' = w - lr·b'                                      slot 1: b, μ is beta1
//
// The mean of a row is summed in f64, in four lanes: element j goes to lane j mod 4, and the lanes are added as (0 + 2) + (1 + 3).

import { averaged, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";
import { sgdLanes } from "./sgd.as";

/** RMSprop forgets old squares, AdaGrad keeps all. */
@inline function squareLanes(
  to: usize, from: usize, gradient: usize, squares: usize, lanes: u32, bare: bool,
  scale: v128, low: v128, high: v128, decay: v128, rate: v128, epsilon: v128, forgets: bool, part: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, bare, scale, low, high, decay), before = read(squares, lanes);
  const square = f32x4.mul(g, g), sum = forgets ? averaged(before, square, part) : f32x4.add(before, square);
  write(squares, sum, lanes);
  write(to, f32x4.sub(value, f32x4.div(f32x4.mul(rate, g), f32x4.add(f32x4.sqrt(sum), epsilon))), lanes);
}

@inline function squareSpans(job: Job, hyper: Hyper, bare: bool, forgets: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, decay = splat(hyper.weightDecay), rate = splat(hyper.learningRate);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const part = splat(1.0 - hyper.beta2);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), s = job.slotsAt(row);
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, s += 16, g += 16) {
      squareLanes(w, w + delta, g, s, 4, bare, scale, low, high, decay, rate, epsilon, forgets, part);
    }
    if (w < end) {
      squareLanes(w, w + delta, g, s, <u32>(end - w) >> 2, bare, scale, low, high, decay, rate, epsilon, forgets, part);
      g += end - w;
    }
  }
}

export function adagradRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) squareSpans(job, hyper, true, false);
  else squareSpans(job, hyper, false, false);
}

export function rmspropRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) squareSpans(job, hyper, true, true);
  else squareSpans(job, hyper, false, true);
}

@inline function rmspropMomentumLanes(
  to: usize, from: usize, gradient: usize, squares: usize, velocity: usize, lanes: u32, bare: bool,
  scale: v128, low: v128, high: v128, decay: v128, rate: v128, epsilon: v128, part: v128, momentum: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, bare, scale, low, high, decay);
  const sum = averaged(read(squares, lanes), f32x4.mul(g, g), part);
  const v = f32x4.add(f32x4.mul(momentum, read(velocity, lanes)), f32x4.div(g, f32x4.add(f32x4.sqrt(sum), epsilon)));
  write(squares, sum, lanes);
  write(velocity, v, lanes);
  write(to, f32x4.sub(value, f32x4.mul(rate, v)), lanes);
}

@inline function rmspropMomentumSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, stride = <usize>job.slotStride, decay = splat(hyper.weightDecay);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const rate = splat(hyper.learningRate), part = splat(1.0 - hyper.beta2), momentum = splat(hyper.beta1);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), s = job.slotsAt(row);
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, s += 16, g += 16) {
      rmspropMomentumLanes(w, w + delta, g, s, s + stride, 4, bare, scale, low, high, decay, rate, epsilon, part, momentum);
    }
    if (w < end) {
      const rest = <u32>(end - w) >> 2;
      rmspropMomentumLanes(w, w + delta, g, s, s + stride, rest, bare, scale, low, high, decay, rate, epsilon, part, momentum);
      g += end - w;
    }
  }
}

export function rmspropMomentumRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) rmspropMomentumSpans(job, hyper, true);
  else rmspropMomentumSpans(job, hyper, false);
}

/** The squares of lanes 0 and 1, in f64. */
@inline function lowSquares(g: v128): v128 {
  const wide = f64x2.promote_low_f32x4(g);
  return f64x2.mul(wide, wide);
}

/** The squares of lanes 2 and 3. */
@inline function highSquares(g: v128): v128 {
  return lowSquares(i32x4.shuffle(g, g, 2, 3, 2, 3));
}

/** The sum of the squares of one row's gradient, as it counts. */
@inline function squaredNorm(from: usize, gradient: usize, bytes: usize, bare: bool, scale: v128, low: v128, high: v128, decay: v128): f64 {
  let lows = f64x2.splat(0), highs = f64x2.splat(0), p: usize = 0;
  for (const quad = bytes & ~15; p < quad; p += 16) {
    const g = decayed(v128.load(gradient + p), v128.load(from + p), bare, scale, low, high, decay);
    lows = f64x2.add(lows, lowSquares(g));
    highs = f64x2.add(highs, highSquares(g));
  }
  if (p < bytes) {
    const rest = <u32>(bytes - p) >> 2, g = decayed(read(gradient + p, rest), read(from + p, rest), bare, scale, low, high, decay);
    lows = f64x2.add(lows, lowSquares(g));
    highs = f64x2.add(highs, highSquares(g));
  }
  const both = f64x2.add(lows, highs);
  return f64x2.extract_lane(both, 0) + f64x2.extract_lane(both, 1);
}

@inline function rowWiseAdagradSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, decay = splat(hyper.weightDecay);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i), s = job.slotsAt(row);
    let w = job.valuesAt(row);
    const sum = load<f32>(s) + <f32>(squaredNorm(w + delta, g, bytes, bare, scale, low, high, decay) / <f64>job.width);
    store<f32>(s, sum);
    const rate = f32x4.splat(<f32>hyper.learningRate / (sqrt<f32>(sum) + <f32>hyper.epsilon)), end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, g += 16) sgdLanes(w, w + delta, g, 4, bare, scale, low, high, decay, rate);
    if (w < end) {
      sgdLanes(w, w + delta, g, <u32>(end - w) >> 2, bare, scale, low, high, decay, rate);
      g += end - w;
    }
  }
}

export function rowWiseAdagradRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) rowWiseAdagradSpans(job, hyper, true);
  else rowWiseAdagradSpans(job, hyper, false);
}
