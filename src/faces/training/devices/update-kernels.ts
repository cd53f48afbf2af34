// update-kernels — the optimizer kernels of a network that may have devices: what is large is shared among their
// threads (shared-loop.ts) while a training has some. The bits are those of one thread.

import type { Arena } from "../../../kernel/arena.ts";
import { HYPER, type OptimizerKernels, SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { SHARED_FLOATS_MIN, type SharedLoop } from "./shared-loop.ts";

const DOUBLE_BYTES = 8;

/** How other threads are told of a loop. */
export type LoopCrew = { readonly loop: SharedLoop; readonly call: () => void };

export class UpdateKernels extends SimdOptimizerKernels {
  override readonly updateBlock: OptimizerKernels["updateBlock"];
  /** Of the training that is under way, if it has devices. */
  crew: LoopCrew | undefined;

  constructor(arena: Arena) {
    super(arena);
    const { updateBlock } = new SimdOptimizerKernels(arena);
    const doubles = new Float64Array(arena.memory.buffer);
    this.updateBlock = (...block) => {
      const { crew } = this;
      const [rowCount, width, hyper] = [block[6], block[7], block[8]];
      const countsSteps = doubles[hyper / DOUBLE_BYTES + HYPER.rowSteps] !== 0;
      if (crew === undefined || countsSteps || rowCount * width < SHARED_FLOATS_MIN) updateBlock(...block);
      else crew.loop.update(crew.call, ...block);
    };
  }
}
