// prepared-rounds — rounds of small keys that come again with the same tensors: their table stays on the card, and a
// round of all of them is one launch. Which rounds those are is decided in worker/level-one/list-rounds.ts.
//
// Invariants:
//   PreparedRounds.P1. The table names tensors whose owner holds them: a place is not another tensor's meanwhile
//       (TensorPlaces.P1). `isCurrent` is false once one of them was freed.

import type { PreparedTasks, ReduceTask } from "../worker/level-one/model-backend.ts";
import type { CudaStream } from "./cuda-stream.ts";
import type { LaunchTable, RoundKernel } from "./round-kernel.ts";
import type { TensorPlaces } from "./tensor-places.ts";

export type PreparedRoundsParts = {
  readonly kernel: RoundKernel;
  readonly tasks: readonly ReduceTask[];
  readonly places: TensorPlaces;
  readonly table: LaunchTable;
  /** Gives the table back. */
  readonly release: (rounds: PreparedRounds) => void;
};

export class PreparedRounds implements PreparedTasks {
  readonly #parts: PreparedRoundsParts;
  /** When all were there. */
  #freeCount: number;

  /** The places of the tasks were checked, and the kernel has written the table. */
  constructor(parts: PreparedRoundsParts) {
    this.#parts = parts;
    this.#freeCount = parts.places.freeCount;
  }

  get isCurrent(): boolean {
    const { places, tasks } = this.#parts;
    if (places.freeCount === this.#freeCount) return true;
    for (const { sources, targets } of tasks) {
      for (const place of sources) if (places.isFreed(place)) return false;
      for (const place of targets) if (places.isFreed(place)) return false;
    }
    this.#freeCount = places.freeCount;
    return true;
  }

  launch(stream: CudaStream): void {
    this.#parts.kernel.launchTable(this.#parts.table, stream);
  }

  close(): void {
    this.#parts.release(this);
  }
}
