// gradient-sums — level 1's backend for the devices of a training: the gradients of all parameters are one key, and a
// round of it adds those of the other chunks to those of the first, where they lie, or multiplies the factors that the
// chunks have left (gradient-factors.ts). There is no array of results.
//
//   share      spans of gradients of SHARE_BYTES together, at most, whole rows of a product      any thread does it
//   scratch    of every thread: job of the optimizers | sources
//
// Invariants:
//   GradientSums.G1. Every thread adds chunks in their order (ReduceKernels.D1): the same bits in every run. A
//       product is made chunk by chunk, and added: the bits are those of gradients that are added.
//   GradientSums.G2. There is nothing to hand out: the sum lies where the owner pulls it to.

import { ElementType, WORD_BYTES } from "../../../kernel/elements.ts";
import { type ReduceKernels, simdReduceKernels } from "../../../kernel/reduce-kernels.ts";
import { PRODUCT } from "../../../nn/layer-kernels.ts";
import type { Workspace } from "../../../nn/workspace.ts";
import type { DataRef, KeyPlan, ShareRunner, TaskBackend } from "../../../worker/level-one/model-backend.ts";
import { GradientFactors, type ProductShape } from "./gradient-factors.ts";

const SHARE_BYTES = 2 ** 17;
/** Rows that the kernel makes at a time. */
const TILE_ROWS = 4;
const JOB_BYTES = 64;
/** Gradients are found by their addresses: level 1 only has to know that something was pushed. */
const PUSHED: DataRef = 1;

/** Plain data: it can be posted to another thread. */
export type GradientSpans = {
  /** Floats of each parameter. */
  readonly lengths: readonly number[];
  /** By parameter; undefined if its gradient is no product. */
  readonly products: readonly (ProductShape | undefined)[];
  /** Of GradientFactors. */
  readonly factors: Int32Array;
  /** By chunk, then parameter. */
  readonly addresses: readonly (readonly number[])[];
  /** By thread, which has the number of its device. */
  readonly scratch: readonly number[];
  /** By span: the greatest magnitude of its sums. */
  readonly maxima: Float64Array;
};

type Span = { readonly parameter: number; readonly from: number; readonly byteCount: number; readonly number: number };

/** Of a thread. */
export function scratchWords(chunkCountMax: number): number {
  return JOB_BYTES / WORD_BYTES + chunkCountMax;
}

export function createMaxima(spans: Pick<GradientSpans, "lengths" | "products">): Float64Array {
  const count = sharesOf(spans).flat().length;
  return new Float64Array(new SharedArrayBuffer(count * Float64Array.BYTES_PER_ELEMENT));
}

/** The key of all gradients. */
export function gradientKey(lengths: readonly number[]): Omit<KeyPlan, "index"> {
  const length = lengths.reduce((sum, floatCount) => sum + floatCount, 0);
  return { key: 0, shape: [length], length, resultLength: length, operation: "sum" };
}

export class GradientSums implements TaskBackend<Float32Array> {
  readonly runner: ShareRunner;
  readonly #kernels: ReduceKernels;
  readonly #workspace: Pick<Workspace, "arena" | "kernels" | "scratch">;
  readonly #factors: GradientFactors;
  readonly #words: Uint32Array;
  readonly #sources: number;
  readonly #spans: GradientSpans;
  readonly #chunkCount: () => number;
  readonly #shares: readonly (readonly Span[])[];
  /** By parameter: the numbers of its spans. */
  readonly #numbers: readonly (readonly number[])[];

