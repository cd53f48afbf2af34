// dc-asgd — SGD with delay compensation (Zheng et al. 2017), the adaptive variant DC-ASGD-a: the only published one
// whose λ need not be tuned anew for each stage of a training.
//
//   s' = s + (1-m)·(g² - s)      w' = w - lr·(g + (λ/√(s' + ε))·g²·(w - b))
//
// slot 0: s, slot `backupSlot`: b. m is beta2.
//
// b is what the pushing worker pulled last: what it computed g on. Updates only read it: a worker that pushes twice
// without a pull is later the second time. It lies in slot `backupSlot`, or, of table rows, where a list says
// (hyper.pulledRows). Where nothing is late (a round of sync updates) λ is 0.

import { averagedSquares, decayed, isBare, read, splat, write } from "./lanes.as";
import { Hyper, Job } from "./job.as";

@inline function dcAsgdLanes(
  to: usize, from: usize, gradient: usize, squares: usize, backup: usize, lanes: u32, bare: bool,
  scale: v128, low: v128, high: v128, decay: v128, rate: v128, part: v128, epsilon: v128, lambda: v128,
): void {
  const value = read(from, lanes), g = decayed(read(gradient, lanes), value, bare, scale, low, high, decay);
  const sum = averagedSquares(read(squares, lanes), g, part);
  const late = f32x4.mul(f32x4.mul(g, g), f32x4.sub(value, read(backup, lanes)));
  const compensated = f32x4.add(g, f32x4.mul(f32x4.div(lambda, f32x4.sqrt(f32x4.add(sum, epsilon))), late));
  write(squares, sum, lanes);
  write(to, f32x4.sub(value, f32x4.mul(rate, compensated)), lanes);
}

@inline function dcAsgdSpans(job: Job, hyper: Hyper, bare: bool): void {
  const bytes = <usize>job.width << 2, delta = <usize>job.sourceDelta, decay = splat(hyper.weightDecay), rate = splat(hyper.learningRate);
  const scale = splat(hyper.gradientScale), high = splat(hyper.clipValue), low = f32x4.neg(high), epsilon = splat(hyper.epsilon);
  const part = splat(1.0 - hyper.beta2), lambda = splat(hyper.lambda);
  const inSlot = <usize>job.slotStride * <usize>hyper.backupSlot, pulledRows = <usize>hyper.pulledRows;
  let g: usize = job.gradients;
  for (let i: u32 = 0; i < job.rowCount; i++) {
    const row = job.rowAt(i);
    let w = job.valuesAt(row), s = job.slotsAt(row);
    const end = w + bytes, pulled: usize = pulledRows == 0 ? 0 : load<u32>(pulledRows + (<usize>i << 2));
    const backup = pulled == 0 ? inSlot : pulled - s;
    for (const quad = w + (bytes & ~15); w < quad; w += 16, s += 16, g += 16) {
      dcAsgdLanes(w, w + delta, g, s, s + backup, 4, bare, scale, low, high, decay, rate, part, epsilon, lambda);
    }
    if (w < end) {
      const rest = <u32>(end - w) >> 2;
      dcAsgdLanes(w, w + delta, g, s, s + backup, rest, bare, scale, low, high, decay, rate, part, epsilon, lambda);
      g += end - w;
    }
  }
}

export function dcAsgdRows(job: Job, hyper: Hyper): void {
  if (isBare(hyper, true)) dcAsgdSpans(job, hyper, true);
  else dcAsgdSpans(job, hyper, false);
}
