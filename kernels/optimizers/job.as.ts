// job — which rows an update visits, where their slots and gradients lie, and the hyper-parameters of the step. Not
// arithmetic: each family of optimizers has a file of its own beside this one.
//
//                  values of row r           slot k of row r                      r
//   table rows     r                         r + 4·width + k · 4·width            the address that the list holds
//   block          target                    slots + k · slotStride               0: one span; row-wise: its index
//   block rows     values + r · 4·width      slots + r · slotStep + k · slotStride   the index that the list holds
//
// A row's own count of steps (Adam): table rows behind their two slots, rows of a block in a list of their own
// (hyper.rowSteps), 4·r bytes into it.
//
//   OptimizerJob.J1. The job lies in the arena's first page, or where `useJob` says, and serves one call at a time;
//       nothing in it outlives the call. Threads that share a memory have an instance each, and each instance a job of
//       its own.
//   OptimizerJob.J2. Values are read at `source` and written at the target; the two are the same span, or do not
//       overlap.

import { UPDATE_JOB } from "../layout.as";

let jobAddress: usize = UPDATE_JOB;

/** From now on the jobs of this instance lie there: 40 bytes, at a multiple of 4. */
export function useJob(address: usize): void {
  jobAddress = address;
}

/** A plain struct at an address: see src/kernel/optimizer-kernels.ts for what each field means to whom. */
@unmanaged
export class Hyper {
  learningRate: f64;
  gradientScale: f64;
  clipValue: f64;
  weightDecay: f64;
  epsilon: f64;
  beta1: f64;
  beta2: f64;
  correction1: f64;
  correction2: f64;
  betaPowers: f64;
  l1: f64;
  l2: f64;
  ftrlBeta: f64;
  lambda: f64;
  backupSlot: f64;
  rowSteps: f64;
  stepBase: f64;
  stepIncrement: f64;
  pulledRows: f64;
}

@unmanaged
export class Job {
  /** u32 for each row, 0 for the rows 0, 1, 2 … */
  list: u32;
  rowCount: u32;
  width: u32;
  values: u32;
  valueStep: u32;
  /** Added to the address of a target, gives that of its source (modulo 2^32). */
  sourceDelta: u32;
  slots: u32;
  slotStep: u32;
  slotStride: u32;
  gradients: u32;

  @inline rowAt(index: u32): usize {
    return this.list == 0 ? index : load<u32>(<usize>this.list + (<usize>index << 2));
  }

  @inline valuesAt(row: usize): usize {
    return <usize>this.values + row * <usize>this.valueStep;
  }

  @inline slotsAt(row: usize): usize {
    return <usize>this.slots + row * <usize>this.slotStep;
  }
}

export function jobOfRows(rows: usize, rowCount: u32, width: u32, gradients: usize): Job {
  const job = changetype<Job>(jobAddress), rowBytes = width << 2;
  job.list = <u32>rows;
  job.rowCount = rowCount;
  job.width = width;
  job.values = 0;
  job.valueStep = 1;
  job.sourceDelta = 0;
  job.slots = rowBytes;
  job.slotStep = 1;
  job.slotStride = rowBytes;
  job.gradients = <u32>gradients;
  return job;
}

export function jobOfBlock(
  rows: usize, rowCount: u32, width: u32, target: usize, source: usize, slots: usize, slotStep: u32, slotStride: u32, gradients: usize,
): Job {
  const job = changetype<Job>(jobAddress);
  job.list = <u32>rows;
  job.rowCount = rowCount;
  job.width = width;
  job.values = <u32>target;
  job.valueStep = width << 2;
  job.sourceDelta = <u32>(source - target);
  job.slots = <u32>slots;
  job.slotStep = slotStep;
  job.slotStride = slotStride;
  job.gradients = <u32>gradients;
  return job;
}
