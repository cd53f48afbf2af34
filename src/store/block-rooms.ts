// block-rooms — the room in the arena of a tensor's blocks: for values, for the optimizer's slots and, where rows count their own steps, for those. It is taken for
// all blocks that this server owns when the tensor is made, so that no push to it finds none. Not what lies in it: that is the store's.
//
// Invariants:
//   BlockRooms.R1. Room that was taken and not used yet is not touched: it costs addresses, not memory.
//   BlockRooms.R2. `reserve` takes room for all blocks that it is asked for, or for none.

import { isWeighbridgeError } from "../base/errors.ts";
import { type Arena, stateFull } from "../kernel/arena.ts";
import type { TensorShape } from "./tensor-shape.ts";
import type { ParameterUpdater } from "./updaters/parameter-updater.ts";

const FLOAT_BYTES = 4;
const WORD_BYTES = 4;
/** Blocks of 2 TiB of values: more than the servers of any job have, and few enough to be looked at one by one. */
const BLOCKS_LOOKED_AT_MAX = 2 ** 22;

/** Addresses, or counts of bytes: 0 where there is none. */
export type BlockRoom = { readonly values: number; readonly slots: number; readonly steps: number };

export class BlockRooms {
  readonly #arena: Arena;
  readonly #shape: TensorShape;
  readonly #updater: ParameterUpdater;
  /** Room of blocks that are not there yet. */
  readonly #reserved = new Map<number, BlockRoom>();

  constructor(arena: Arena, shape: TensorShape, updater: ParameterUpdater) {
    this.#arena = arena;
    this.#shape = shape;
    this.#updater = updater;
  }

  /** What is taken and not used yet. */
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

  /** Takes room for those of the blocks that `isWanted` names, and gives back that of all others. Throws ARENA_FULL (BlockRooms.R2), naming `what`. */
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

  /** The room of a block, which is the caller's from now on. Throws ARENA_FULL. */
  take(index: number): BlockRoom {
    const reserved = this.#reserved.get(index);
    this.#reserved.delete(index);
    return reserved ?? this.#allocate(index, (bytes) => this.#arena.allocateState(bytes));
  }

  /** Room for values and slots that are on their way out (work, Arena.A4). Throws ARENA_FULL. */
  takeWork(index: number): BlockRoom {
    return this.#allocate(index, (bytes) => this.#arena.allocate(bytes), { ...this.bytesOf(index), steps: 0 });
  }

  /** Gives back the room of a block that is not there. */
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

  /** Throws ARENA_FULL as soon as it is clear that they do not fit, however many there are. */
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
