// finite-scan — finds NaN and infinity in a caller's array before it is sent. Long arrays go piece by piece through a
// small span of the worker's arena, where a kernel scans them at memory speed.
//
// Not a policy: the optimizer decides whether to refuse, skip or repair such a gradient.

import type { Arena } from "./arena.ts";
import { FLOAT_BYTES } from "./elements.ts";
import { type OptimizerKernels, SimdOptimizerKernels } from "./optimizer-kernels.ts";
import { floatsOf } from "./row-element.ts";

/** What fits the first two caches beside everything else. */
const PIECE_FLOATS = 16_384;
/** So few that a copy costs more than it saves. */
const SHORT_FLOATS = 1_024;

export class FiniteScan {
  readonly #arena: Arena;
  readonly #kernels: Pick<OptimizerKernels, "checkFinite">;
  /** PIECE_FLOATS floats for as long as the arena lives, taken when they are first needed; 0 before. */
  #piece = 0;

  constructor(arena: Arena) {
    this.#arena = arena;
    this.#kernels = new SimdOptimizerKernels(arena);
  }

  /** The index of the first NaN or infinity, -1 when there is none. Throws ARENA_FULL. */
  firstNotFinite(floats: Float32Array): number {
    if (floats.length <= SHORT_FLOATS) return isFiniteSum(floats) ? -1 : floats.findIndex((value) => !Number.isFinite(value));
    if (this.#piece === 0) this.#piece = this.#arena.allocate(PIECE_FLOATS * FLOAT_BYTES);
    for (let from = 0; from < floats.length; from += PIECE_FLOATS) {
      const piece = floats.subarray(from, from + PIECE_FLOATS);
      this.#arena.floats.set(piece, this.#piece / FLOAT_BYTES);
      const index = this.#kernels.checkFinite(this.#piece, piece.length);
      if (index >= 0) return from + index;
    }
    return -1;
  }
}

/** Sums of f32 in f64 do not overflow: this one is finite exactly when all of them are. */
function isFiniteSum(floats: Float32Array): boolean {
  let total = 0;
  for (let i = 0; i < floats.length; i++) total += floats[i]!;
  return Number.isFinite(total);
}

/** The same for f64 that travel as words. */
export const F64_SCAN: Pick<FiniteScan, "firstNotFinite"> = {
  firstNotFinite: (words) => floatsOf("f64", words).findIndex((value) => !Number.isFinite(value)),
};
