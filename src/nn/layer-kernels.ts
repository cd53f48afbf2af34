// layer-kernels — the kernels that layers use of the nn module (kernels/nn/*.as.ts), and the module itself on an arena.
// The sources say what each kernel does; PlainLayerKernels is the reference.
//
// Invariants:
//   LayerKernels.K1. The module has no state and no data: it may share an arena with the kernel module and with other
//       instances of itself.
//   LayerKernels.K2. Without fusing, every kernel equals the reference bit for bit. With it, `multiply` and
//       `multiplyTransposed` round once where the reference rounds twice; all others are still equal.

import type { Arena } from "../kernel/arena.ts";
import { InlinedModule } from "../kernel/inlined-module.ts";
import { FUSED_NN_MODULE, PLAIN_NN_MODULE } from "./nn-module.ts";

/** Flags of the products, the same numbers as in kernels/nn/matrix-product.as.ts. */
export const PRODUCT = { accumulate: 1, firstTransposed: 2 } as const;

/** How much scratch `multiply` needs for this depth. */
export function productScratchBytes(depth: number): number {
  return 128 + 32 * depth;
}

/** Addresses in bytes, counts in floats. Adjacent numbers, against the house rule: this is the WebAssembly boundary. */
export interface LayerKernels {
  /**
   * C[m × n] = A[m × k] · B[k × n]; flags say whether A is stored as [k × m], and whether the product is added to C.
   */
  multiply(m: number, n: number, k: number, a: number, b: number, c: number, flags: number, scratch: number): void;
  /** `multiply`, of rows `from` to `to` of C alone. */
  multiplyRows(
    from: number,
    to: number,
    m: number,
    n: number,
    k: number,
    a: number,
    b: number,
    c: number,
    flags: number,
    scratch: number,
  ): void;
  /** C[m × n] = A[m × k] · Bᵀ, B stored as [n × k]; the flag `accumulate` alone. */
  multiplyTransposed(m: number, n: number, k: number, a: number, b: number, c: number, flags: number): void;

  framePlanes(source: number, planes: number, height: number, width: number, frame: number, target: number): void;
  unframePlanes(source: number, planes: number, height: number, width: number, frame: number, target: number): void;
  unfold(image: number, channels: number, height: number, width: number, size: number, columns: number): void;
  fold(columns: number, channels: number, height: number, width: number, size: number, image: number): void;

  addBiasToRows(matrix: number, rows: number, columns: number, bias: number, isRelu: number): void;
  addBiasToColumns(matrix: number, rows: number, columns: number, bias: number, isRelu: number): void;
  addRowSums(matrix: number, rows: number, columns: number, sums: number): void;
  addColumnSums(matrix: number, rows: number, columns: number, sums: number): void;

  relu(input: number, floatCount: number, output: number): void;
  reluGradient(gradient: number, output: number, floatCount: number, target: number): void;
  sigmoid(input: number, floatCount: number, output: number): void;
  sigmoidGradient(gradient: number, output: number, floatCount: number, target: number): void;

  maxPool(input: number, planes: number, height: number, width: number, size: number, output: number, indexes: number): void;
  maxPoolGradient(gradient: number, indexes: number, planes: number, outFloats: number, inFloats: number, target: number): void;

  softmaxGradient(
    logits: number,
    labels: number,
    rows: number,
    columns: number,
    scale: number,
    gradient: number,
    peaks: number,
    sums: number,
  ): void;

  channelSums(x: number, y: number, samples: number, channels: number, plane: number, sums: number, products: number): void;
  combineChannels(
    x: number,
    y: number,
    samples: number,
    channels: number,
    plane: number,
    a: number,
    b: number,
    shift: number,
    target: number,
  ): void;

  dotOfHalves(rows: number, samples: number, width: number, output: number): void;
  dotOfHalvesGradient(gradient: number, rows: number, samples: number, width: number, target: number): void;

  findOutOfRange(ids: number, idCount: number, rowCount: number): number;
  sumOfRows(table: number, rowCount: number, width: number, ids: number, bagCount: number, bagSize: number, output: number): void;
  addToRows(gradient: number, width: number, ids: number, bagCount: number, bagSize: number, rowCount: number, table: number): void;
}

const FUSED = new InlinedModule(FUSED_NN_MODULE);
const PLAIN = new InlinedModule(PLAIN_NN_MODULE);

/** True when this engine has relaxed SIMD. */
export function canFuse(): boolean {
  return FUSED.isValid;
}

/** The module on this arena's memory: by default the fused build if the engine has relaxed SIMD. */
export function openLayerKernels(arena: Arena, isFused: boolean = canFuse()): LayerKernels {
  return (isFused ? FUSED : PLAIN).instantiate(arena.memory) as unknown as LayerKernels;
}
