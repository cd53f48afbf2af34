// plain-duplicate-kernels — the reference of DuplicateKernels: a Map of the keys seen, row after row. Slow; for tests.

import type { Arena } from "./arena.ts";
import type { DuplicateKernels, joinDuplicates, MergeNumber } from "./duplicate-kernels.ts";
import { OPTIMIZER } from "./optimizer-kernels.ts";

export class PlainDuplicateKernels implements DuplicateKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  findDuplicates(keys: number, keyCount: number, _secret: number, _scratch: number, uniqueKeys: number, indexes: number): number {
    const { words } = this.#arena;
    const list = words.slice(keys / 4, keys / 4 + keyCount * 2);
    const indexOf = new Map<string, number>();
    const found = Array.from({ length: keyCount }, (_, i) => {
      const name = `${list[i * 2 + 1]} ${list[i * 2]}`;
      const index = indexOf.get(name) ?? indexOf.size;
      indexOf.set(name, index);
      return index;
    });
    if (indexOf.size === keyCount) return keyCount; // DuplicateKernels.D3
    for (const [i, index] of found.entries()) {
      words[indexes / 4 + i] = index;
      words[uniqueKeys / 4 + index * 2] = list[i * 2]!;
      words[uniqueKeys / 4 + index * 2 + 1] = list[i * 2 + 1]!;
    }
    return indexOf.size;
  }

  sumDuplicates(rows: number, keyCount: number, width: number, indexes: number, rowsTo: number, known: number, out: number): number {
    return this.#join((one, other) => one + other, { rows, keyCount, width, indexes, rowsTo, known, out });
  }

  mergeDuplicates(
    merge: MergeNumber,
    rows: number,
    keyCount: number,
    width: number,
    indexes: number,
    rowsTo: number,
    known: number,
    out: number,
  ): number {
    return this.#join(MERGES[merge], { rows, keyCount, width, indexes, rowsTo, known, out });
  }

  #join(
    join: (one: number, other: number) => number,
    { rows, keyCount, width, indexes, rowsTo, known, out }: Parameters<typeof joinDuplicates>[2],
  ): number {
    const { floats, words } = this.#arena;
    const gradients = floats.slice(rows / 4, rows / 4 + keyCount * width);
    let uniqueCount = known;
    for (let i = 0; i < keyCount; i++) {
      const index = words[indexes / 4 + i]!;
      const row = rowsTo === 0 ? index : words[rowsTo / 4 + i]!;
      for (let j = 0; j < width; j++) {
        const at = out / 4 + row * width + j;
        floats[at] = index < uniqueCount ? join(floats[at]!, gradients[i * width + j]!) : gradients[i * width + j]!;
      }
      if (index === uniqueCount) uniqueCount++;
    }
    return uniqueCount;
  }
}

const MERGES: Readonly<Record<MergeNumber, (one: number, other: number) => number>> = {
  [OPTIMIZER.assign]: (_, last) => last,
  [OPTIMIZER.min]: Math.min,
  [OPTIMIZER.max]: Math.max,
};
