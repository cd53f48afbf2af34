// pinned-memory — page-locked memory of the host, which a card reads and writes at the full speed of its link while the
// processor does something else. Locking pages costs about a millisecond for four megabytes, so spans are kept.
//
// Invariants:
//   PinnedMemory.P1. A span that is free has no reader or writer: the code that gives it back has waited for the card.
//   PinnedMemory.P2. At most KEPT_BYTES_MAX are kept for later; a span beyond that is unlocked at once.
//   PinnedMemory.P3. After `release` the span's array is detached: nobody reads memory that is gone.

import type { CudaCard } from "./cuda-card.ts";
import { CUDA_SUCCESS } from "./cuda-driver.ts";

const SPAN_BYTES_MIN = 64 << 10;
const KEPT_BYTES_MAX = 512 << 20;
/** Every context of the process may use the memory. */
const PORTABLE = 1;

export type PinnedSpan = {
  /** Of the process; the card uses the same. */
  readonly address: number;
  readonly byteCount: number;
  readonly buffer: ArrayBuffer;
};

export class PinnedMemory {
  readonly #card: CudaCard;
  readonly #free = new Map<number, PinnedSpan[]>();
  readonly #all = new Set<PinnedSpan>();
  readonly #byBuffer = new WeakMap<ArrayBufferLike, PinnedSpan>();
  #keptBytes = 0;

  constructor(card: CudaCard) {
    this.#card = card;
  }

  /** At least so many bytes, with anything in them. Throws DEVICE_MEMORY_FULL. */
  take(byteCount: number): PinnedSpan {
    const size = Math.max(SPAN_BYTES_MIN, 2 ** Math.ceil(Math.log2(byteCount)));
    const kept = this.#free.get(size)?.pop();
    if (kept === undefined) return this.#lock(size);
    this.#keptBytes -= size;
    return kept;
  }

  /** The address of an array that lies in pinned memory of this card; undefined for any other. */
  addressOf({ buffer, byteOffset }: ArrayBufferView): number | undefined {
    const span = this.#byBuffer.get(buffer);
    return span === undefined ? undefined : span.address + byteOffset;
  }

  /** PinnedMemory.P1. */
  giveBack(span: PinnedSpan): void {
    if (!this.#all.has(span)) return;
    if (this.#keptBytes + span.byteCount > KEPT_BYTES_MAX) this.release(span);
    else {
      this.#keptBytes += span.byteCount;
      this.#free.set(span.byteCount, [...(this.#free.get(span.byteCount) ?? []), span]);
    }
  }

  /** The same for the span that an array lies in; nothing for any other array. */
  releaseArray({ buffer }: ArrayBufferView): void {
    const span = this.#byBuffer.get(buffer);
    if (span !== undefined) this.release(span);
  }

  /** PinnedMemory.P3. */
  release(span: PinnedSpan): void {
    if (!this.#all.delete(span)) return;
    this.#card.enter();
    if (!span.buffer.detached) span.buffer.transfer(0);
    this.#card.check(this.#card.driver.functions.cuMemFreeHost(span.address), "cuMemFreeHost");
  }

  /** The card unlocks all of it. */
  close(): void {
    for (const span of this.#all) this.release(span);
    this.#free.clear();
    this.#keptBytes = 0;
  }

  #lock(byteCount: number): PinnedSpan {
    this.#card.enter();
    const { driver } = this.#card;
    const pointer = new BigUint64Array(8);
    const code = driver.functions.cuMemHostAlloc(pointer, byteCount, PORTABLE);
    if (code !== CUDA_SUCCESS) throw driver.failure(code, `${this.#card.title}: no ${byteCount} bytes of pinned host memory`);
    const span = { address: Number(pointer[0]), byteCount, buffer: driver.native.view(pointer[0]!, byteCount) };
    this.#all.add(span);
    this.#byBuffer.set(span.buffer, span);
    return span;
  }
}
