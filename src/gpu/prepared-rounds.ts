// prepared-rounds — rounds of small keys that come again with the same tensors: their table stays on the card, and a
// round of all of them is one launch. Which rounds those are is decided in worker/level-one/list-rounds.ts.
//
// Invariants:
//   PreparedRounds.P1. The table names tensors whose owner holds them: a ref is not another tensor's meanwhile
//       (TensorRefs.P1). `isCurrent` is false once one of them was freed.

import type { PreparedTasks, ReduceTask } from "../worker/level-one/model-backend.ts";
import type { CudaStream } from "./cuda-stream.ts";
import type { LaunchTable, RoundKernel } from "./round-kernel.ts";
import type { TensorRefs } from "./tensor-refs.ts";

export type PreparedRoundsParts = {
  readonly kernel: RoundKernel;
  readonly tasks: readonly ReduceTask[];
  readonly refs: TensorRefs;
  readonly table: LaunchTable;
  /** Gives the table back. */
  readonly release: (rounds: PreparedRounds) => void;
};

export class PreparedRounds implements PreparedTasks {
  readonly #parts: PreparedRoundsParts;
  /** When all were there. */
  #freeCount: number;

  /** The refs of the tasks were checked, and the kernel has written the table. */
  constructor(parts: PreparedRoundsParts) {
    this.#parts = parts;
    this.#freeCount = parts.refs.freeCount;
  }

  get isCurrent(): boolean {
    const { refs, tasks } = this.#parts;
    if (refs.freeCount === this.#freeCount) return true;
    for (const { sources, targets } of tasks) {
      for (const ref of sources) if (refs.isFreed(ref)) return false;
      for (const ref of targets) if (refs.isFreed(ref)) return false;
    }
    this.#freeCount = refs.freeCount;
    return true;
  }

  launch(stream: CudaStream): void {
    this.#parts.kernel.launchTable(this.#parts.table, stream);
  }

  close(): void {
    this.#parts.release(this);
  }
}
