// initializer — sets the first values of one parameter, on one server. They depend on the seed, the parameter's name
// and the element's index or key alone: equal for any number of servers, and for a row that is pulled before it exists.
//
// Invariants:
//   InitializerKernels.I1 and InitializerKernels.I2 hold as well.
//   Initializer.G1. Parameters of other names or seeds draw from other streams: their values are unrelated.
//   Initializer.G2. The initializer owns its recipe's span until `close`.

import type { Arena } from "../../kernel/arena.ts";
import { INITIALIZER, type InitializerKernels, RECIPE_BYTES, type Recipe, writeRecipe } from "../../kernel/initializer-kernels.ts";
import { type QuantileTable, truncationCut } from "../../kernel/normal-quantiles.ts";
import { type Draw, drawOf } from "./initializer-draw.ts";
import type { ResolvedInitializer } from "./initializer-spec.ts";

/** Behind the recipe: the first index of a span. */
const INDEX_OFFSET = RECIPE_BYTES;
const SPAN_BYTES = RECIPE_BYTES + 8;
const UNIFORM_STEPS = 2 ** 24;

type InitializerTarget = {
  /** The parameter's name. */
  readonly name: string;
  /** Of a tensor; [dim] for a table. */
  readonly shape: readonly number[];
};

export class Initializer {
  readonly spec: ResolvedInitializer;
  /** The address of the recipe; stores pass it to the kernels that make rows. */
  readonly recipe: number;
  readonly kernels: InitializerKernels;
  readonly #arena: Arena;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, kernels: InitializerKernels, quantiles: QuantileTable, spec: ResolvedInitializer, target: InitializerTarget) {
    this.spec = spec;
    this.#arena = arena;
    this.kernels = kernels;
    const draw = drawOf(spec, target.shape);
    const stream = streamOf("seed" in spec ? spec.seed : 0, target.name);
    const table = draw.kind === "normal" || draw.kind === "truncatedNormal" ? quantiles.address : 0;
    this.recipe = arena.allocateState(SPAN_BYTES);
    writeRecipe(arena, this.recipe, recipeOf(draw, stream, table));
  }

  /** Elements of a tensor, flattened: `floatCount` from `firstIndex` (a whole number below 2^53) on. */
  fill(target: number, floatCount: number, firstIndex: number): void {
    const at = (this.recipe + INDEX_OFFSET) / 4;
    this.#arena.words[at] = firstIndex % 2 ** 32;
    this.#arena.words[at + 1] = Math.floor(firstIndex / 2 ** 32);
    this.kernels.initialize(this.recipe, target, floatCount, this.recipe + INDEX_OFFSET);
  }

  close(): void {
    this.#arena.release(this.recipe, SPAN_BYTES);
  }
}

/** The stream of a parameter: a u64 that mixes its seed and the bytes of its name (Initializer.G1). */
export function streamOf(seed: number, name: string): bigint {
  let stream = mix(BigInt(seed) + 0xd415_6625_a93d_5107n);
  for (const byte of new TextEncoder().encode(name)) stream = mix(stream + BigInt(byte) + 1n);
  return stream;
}

function mix(x: bigint): bigint {
  let y = BigInt.asUintN(64, x * 0xb3cd_5540_79c7_1e4fn);
  y = BigInt.asUintN(64, (y ^ (y >> 31n)) * 0x867c_e044_4d03_ada7n);
  return y ^ (y >> 30n);
}

function recipeOf(draw: Draw, stream: bigint, quantiles: number): Recipe {
  const base = { quantiles, stream, top: 0, cut: 0 };
  switch (draw.kind) {
    case "constant":
      return { ...base, kind: INITIALIZER.constant, offset: draw.value, scale: 0 };
    case "uniform": {
      const { low, high } = draw;
      return { ...base, kind: INITIALIZER.uniform, offset: low, scale: (high - low) / UNIFORM_STEPS, top: floatBelow(high) };
    }
    case "normal":
      return { ...base, kind: INITIALIZER.normal, offset: draw.mean, scale: draw.std };
    case "truncatedNormal":
      return { ...base, kind: INITIALIZER.truncatedNormal, offset: draw.mean, scale: draw.std, cut: truncationCut() };
  }
}

/** The greatest float32 below x. */
function floatBelow(x: number): number {
  const float = Math.fround(x);
  if (float < x) return float;
  if (float === 0) return -(2 ** -149);
  const bits = new Int32Array(Float32Array.of(float).buffer);
  bits[0]! += float > 0 ? -1 : 1;
  return new Float32Array(bits.buffer)[0]!;
}
