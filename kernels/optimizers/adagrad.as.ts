// adagrad — optimizers that divide by the root of squares: AdaGrad, row-wise AdaGrad, RMSprop without and with
// momentum.
//
//   AdaGrad      s' = s + g²                w' = w - lr·g / (√s' + ε)        slot 0: s
//   row-wise     s' = s + mean of g²        w' = w - (lr / (√s' + ε))·g      one float for the whole row: s
//   RMSprop      s' = s + (1-α)·(g² - s)    w' = w - lr·g / (√s' + ε)        slot 0: s, α is beta2 (averagedSquares)
//   … momentum   … b' = μ·b + g/(√s' + ε)   w' = w - lr·b'                   slot 1: b, μ is beta1
//
// The mean of a row is summed in f64, in four lanes: element j goes to lane j mod 4, and the lanes are added as (0 + 2)
// + (1 + 3).

import { averagedSquares, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";
import { sgdLanes } from "./sgd.as";

/** RMSprop forgets old squares, AdaGrad keeps all. */
@inline function squaresWith(before: v128, g: v128, forgets: bool, part: v128): v128 {
  return forgets ? averagedSquares(before, g, part) : f32x4.add(before, f32x4.mul(g, g));
}

@inline function moved(value: v128, g: v128, squares: v128, rate: v128, epsilon: v128): v128 {
  return f32x4.sub(value, f32x4.div(f32x4.mul(rate, g), f32x4.add(f32x4.sqrt(squares), epsilon)));
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
    for (const pairs = w + (bytes & ~31); w < pairs; w += 32, s += 32, g += 32) {
      const value0 = v128.load(w + delta), value1 = v128.load(w + delta, 16);
      const gradient0 = decayed(v128.load(g), value0, bare, scale, low, high, decay);
      const gradient1 = decayed(v128.load(g, 16), value1, bare, scale, low, high, decay);
      const squares0 = squaresWith(v128.load(s), gradient0, forgets, part), squares1 = squaresWith(v128.load(s, 16), gradient1, forgets, part);
      v128.store(s, squares0);
      v128.store(s, squares1, 16);
      v128.store(w, moved(value0, gradient0, squares0, rate, epsilon));
      v128.store(w, moved(value1, gradient1, squares1, rate, epsilon), 16);
    }
    while (w < end) {
      const lanes = min<u32>(4, <u32>(end - w) >> 2), value = read(w + delta, lanes);
      const gradient = decayed(read(g, lanes), value, bare, scale, low, high, decay), squares = squaresWith(read(s, lanes), gradient, forgets, part);
      write(s, squares, lanes);
      write(w, moved(value, gradient, squares, rate, epsilon), lanes);
      w += <usize>lanes << 2;
      s += <usize>lanes << 2;
      g += <usize>lanes << 2;
    }
  }
}

function bareAdagrad(job: Job, hyper: Hyper): void {
  squareSpans(job, hyper, true, false);
}

function fullAdagrad(job: Job, hyper: Hyper): void {
  squareSpans(job, hyper, false, false);
}

function bareRmsprop(job: Job, hyper: Hyper): void {
  squareSpans(job, hyper, true, true);
}

function fullRmsprop(job: Job, hyper: Hyper): void {
  squareSpans(job, hyper, false, true);
}

export function adagradRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) bareAdagrad(job, hyper);
  else fullAdagrad(job, hyper);
}

export function rmspropRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) bareRmsprop(job, hyper);
  else fullRmsprop(job, hyper);
}

@inline function rmspropMomentumLanes(
  to: usize, from: usize, gradient: usize, squares: usize, velocity: usize, lanes: u32, bare: bool,
  scale: v128, low: v128, high: v128, decay: v128, rate: v128, epsilon: v128, part: v128, momentum: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, bare, scale, low, high, decay);
  const sum = averagedSquares(read(squares, lanes), g, part);
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
