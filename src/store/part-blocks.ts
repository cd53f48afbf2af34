// part-blocks — the blocks of a tensor that are here, grouped by part (keys/part.ts). The store fills them.

import type { Block } from "./block-span.ts";

export class PartBlocks {
  readonly blocks: ReadonlyMap<number, Block>;
  readonly #blocks = new Map<number, Block>();
  /** The indexes of those that are here. */
  readonly #parts = new Map<number, Set<number>>();
  readonly #partOf: (block: number) => number;

  constructor(partOf: (block: number) => number) {
    this.#partOf = partOf;
    this.blocks = this.#blocks;
  }

  /** Ascending. */
  get indexes(): readonly number[] {
    return ascending(this.#blocks.keys());
  }

  /** Those of a part, ascending. */
  indexesOf(part: number): readonly number[] {
    const indexes = this.#parts.get(part);
    return indexes === undefined ? [] : ascending(indexes);
  }

  /** The parts that have blocks. */
  get parts(): Iterable<number> {
    return this.#parts.keys();
  }

  /** Replaces the block of this index, if any; its memory goes with its last hold. */
  put(index: number, block: Block): void {
    this.drop(index);
    this.#blocks.set(index, block);
    const part = this.#partOf(index);
    const known = this.#parts.get(part);
    if (known === undefined) this.#parts.set(part, new Set([index]));
    else known.add(index);
  }

  drop(index: number): void {
    const block = this.#blocks.get(index);
    if (block === undefined) return;
    this.#blocks.delete(index);
    const part = this.#partOf(index);
    const known = this.#parts.get(part);
    known?.delete(index);
    if (known?.size === 0) this.#parts.delete(part);
    retire(block);
  }

  dropAll(): void {
    for (const block of this.#blocks.values()) retire(block);
    this.#blocks.clear();
    this.#parts.clear();
  }
}

/** Its memory goes with the last hold (TensorStore.T2). */
function retire({ span, slots, rowSteps, stepsRoom, pulled }: Block): void {
  span.retire();
  slots?.retire();
  rowSteps?.retire();
  stepsRoom?.retire();
  pulled.forgetAll();
}

function ascending(indexes: Iterable<number>): readonly number[] {
  return [...indexes].sort((a, b) => a - b);
}
