// device-control — what the owner of a training and the threads of its devices tell each other in every step, in shared
// memory: the samples and their chunks (chunks.ts), who computes which, and the losses. Gradients are level 1's
// (gradient-sums.ts).
//
//   words     step | samples | chunks | claim: step << 12 | chunks left | chunks done | step that is summed    i32
//   numbers   divisor | loss of each chunk                                                                     f64
//
// Invariants:
//   DeviceControl.D1. The owner writes everything else before it lets chunks be claimed, or raises `step`. Nobody
//       writes what another may still read: a step begins after the one before is summed, which is after all its
//       chunks.
//   DeviceControl.D2. A chunk is computed once: by the device of its number, or by the one that has claimed it.

import { assert } from "../../../base/assert.ts";
import { type Chunk, chunksOf, type Dealing } from "./chunks.ts";

/** Plain data: it can be posted to another thread. */
export type ControlMemory = {
  readonly words: Int32Array;
  readonly numbers: Float64Array;
  readonly deviceCount: number;
  readonly dealing: Dealing;
};

const STEP = 0;
const SAMPLES = 1;
const CHUNKS = 2;
const CLAIM = 3;
const DONE = 4;
const SUMMED = 5;
const WORDS = 6;
const LOSSES = 1;
const LEFT_BITS = 12;
const LEFT_MASK = 2 ** LEFT_BITS - 1;

/** There is no chunk for this thread. */
export const NO_CHUNK = -1;

export function createControlMemory(deviceCount: number, dealing: Dealing): ControlMemory {
  assert(dealing.chunkCountMax <= LEFT_MASK, `${dealing.chunkCountMax} chunks are too many`);
  return {
    words: new Int32Array(new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT)),
    numbers: new Float64Array(new SharedArrayBuffer((LOSSES + dealing.chunkCountMax) * Float64Array.BYTES_PER_ELEMENT)),
    ...{ deviceCount, dealing },
  };
}

export class DeviceControl {
  readonly #memory: ControlMemory;
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;
  readonly #device: number;
  /** The step whose own chunk this device has begun. */
  #step = 0;
  /** By number of samples: units of one size are dealt alike, so there are few. */
  readonly #chunks = new Map<number, readonly Chunk[]>();

  constructor(memory: ControlMemory, device: number) {
    this.#memory = memory;
    this.#words = memory.words;
    this.#numbers = memory.numbers;
    this.#device = device;
  }

  /** The owner deals the samples of a unit and lets all devices begin (DeviceControl.D1). */
  begin(sampleCount: number, divisor: number): void {
    const words = this.#words;
    const step = Atomics.load(words, STEP) + 1;
    const { length } = this.#chunksOf(sampleCount);
    this.#numbers[0] = divisor;
    words[SAMPLES] = sampleCount;
    words[CHUNKS] = length;
    Atomics.store(words, DONE, 0);
    if (this.#memory.dealing.isClaimed) Atomics.store(words, CLAIM, (step << LEFT_BITS) | length);
    Atomics.store(words, STEP, step);
  }

  /** Whether there is a chunk for this thread. */
  get hasChunk(): boolean {
    if (this.#memory.dealing.isClaimed) return (Atomics.load(this.#words, CLAIM) & LEFT_MASK) !== 0;
    return Atomics.load(this.#words, STEP) !== this.#step;
  }

  /**
   * The number of a chunk that this thread has to compute, and to report as done; NO_CHUNK if there is none
   * (DeviceControl.D2).
   */
  nextChunk(): number {
    if (this.#memory.dealing.isClaimed) return this.#claim();
    const step = Atomics.load(this.#words, STEP);
    if (step === this.#step) return NO_CHUNK;
    this.#step = step;
    return this.#device;
  }

  #claim(): number {
    const words = this.#words;
    for (;;) {
      const claim = Atomics.load(words, CLAIM);
      const left = claim & LEFT_MASK;
      if (left === 0) return NO_CHUNK;
      if (Atomics.compareExchange(words, CLAIM, claim, claim - 1) === claim) return words[CHUNKS]! - left;
    }
  }

  /** Of a chunk that this thread has. */
  samplesOf(chunk: number): Chunk {
    return this.#chunksOf(this.#words[SAMPLES]!)[chunk]!;
  }

  get divisor(): number {
    return this.#numbers[0]!;
  }

  /** A chunk is computed. Whether it was the last of the step. */
  done(chunk: number, loss: number): boolean {
    this.#numbers[LOSSES + chunk] = loss;
    return Atomics.add(this.#words, DONE, 1) + 1 === this.#words[CHUNKS];
  }

  /** The owner says that the gradients of the step are summed: the others have nothing to do until the next one. */
  endStep(): void {
    Atomics.store(this.#words, SUMMED, Atomics.load(this.#words, STEP));
  }

  /** Whether no step is under way. */
  get isBetweenSteps(): boolean {
    return Atomics.load(this.#words, SUMMED) === Atomics.load(this.#words, STEP);
  }

  /** Of the step that is summed, or about to be. */
  get chunkCount(): number {
    return this.#words[CHUNKS]!;
  }

  /** Of all chunks, in their order. */
  get loss(): number {
    let sum = 0;
    for (let chunk = 0; chunk < this.chunkCount; chunk++) sum += this.#numbers[LOSSES + chunk]!;
    return sum;
  }

  #chunksOf(sampleCount: number): readonly Chunk[] {
    const { deviceCount, dealing } = this.#memory;
    const known = this.#chunks.get(sampleCount) ?? chunksOf(sampleCount, deviceCount, dealing);
    this.#chunks.set(sampleCount, known);
    return known;
  }
}