  /** `workspace`: of the thread's network. `chunkCount`: how many chunks the round has that is summed. */
  constructor(workspace: Pick<Workspace, "arena" | "kernels" | "scratch">, spans: GradientSpans, thread: number, chunkCount: () => number) {
    const { arena } = workspace;
    this.#kernels = simdReduceKernels(arena);
    this.#workspace = workspace;
    this.#factors = new GradientFactors(spans.factors, spans.lengths.length);
    this.#words = arena.words;
    this.#sources = spans.scratch[thread]! + JOB_BYTES;
    this.#spans = spans;
    this.#chunkCount = chunkCount;
    this.#shares = sharesOf(spans);
    const all = this.#shares.flat();
    this.#numbers = spans.lengths.map((_, i) => all.filter(({ parameter }) => parameter === i).map(({ number }) => number));
    this.runner = {
      kind: "shares",
      begin: (_plan, round) => (round > 0 ? this.#shares.length : 1),
      runShare: ({ kind }, share) => {
        if (kind === "reduce") this.#sum(share); // GradientSums.G2
      },
    };
  }

  takePush(): DataRef {
    return PUSHED;
  }

  refOf(): DataRef {
    return PUSHED;
  }

  copyOut(): void {
    // sums are made where they are wanted
  }

  borrowResult(): never {
    throw new Error("gradients are not exchanged"); // a route sends them
  }

  returnResult(): void {
    // none is lent
  }

  /** Of the sums of the last round, by the parameter's position. */
  magnitudeOf(parameter: number): number {
    return this.#numbers[parameter]!.reduce((most, number) => Math.max(most, this.#spans.maxima[number]!), 0);
  }

  /** A span is searched while it is in the cache of the core. */
  #sum(share: number): void {
    const { addresses, maxima, products } = this.#spans;
    const { greatestMagnitude } = this.#workspace.arena.module;
    for (const span of this.#shares[share]!) {
      const { parameter, from, byteCount, number } = span;
      const shape = products[parameter];
      if (shape === undefined) this.#add(span);
      else this.#multiply(span, shape);
      maxima[number] = greatestMagnitude(addresses[0]![parameter]! + from, byteCount / WORD_BYTES);
    }
  }

  #add({ parameter, from, byteCount }: Span): void {
    const { addresses } = this.#spans;
    const count = this.#chunkCount();
    for (let chunk = 0; chunk < count; chunk++) this.#words[this.#sources / WORD_BYTES + chunk] = addresses[chunk]![parameter]!;
    this.#kernels.reduceSpans(ElementType.F32, addresses[0]![parameter]! + from, this.#sources, count, 0, 0, from, byteCount);
  }

  /** Rows of a product. */
  #multiply({ parameter, from, byteCount }: Span, { rows, columns }: ProductShape): void {
    const { kernels, scratch, arena } = this.#workspace;
    const target = this.#spans.addresses[0]![parameter]!;
    const [firstRow, lastRow] = [from, from + byteCount].map((at) => at / (columns * WORD_BYTES)) as [number, number];
    let flags: number = PRODUCT.firstTransposed;
    for (let chunk = 0; chunk < this.#chunkCount(); chunk++) {
      const { outputGradientAt, inputAt, sampleCount } = this.#factors.of(chunk, parameter);
      if (sampleCount === 0) continue;
      kernels.multiplyRows(firstRow, lastRow, rows, columns, sampleCount, outputGradientAt, inputAt, target, flags, scratch);
      flags |= PRODUCT.accumulate;
    }
    if ((flags & PRODUCT.accumulate) === 0) arena.module.zero(target + from, byteCount); // no chunk has samples
  }
}

/**
 * Large gradients are cut, small ones go together. The first parameter comes last: its values are updated first, while
 * its sums are in the caches.
 */
function sharesOf({ lengths, products }: Pick<GradientSpans, "lengths" | "products">): readonly (readonly Span[])[] {
  const shares: Span[][] = [[]];
  let [bytes, number] = [0, 0];
  const end = (): void => {
    shares.push([]);
    bytes = 0;
  };
  for (const [parameter, floatCount] of [...lengths.entries()].reverse()) {
    const whole = floatCount * WORD_BYTES;
    const columns = products[parameter]?.columns;
    const tile = columns === undefined ? WORD_BYTES : TILE_ROWS * columns * WORD_BYTES;
    if (columns !== undefined) end();
    for (let from = 0; from < whole; ) {
      const room = Math.max(tile, Math.floor((SHARE_BYTES - bytes) / tile) * tile);
      const byteCount = Math.min(whole - from, room);
      shares.at(-1)!.push({ parameter, from, byteCount, number: number++ });
      from += byteCount;
      bytes += byteCount;
      if (columns !== undefined || bytes >= SHARE_BYTES) end();
    }
  }
  return shares.filter((spans) => spans.length > 0);
}
