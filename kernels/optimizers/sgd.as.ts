// sgd — optimizers without squares of gradients: sum, SGD, Momentum, Nesterov, and what only sets, lowers or raises
// values.
//
//   sum        w' = w + g                                              neither decays nor has a rate
//   SGD        w' = w - lr·g
//   Momentum   v' = μ·v + g           w' = w - lr·v'                   slot 0: v, μ is beta1
//   Nesterov   v' = μ·v + g           w' = w - lr·(g + μ·v')
//   assign, min, max                  w' = g, min(w, g), max(w, g)     the gradient as pushed: not scaled, clipped or
//                                                                      decayed
//
// The rate stands outside of v (PyTorch's way, not Hetu's): a new rate counts in full from its first step.

import { clipped, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

@inline function sumLanes(to: usize, from: usize, gradient: usize, lanes: u32, bare: bool, scale: v128, low: v128, high: v128): void {
  write(to, f32x4.add(read(from, lanes), clipped(read(gradient, lanes), bare, scale, low, high)), lanes);
}

@inline function sumSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta;
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    let w = job.valuesAt(job.rowAt(i));
    const end = w + bytes;
    for (const wide = w + (bytes & ~31); w < wide; w += 32, g += 32) {
      sumLanes(w, w + delta, g, 4, bare, scale, low, high);
      sumLanes(w + 16, w + delta + 16, g + 16, 4, bare, scale, low, high);
    }
    for (const quad = w + ((end - w) & ~15); w < quad; w += 16, g += 16) sumLanes(w, w + delta, g, 4, bare, scale, low, high);
    if (w < end) {
      sumLanes(w, w + delta, g, <u32>(end - w) >> 2, bare, scale, low, high);
      g += end - w;
    }
  }
}

export function sumRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, false)) sumSpans(job, hyper, true);
  else sumSpans(job, hyper, false);
}

@inline export function sgdLanes(
  to: usize, from: usize, gradient: usize, lanes: u32, bare: bool, scale: v128, low: v128, high: v128, decay: v128, rate: v128,
): void {
  const value = read(from, lanes);
  write(to, f32x4.sub(value, f32x4.mul(rate, decayed(read(gradient, lanes), value, bare, scale, low, high, decay))), lanes);
}

@inline function sgdSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, decay = splat(hyper.weightDecay), rate = splat(hyper.learningRate);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    let w = job.valuesAt(job.rowAt(i));
    const end = w + bytes;
    for (const wide = w + (bytes & ~31); w < wide; w += 32, g += 32) {
      sgdLanes(w, w + delta, g, 4, bare, scale, low, high, decay, rate);
      sgdLanes(w + 16, w + delta + 16, g + 16, 4, bare, scale, low, high, decay, rate);
    }
    for (const quad = w + ((end - w) & ~15); w < quad; w += 16, g += 16) sgdLanes(w, w + delta, g, 4, bare, scale, low, high, decay, rate);
    if (w < end) {
      sgdLanes(w, w + delta, g, <u32>(end - w) >> 2, bare, scale, low, high, decay, rate);
      g += end - w;
    }
  }
}

export function sgdRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) sgdSpans(job, hyper, true);
  else sgdSpans(job, hyper, false);
}

@inline function momentumLanes(
  to: usize, from: usize, gradient: usize, velocity: usize, lanes: u32, bare: bool, nesterov: bool,
  scale: v128, low: v128, high: v128, decay: v128, rate: v128, momentum: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, bare, scale, low, high, decay);
  const v = f32x4.add(f32x4.mul(momentum, read(velocity, lanes)), g);
  write(velocity, v, lanes);
  write(to, f32x4.sub(value, f32x4.mul(rate, nesterov ? f32x4.add(g, f32x4.mul(momentum, v)) : v)), lanes);
}

@inline function momentumSpans(job: Job, hyper: Hyper, bare: bool, nesterov: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, decay = splat(hyper.weightDecay), rate = splat(hyper.learningRate);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), momentum = splat(hyper.beta1);
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), v = job.slotsAt(row);
    const end = w + bytes;
    for (const wide = w + (bytes & ~31); w < wide; w += 32, v += 32, g += 32) {
      momentumLanes(w, w + delta, g, v, 4, bare, nesterov, scale, low, high, decay, rate, momentum);
      momentumLanes(w + 16, w + delta + 16, g + 16, v + 16, 4, bare, nesterov, scale, low, high, decay, rate, momentum);
    }
    for (const quad = w + ((end - w) & ~15); w < quad; w += 16, v += 16, g += 16) {
      momentumLanes(w, w + delta, g, v, 4, bare, nesterov, scale, low, high, decay, rate, momentum);
    }
    if (w < end) {
      momentumLanes(w, w + delta, g, v, <u32>(end - w) >> 2, bare, nesterov, scale, low, high, decay, rate, momentum);
      g += end - w;
    }
  }
}

export function momentumRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) momentumSpans(job, hyper, true, false);
  else momentumSpans(job, hyper, false, false);
}

export function nesterovRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) momentumSpans(job, hyper, true, true);
  else momentumSpans(job, hyper, false, true);
}

export function assignRows(job: Job): void {
  const bytes = <usize>job.width << 2;
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++, g += bytes) memory.copy(job.valuesAt(job.rowAt(i)), g, bytes);
}

@inline function extremeLanes(to: usize, from: usize, gradient: usize, lanes: u32, greatest: bool): void {
  const value = read(from, lanes), pushed = read(gradient, lanes);
  write(to, greatest ? f32x4.max(value, pushed) : f32x4.min(value, pushed), lanes);
}

@inline function extremeSpans(job: Job, greatest: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta;
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    let w = job.valuesAt(job.rowAt(i));
    const end = w + bytes;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, g += 16) extremeLanes(w, w + delta, g, 4, greatest);
    if (w < end) {
      extremeLanes(w, w + delta, g, <u32>(end - w) >> 2, greatest);
      g += end - w;
    }
  }
}

export function minRows(job: Job): void {
  extremeSpans(job, false);
}

export function maxRows(job: Job): void {
  extremeSpans(job, true);
}
