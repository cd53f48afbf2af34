// data-arrays — arrays of any length by index, beside the parameters (contracts/data.ts). An index is a key like those of
// tables: its array belongs to that part, and moves with it. No part of checkpoints, as in Hetu.
//
// Invariants:
//   DataArrays.A1. Arrays lie in the server's arena, and are bounded with everything else in it: a push that finds no room is ARENA_FULL.
//   DataArrays.A2. A push that is refused has stored and added nothing.

import { WeighbridgeError } from "../../base/errors.ts";
import { type Arena, stateFull } from "../../kernel/arena.ts";
import { partOf } from "../../keys/part.ts";

const FLOAT_BYTES = 4;

/** Arrays one behind the other: how long each is, and all their values. */
export type DataPush = { readonly indexes: BigUint64Array; readonly lengths: Uint32Array; readonly values: Float32Array };
/** Copies, not in the arena. */
export type DataPage = { readonly kind: "data"; readonly arrays: readonly (readonly [index: bigint, values: Float32Array])[] };

export class DataArrays {
  readonly #arena: Arena;
  /** By part, and there by index. */
  readonly #parts = new Map<number, Map<bigint, Float32Array>>();

  constructor(arena: Arena) {
    this.#arena = arena;
  }

  find(index: bigint): Float32Array | undefined {
    return this.#parts.get(partOfIndex(index))?.get(index);
  }

  /** Throws VALUE_LENGTH, ARENA_FULL (A2). */
  push({ indexes, lengths, values }: DataPush): void {
    this.#check(indexes, lengths, values);
    const fresh = this.#makeRoom(indexes, lengths);
    let from = 0;
    indexes.forEach((index, i) => {
      const part = values.subarray(from, from + (lengths[i] as number));
      const known = this.find(index) as Float32Array;
      if (fresh.delete(index)) known.set(part);
      else for (let j = 0; j < part.length; j++) known[j] = (known[j] as number) + (part[j] as number);
      from += part.length;
    });
  }

  /** What is here of a part, copied; undefined when nothing is. */
  savePart(part: number): DataPage | undefined {
    const arrays = this.#parts.get(part);
    return arrays && { kind: "data", arrays: [...arrays].map(([index, values]) => [index, values.slice()] as const) };
  }

  /** Puts arrays in the place of those that are there; twice is as once. Throws ARENA_FULL, none of them put. */
  load({ arrays }: DataPage): void {
    this.#makeRoom(
      arrays.map(([index]) => index),
      arrays.map(([, values]) => values.length),
    );
    for (const [index, values] of arrays) this.find(index)?.set(values);
  }

  /** Returns how many arrays there were. */
  dropPart(part: number): number {
    const dropped = [...(this.#parts.get(part)?.keys() ?? [])];
    for (const index of dropped) this.#remove(index);
    return dropped.length;
  }

  countPart(part: number): number {
    return this.#parts.get(part)?.size ?? 0;
  }

  #remove(index: bigint): void {
    const part = partOfIndex(index);
    const arrays = this.#parts.get(part);
    const known = arrays?.get(index);
    if (arrays === undefined || known === undefined) return;
    this.#arena.release(known.byteOffset, bytesFor(known.length));
    arrays.delete(index);
    if (arrays.size === 0) this.#parts.delete(part);
  }

  /** Room for every index that is new, or for none (A1, A2). Returns those. */
  #makeRoom(indexes: Iterable<bigint>, lengths: ArrayLike<number>): Set<bigint> {
    const made = new Set<bigint>();
    let i = -1;
    for (const index of indexes) {
      i++;
      if (this.find(index) !== undefined) continue;
      const length = lengths[i] as number;
      const address = this.#arena.tryAllocateState(bytesFor(length));
      if (address === 0) {
        const error = stateFull(this.#arena, `the ${length} floats of data ${index}`);
        for (const undone of made) this.#remove(undone);
        throw error;
      }
      const part = partOfIndex(index);
      const arrays = this.#parts.get(part) ?? new Map<bigint, Float32Array>();
      this.#parts.set(part, arrays);
      arrays.set(index, this.#arena.floats.subarray(address >>> 2, (address >>> 2) + length) as Float32Array);
      made.add(index);
    }
    return made;
  }

  /** Everything is checked before anything is stored. */
  #check(indexes: BigUint64Array, lengths: Uint32Array, values: Float32Array): void {
    const total = lengths.reduce((sum, length) => sum + length, 0);
    if (indexes.length !== lengths.length || total !== values.length) {
      const what = `${indexes.length} indexes, ${lengths.length} lengths of ${total} together, ${values.length} values`;
      throw new WeighbridgeError("VALUE_LENGTH", what);
    }
    const named = new Map<bigint, number>(); // an index that is new may be named twice
    indexes.forEach((index, i) => {
      const length = lengths[i] as number;
      const known = this.find(index)?.length ?? named.get(index) ?? length;
      named.set(index, length);
      if (known === length) return;
      throw new WeighbridgeError("VALUE_LENGTH", `index ${index} has ${known} values; ${length} were pushed to it`);
    });
  }
}

/** An array of no floats takes room as well: there may be as many as one likes. */
function bytesFor(length: number): number {
  return Math.max(1, length) * FLOAT_BYTES;
}

function partOfIndex(index: bigint): number {
  return partOf(Number(index & 0xffff_ffffn), Number(index >> 32n));
}
