// block-rooms — the memory of a tensor's blocks: values, the optimizer's slots, and row steps if rows count their own.
// A new tensor reserves it for all blocks that this server owns, so that no push lacks it. The store fills it.
//
// Invariants:
//   BlockRooms.R1. Reserved memory is not touched: it costs addresses only.
//   BlockRooms.R2. `reserve` allocates the memory of all blocks that are wanted, or of none.

import { isWeighbridgeError } from "../base/errors.ts";
import { type Arena, stateFull } from "../kernel/arena.ts";
import { FLOAT_BYTES, WORD_BYTES } from "../kernel/elements.ts";
import type { TensorShape } from "./tensor-shape.ts";
import type { ParameterUpdater } from "./updaters/parameter-updater.ts";

/** Blocks of 2 TiB of values: more than the servers of any job have, and few enough to scan. */
const BLOCKS_LOOKED_AT_MAX = 2 ** 22;

/** Addresses, or counts of bytes. 0: none. */
export type BlockRoom = { readonly values: number; readonly slots: number; readonly steps: number };

export class BlockRooms {
  readonly #arena: Arena;
  readonly #shape: TensorShape;
  readonly #updater: ParameterUpdater;
  /** Memory of blocks that do not exist yet. */
  readonly #reserved = new Map<number, BlockRoom>();

  constructor(arena: Arena, shape: TensorShape, updater: ParameterUpdater) {
    this.#arena = arena;
    this.#shape = shape;
    this.#updater = updater;
  }

  /** Reserved, not used yet. */
  get reservedBytes(): number {
    let bytes = 0;
    for (const index of this.#reserved.keys()) bytes += sumOf(this.bytesOf(index));
    return bytes;
  }

  bytesOf(index: number): BlockRoom {
    const floatCount = this.#shape.floatsOf(index);
    const rowCount = floatCount / this.#updater.width;
    const steps = this.#updater.countsRows && this.#shape.hasRows ? rowCount * WORD_BYTES : 0;
    return { values: floatCount * FLOAT_BYTES, slots: this.#updater.blockSlotBytes(rowCount), steps };
  }

  /**
   * Reserves memory for the blocks that `isWanted` names, and releases that of all others. Throws ARENA_FULL, naming
   * `what`.
   */
  reserve(isWanted: (block: number) => boolean, what: string): void {
    for (const index of [...this.#reserved.keys()]) if (!isWanted(index)) this.release(index);
    const taken: number[] = [];
    try {
      for (const index of this.#wanted(isWanted, what)) {
        if (this.#reserved.has(index)) continue;
        this.#reserved.set(
          index,
          this.#allocate(index, (bytes) => this.#arena.allocateState(bytes)),
        );
        taken.push(index);
      }
    } catch (thrown) {
      for (const index of taken) this.release(index);
      throw isWeighbridgeError(thrown, "ARENA_FULL") ? this.#full(isWanted, what) : thrown;
    }
  }

  /** The memory of a block, which the caller owns from now on. Throws ARENA_FULL. */
  take(index: number): BlockRoom {
    const reserved = this.#reserved.get(index);
    this.#reserved.delete(index);
    return reserved ?? this.#allocate(index, (bytes) => this.#arena.allocateState(bytes));
  }

  /** Memory for values and slots that are about to be sent (work, Arena.A4). Throws ARENA_FULL. */
  takeWork(index: number): BlockRoom {
    return this.#allocate(index, (bytes) => this.#arena.allocate(bytes), { ...this.bytesOf(index), steps: 0 });
  }

  /** Releases the memory of a block that does not exist. */
  release(index: number): void {
    const room = this.#reserved.get(index);
    this.#reserved.delete(index);
    if (room !== undefined) this.#giveBack(room, this.bytesOf(index));
  }

  releaseAll(): void {
    for (const index of [...this.#reserved.keys()]) this.release(index);
  }

  #allocate(index: number, take: (bytes: number) => number, bytes: BlockRoom = this.bytesOf(index)): BlockRoom {
    const room = { values: 0, slots: 0, steps: 0 };
    try {
      room.values = take(bytes.values);
      if (bytes.slots > 0) room.slots = take(bytes.slots);
      if (bytes.steps > 0) room.steps = take(bytes.steps);
    } catch (thrown) {
      this.#giveBack(room, bytes);
      throw thrown;
    }
    return room;
  }

  #giveBack(room: BlockRoom, bytes: BlockRoom): void {
    for (const part of ["values", "slots", "steps"] as const) if (room[part] !== 0) this.#arena.release(room[part], bytes[part]);
  }

  /** Throws ARENA_FULL as soon as the blocks exceed the arena, however many there are. */
  *#wanted(isWanted: (block: number) => boolean, what: string): Iterable<number> {
    const { blockCount } = this.#shape;
    if (blockCount > BLOCKS_LOOKED_AT_MAX) throw this.#full(() => true, what);
    for (let index = 0; index < blockCount; index++) if (isWanted(index)) yield index;
  }

  #full(isWanted: (block: number) => boolean, what: string): Error {
    const { blockCount } = this.#shape;
    const isCounted = blockCount <= BLOCKS_LOOKED_AT_MAX;
    let [count, bytes] = isCounted ? [0, 0] : [blockCount, blockCount * sumOf(this.bytesOf(0))];
    for (let index = 0; isCounted && index < blockCount; index++) {
      if (!isWanted(index)) continue;
      count++;
      bytes += sumOf(this.bytesOf(index));
    }
    return stateFull(this.#arena, `${what}, whose ${count} blocks ${isCounted ? "on this server " : ""}take ${bytes} bytes`);
  }
}

function sumOf({ values, slots, steps }: BlockRoom): number {
  return values + slots + steps;
}
