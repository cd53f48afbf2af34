// straggler — in every clock one worker is slow, as machines that are shared are: another one each time, drawn by seed,
// so that every run has the same ones.

import { setTimeout as sleep } from "node:timers/promises";
import { Random } from "weighbridge/testing";

const SEED = 7;
/** How much longer its clock takes. */
export const PAUSE_MS = 25;

/** Returns at once for all workers but one. */
export async function stragglerPause(worker: number, workers: number, clock: number): Promise<void> {
  if (new Random(SEED + clock).below(workers) === worker) await sleep(PAUSE_MS);
}
