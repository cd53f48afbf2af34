// pulled-block — the values of one tensor block that each worker pulled last, for an optimizer that compares with them
// (DC-ASGD): a copy for each worker, made at its first pull and freed with the worker. Checkpoints do not have it.
//
// Invariants:
//   PulledBlock.M1. Nothing depends on how many workers there are, were or will be.
//   PulledBlock.M2. A pull never fails for lack of memory here: its worker then counts as having just pulled.

import type { Arena } from "../kernel/arena.ts";
import { FLOAT_BYTES } from "../kernel/elements.ts";
import type { Kernels } from "../kernel/kernels.ts";
import { Span } from "./block-span.ts";

/** Addresses of a block: its values, and those that a worker without a pull counts as having seen. */
type Seen = { readonly values: number; readonly began: number; readonly byteCount: number };

export class PulledBlock {
  readonly #arena: Arena;
  readonly #kernels: Kernels;
  /** By rank; undefined if there was no room (PulledBlock.M2). */
  readonly #spans = new Map<number, Span | undefined>();

  constructor(arena: Arena, kernels: Kernels) {
    this.#arena = arena;
    this.#kernels = kernels;
  }

  get usedBytes(): number {
    let bytes = 0;
    for (const span of this.#spans.values()) bytes += span?.byteCount ?? 0;
    return bytes;
  }

  /** A worker pulls the block, or some of its rows, as it is now. */
  note(rank: number, block: Seen, rows: { readonly indexes: Uint32Array; readonly width: number } | undefined): void {
    const { address } = this.#spanOf(rank, block) ?? { address: 0 };
    if (address === 0) return;
    if (rows === undefined) this.#kernels.copy(address, block.values, block.byteCount);
    else {
      const rowBytes = rows.width * FLOAT_BYTES;
      for (const row of rows.indexes) this.#kernels.copy(address + row * rowBytes, block.values + row * rowBytes, rowBytes);
    }
  }

  /** The address of what a worker pulled; undefined if unknown: then the block's first values count. */
  find(rank: number | undefined, values: number): number | undefined {
    if (rank === undefined || !this.#spans.has(rank)) return undefined;
    return this.#spans.get(rank)?.address ?? values;
  }

  forget(rank: number): void {
    this.#spans.get(rank)?.retire();
    this.#spans.delete(rank);
  }

  forgetAll(): void {
    for (const rank of [...this.#spans.keys()]) this.forget(rank);
  }

  /** Copies, by rank, for `load`. */
  save(): ReadonlyMap<number, Float32Array> {
    const copies = new Map<number, Float32Array>();
    for (const [rank, span] of this.#spans) if (span !== undefined) copies.set(rank, new Float32Array(span.floats));
    return copies;
  }

  load(saved: ReadonlyMap<number, Float32Array>, block: Seen): void {
    for (const [rank, floats] of saved) this.#spanOf(rank, block)?.floats.set(floats);
  }

  #spanOf(rank: number, { values, began, byteCount }: Seen): Span | undefined {
    const known = this.#spans.get(rank);
    if (known !== undefined) return known;
    const address = this.#arena.tryAllocateState(byteCount);
    const made = address === 0 ? undefined : new Span(this.#arena, address, byteCount);
    if (made !== undefined) this.#kernels.copy(address, this.#spans.has(rank) ? values : began, byteCount);
    this.#spans.set(rank, made);
    return made;
  }
}
