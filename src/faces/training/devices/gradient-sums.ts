// gradient-sums — level 1's backend for the devices of a training: the gradients of all parameters are one key, and a
// round of it adds those of the other chunks to those of the first, where they lie. There is no array of results.
//
//   share      spans of gradients of SHARE_BYTES together, at most      any thread does it
//   scratch    of every thread: job of the optimizers | sources
//
// Invariants:
//   GradientSums.G1. Chunks are added in their order, whoever does it (ReduceKernels.D1): the same bits every run.
//   GradientSums.G2. There is nothing to hand out: the sum lies where the owner pulls it to.

import type { Arena } from "../../../kernel/arena.ts";
import { ElementType } from "../../../kernel/elements.ts";
import type { OptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { type ReduceKernels, simdReduceKernels } from "../../../kernel/reduce-kernels.ts";
import type { KeyPlan, Place, ShareRunner, TaskBackend } from "../../../worker/level-one/model-backend.ts";

const SHARE_BYTES = 2 ** 17;
const WORD_BYTES = 4;
const JOB_BYTES = 64;
/** Gradients are found by their addresses: level 1 only has to know that something was pushed. */
const PUSHED: Place = 1;

/** Plain data: it can be posted to another thread. */
export type GradientSpans = {
  /** Floats of each parameter. */
  readonly lengths: readonly number[];
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

export function createMaxima(lengths: readonly number[]): Float64Array {
  const count = sharesOf(lengths).flat().length;
  return new Float64Array(new SharedArrayBuffer(count * Float64Array.BYTES_PER_ELEMENT));
}

/** The key of all gradients. */
export function gradientKey(lengths: readonly number[]): Omit<KeyPlan, "index"> {
  const length = lengths.reduce((sum, floatCount) => sum + floatCount, 0);
  return { key: 0, shape: [length], length, resultLength: length, operation: "sum" };
}

export class GradientSums implements TaskBackend<Float32Array> {
  readonly runner: ShareRunner;
  readonly #kernels: ReduceKernels & Pick<OptimizerKernels, "greatestMagnitude">;
  readonly #words: Uint32Array;
  readonly #sources: number;
  readonly #spans: GradientSpans;
  readonly #chunkCount: () => number;
  readonly #shares: readonly (readonly Span[])[];
  /** By parameter: the numbers of its spans. */
  readonly #numbers: readonly (readonly number[])[];

  /** `chunkCount`: how many chunks the round has that is summed. */
  constructor(arena: Arena, spans: GradientSpans, thread: number, chunkCount: () => number) {
    this.#kernels = { ...simdReduceKernels(arena), greatestMagnitude: arena.module.greatestMagnitude };
    this.#words = arena.words;
    this.#sources = spans.scratch[thread]! + JOB_BYTES;
    this.#spans = spans;
    this.#chunkCount = chunkCount;
    this.#shares = sharesOf(spans.lengths);
    const all = this.#shares.flat();
    this.#numbers = spans.lengths.map((_, i) => all.filter(({ parameter }) => parameter === i).map(({ number }) => number));
    this.runner = {
      kind: "shares",
      begin: (_plan, round) => (round > 0 ? this.#shares.length : 1),
      runShare: ({ kind }, share) => {
        if (kind === "reduce") this.#sum(share); // G2
      },
    };
  }

  takePush(): Place {
    return PUSHED;
  }

  placeOf(): Place {
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
    const { addresses, maxima } = this.#spans;
    const count = this.#chunkCount();
    for (const { parameter, from, byteCount, number } of this.#shares[share]!) {
      for (let chunk = 0; chunk < count; chunk++) this.#words[this.#sources / WORD_BYTES + chunk] = addresses[chunk]![parameter]!;
      const result = addresses[0]![parameter]! + from;
      this.#kernels.reduceSpans(ElementType.F32, result, this.#sources, count, 0, 0, from, byteCount);
      maxima[number] = this.#kernels.greatestMagnitude(result, byteCount / WORD_BYTES);
    }
  }
}

/**
 * Large gradients are cut, small ones go together. The first parameter comes last: its values are updated first, while
 * its sums are in the caches.
 */
function sharesOf(lengths: readonly number[]): readonly (readonly Span[])[] {
  const shares: Span[][] = [[]];
  let [bytes, number] = [0, 0];
  for (const [parameter, floatCount] of [...lengths.entries()].reverse()) {
    const whole = floatCount * WORD_BYTES;
    for (let from = 0; from < whole; ) {
      const byteCount = Math.min(whole - from, SHARE_BYTES - bytes);
      shares.at(-1)!.push({ parameter, from, byteCount, number: number++ });
      from += byteCount;
      bytes += byteCount;
      if (bytes < SHARE_BYTES) continue;
      shares.push([]);
      bytes = 0;
    }
  }
  return shares.filter((spans) => spans.length > 0);
}
