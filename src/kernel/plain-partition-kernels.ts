// plain-partition-kernels — the reference of PartitionKernels: one list per owner, keys as BigInts. Slow; for tests.

import type { Arena } from "./arena.ts";
import type { OwnershipKernels, PartitionKernels } from "./partition-kernels.ts";

const MIX_FACTOR = 0xd6e8_feb8_6659_fd93n;

/** What the mix means; src/keys/mix.ts computes it without BigInts. */
export function plainMix(key: bigint): bigint {
  let x = BigInt.asUintN(64, (key ^ (key >> 32n)) * MIX_FACTOR);
  x = BigInt.asUintN(64, (x ^ (x >> 32n)) * MIX_FACTOR);
  return x ^ (x >> 32n);
}

export class PlainPartitionKernels implements PartitionKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  mixKeys(keys: number, keyCount: number, out: number): void {
    for (let i = 0; i < keyCount; i++) this.#setKey(out, i, plainMix(this.#key(keys, i)));
  }

  partitionKeys(
    keys: number,
    keyCount: number,
    owners: number,
    partBits: number,
    ownerCount: number,
    _scratch: number,
    spans: number,
    keysOut: number,
    sources: number,
  ): void {
    const { bytes, words } = this.#arena;
    const lists: number[][] = Array.from({ length: ownerCount }, () => []);
    for (let i = 0; i < keyCount; i++) {
      const part = Number(plainMix(this.#key(keys, i)) >> BigInt(64 - partBits));
      lists[bytes[owners + part * 2]! + bytes[owners + part * 2 + 1]! * 256]!.push(i); // PartitionKernels.P1
    }
    let at = 0;
    for (const [owner, list] of lists.entries()) {
      words[spans / 4 + owner] = at;
      for (const source of list) {
        this.#setKey(keysOut, at, this.#key(keys, source));
        words[sources / 4 + at++] = source;
      }
    }
    words[spans / 4 + ownerCount] = at;
  }

  gatherByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void {
    for (let i = 0; i < rowCount; i++) this.#copyRow(rows, this.#arena.words[indexes / 4 + i]!, width, out, i);
  }

  scatterByIndex(rows: number, indexes: number, rowCount: number, width: number, out: number): void {
    for (let i = 0; i < rowCount; i++) this.#copyRow(rows, i, width, out, this.#arena.words[indexes / 4 + i]!);
  }

  #copyRow(rows: number, row: number, width: number, out: number, target: number): void {
    const { words } = this.#arena;
    for (let j = 0; j < width; j++) words[out / 4 + target * width + j] = words[rows / 4 + row * width + j]!;
  }

  #key(keys: number, index: number): bigint {
    const at = keys / 4 + index * 2;
    return (BigInt(this.#arena.words[at + 1]!) << 32n) | BigInt(this.#arena.words[at]!);
  }

  #setKey(keys: number, index: number, key: bigint): void {
    this.#arena.words[keys / 4 + index * 2] = Number(key & 0xffff_ffffn);
    this.#arena.words[keys / 4 + index * 2 + 1] = Number(key >> 32n);
  }
}

/** Slow; for tests. */
export class PlainOwnershipKernels implements OwnershipKernels {
  readonly #arena: Arena;

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  firstForeignKey(keys: number, keyCount: number, owned: number, partBits: number): number {
    const { memory, bytes } = this.#arena;
    const list = new BigUint64Array(memory.buffer, keys, keyCount);
    const index = list.findIndex((key) => bytes[owned + Number(plainMix(key) >> BigInt(64 - partBits))] === 0);
    return index < 0 ? keyCount : index;
  }
}
