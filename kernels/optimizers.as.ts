// optimizers — the entries of the server-side updates: one call per message or batch of rows, the choice of optimizer
// outside all loops. The arithmetic is in optimizers/, one file per family; src/kernel/optimizer-kernels.ts says what
// each call means.
//
//   Optimizers.U1. Every element is rounded to f32 after each operation, in the order in which the plain reference has
//       them: no fused multiply-add.
//   Optimizers.U2. Rows are visited in the order of the list; a row that is listed twice is updated twice.

import { adagradRows, rmspropMomentumRows, rmspropRows, rowWiseAdagradRows } from "./optimizers/adagrad.as";
import { adamRows, adamWRows } from "./optimizers/adam.as";
import { dcAsgdRows } from "./optimizers/dc-asgd.as";
import { ftrlRows } from "./optimizers/ftrl.as";
import { Hyper, Job, jobOfBlock, jobOfRows } from "./optimizers/job.as";
import { assignRows, maxRows, minRows, momentumRows, nesterovRows, sgdRows, sumRows } from "./optimizers/sgd.as";

/** The same numbers as OPTIMIZER in src/kernel/optimizer-kernels.ts. */
const SUM: u32 = 0;
const ASSIGN: u32 = 1;
const MIN: u32 = 2;
const MAX: u32 = 3;
const SGD: u32 = 4;
const MOMENTUM: u32 = 5;
const NESTEROV: u32 = 6;
const ADAGRAD: u32 = 7;
const ROW_WISE_ADAGRAD: u32 = 8;
const ADAM: u32 = 9;
const LAZY_ADAM: u32 = 10;
const ADAMW: u32 = 11;
const RMSPROP: u32 = 12;
const RMSPROP_MOMENTUM: u32 = 13;
const FTRL: u32 = 14;
const DC_ASGD: u32 = 15;

/** `ownSteps`: the rows count their updates (job.as). */
function runJob(optimizer: u32, job: Job, hyper: Hyper, ownSteps: bool): void {
  switch (optimizer) {
    case SUM: return sumRows(job, hyper);
    case ASSIGN: return assignRows(job);
    case MIN: return minRows(job);
    case MAX: return maxRows(job);
    case SGD: return sgdRows(job, hyper);
    case MOMENTUM: return momentumRows(job, hyper);
    case NESTEROV: return nesterovRows(job, hyper);
    case ADAGRAD: return adagradRows(job, hyper);
    case ROW_WISE_ADAGRAD: return rowWiseAdagradRows(job, hyper);
    case ADAM: return adamRows(job, hyper, ownSteps);
    case LAZY_ADAM: return adamRows(job, hyper, false);
    case ADAMW: return adamWRows(job, hyper, ownSteps);
    case RMSPROP: return rmspropRows(job, hyper);
    case RMSPROP_MOMENTUM: return rmspropMomentumRows(job, hyper);
    case FTRL: return ftrlRows(job, hyper);
    case DC_ASGD: return dcAsgdRows(job, hyper);
    default: unreachable();
  }
}

/** Rows of a block count steps of their own where there is a list of them. */
@inline function countsRows(optimizer: u32, hyper: Hyper): bool {
  return (optimizer == ADAM || optimizer == ADAMW) && hyper.rowSteps != 0;
}

export function updateRows(optimizer: u32, rows: usize, rowCount: u32, width: u32, gradients: usize, hyper: usize): void {
  runJob(optimizer, jobOfRows(rows, rowCount, width, gradients), changetype<Hyper>(hyper), true);
}

export function updateBlock(
  optimizer: u32, target: usize, source: usize, slots: usize, slotStride: u32, gradients: usize, rowCount: u32, width: u32, hyper: usize,
): void {
  const settings = changetype<Hyper>(hyper), ownSteps = countsRows(optimizer, settings);
  if (optimizer == ROW_WISE_ADAGRAD || ownSteps) {
    const slotStep = ownSteps ? width << 2 : 4;
    runJob(optimizer, jobOfBlock(0, rowCount, width, target, source, slots, slotStep, slotStride, gradients), settings, ownSteps);
    return;
  }
  runJob(optimizer, jobOfBlock(0, 1, rowCount * width, target, source, slots, 0, slotStride, gradients), settings, false);
}

export function updateBlockRows(
  optimizer: u32, values: usize, slots: usize, slotStride: u32, rows: usize, rowCount: u32, width: u32, gradients: usize, hyper: usize,
): void {
  const settings = changetype<Hyper>(hyper), slotStep = optimizer == ROW_WISE_ADAGRAD ? 4 : width << 2;
  const job = jobOfBlock(rows, rowCount, width, values, values, slots, slotStep, slotStride, gradients);
  runJob(optimizer, job, settings, countsRows(optimizer, settings));
}
