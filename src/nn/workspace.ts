// workspace — the memory of a network: an arena, the layers' kernels on it, and the spans that its layers allocated.
// Not a pool: everything is allocated while a network is built and released at once, so that a step allocates nothing.

import { checkOptions } from "../base/known-options.ts";
import { Arena } from "../kernel/arena.ts";
import { DOUBLE_BYTES, FLOAT_BYTES } from "../kernel/elements.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { QuantileTable } from "../kernel/normal-quantiles.ts";
import { SimdKernels } from "../kernel/simd-kernels.ts";
import { type LayerKernels, openLayerKernels } from "./layer-kernels.ts";

/** Address space only; networks for the examples are far smaller. */
const BYTES_DEFAULT = 2 ** 30;

/** Floats in the workspace, and where kernels find them. */
export type FloatSpan = {
  /** @internal Where the first float is, in bytes from the start of the workspace's memory. */
  readonly address: number;
  /** The floats: a view, valid until the workspace is closed. */
  readonly values: Float32Array;
};

export type WorkspaceSpan = { readonly address: number; readonly byteCount: number };

/** @internal How a workspace is made. */
export type WorkspaceOptions = {
  /** @internal An arena to share; one of 1 GiB address space by default. */
  readonly arena?: Arena;
  /** @internal The kernels to use: those that suit the engine by default. */
  readonly openKernels?: (arena: Arena) => LayerKernels;
};

/** The memory of networks, losses and lookups. */
export class Workspace {
  /** @internal */
  readonly arena: Arena;
  /** @internal */
  readonly kernels: LayerKernels;
  /** @internal Sums, copies and zeros of spans. */
  readonly vectors: Pick<Kernels, "add" | "sum" | "axpy" | "copy" | "zero">;
  /** @internal For initializers; created with the first normal number, and kept as long as the arena. */
  readonly quantiles: QuantileTable;
  readonly #spans: WorkspaceSpan[] = [];
  #scratch = 0;
  #scratchBytes = 0;

  /** @internal Users give no options. */
  constructor(options: WorkspaceOptions = {}) {
    checkOptions(options, ["arena", "openKernels"], "the options of a Workspace");
    const { arena = new Arena({ bytesMax: BYTES_DEFAULT }), openKernels = openLayerKernels } = options;
    this.arena = arena;
    this.kernels = openKernels(arena);
    this.vectors = new SimdKernels(arena);
    this.quantiles = new QuantileTable(arena);
  }

  /** Takes memory for this many floats, which are 0. Throws ARENA_FULL. */
  floats(count: number): FloatSpan {
    const address = this.#take(count * FLOAT_BYTES);
    return { address, values: new Float32Array(this.arena.memory.buffer, address, count) };
  }

  /** @internal The same as `floats`, of 64 bits. */
  doubles(count: number): { readonly address: number; readonly values: Float64Array } {
    const address = this.#take(count * DOUBLE_BYTES);
    return { address, values: new Float64Array(this.arena.memory.buffer, address, count) };
  }

  /** @internal For ids, labels and indices, which kernels read as 32-bit words. */
  words(count: number): { readonly address: number; readonly values: Int32Array } {
    const address = this.#take(count * FLOAT_BYTES);
    return { address, values: new Int32Array(this.arena.memory.buffer, address, count) };
  }

  /** @internal Makes sure that `scratch` has at least this many bytes; for layers that are being built. */
  reserveScratch(byteCount: number): void {
    if (byteCount <= this.#scratchBytes) return;
    // The old one stays allocated until `close`: it is small, and a network is built once.
    this.#scratch = this.#take(byteCount);
    this.#scratchBytes = byteCount;
  }

  /** @internal The address of bytes that belong to the running kernel. */
  get scratch(): number {
    return this.#scratch;
  }

  /** Releases all spans; every view of them is invalid from now on. */
  close(): void {
    for (const { address, byteCount } of this.#spans.splice(0)) this.arena.release(address, byteCount);
    this.#scratch = 0;
    this.#scratchBytes = 0;
  }

  /**
   * @internal The values of a parameter of this name, if they lie somewhere already; otherwise the parameter allocates
   * them.
   */
  valuesOf(_name: string): FloatSpan | undefined {
    return undefined;
  }

  /** @internal All that was allocated, in this order. */
  get spans(): readonly WorkspaceSpan[] {
    return this.#spans;
  }

  /** @internal Where the next span lies. */
  protected allocate(byteCount: number): number {
    return this.arena.allocate(byteCount);
  }

  #take(byteCount: number): number {
    const address = this.allocate(byteCount);
    this.#spans.push({ address, byteCount });
    this.vectors.zero(address, byteCount);
    return address;
  }
}
