// tensor-places — small numbers that stand for tensors of a card: a model keeps what devices push in words of 32 bits,
// and addresses of a card have more.
//
// Invariants:
//   TensorPlaces.P1. A place is a tensor's for as long as somebody holds the tensor, and free for another one afterwards.
//   TensorPlaces.P2. The address of a tensor that was freed meanwhile is CLOSED, never an address that is not its own.

import { assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { TensorMemory } from "./device-tensor.ts";

export class TensorPlaces {
  /** Place 0 is none. */
  readonly #memories: (TensorMemory | undefined)[] = [undefined];
  readonly #offsets: number[] = [0];
  readonly #free: number[] = [];
  readonly #dropped: FinalizationRegistry<number> = new FinalizationRegistry((place) => {
    this.#memories[place] = undefined;
    this.#free.push(place);
  });

  /** `offset` is in bytes. */
  add(tensor: object, memory: TensorMemory, offset: number): number {
    const place = this.#free.pop() ?? this.#memories.length;
    this.#memories[place] = memory;
    this.#offsets[place] = offset;
    this.#dropped.register(tensor, place);
    return place;
  }

  /** TensorPlaces.P2 */
  addressOf(place: number): number {
    const memory = this.#memories[place];
    assert(memory !== undefined, `there is no tensor at place ${place}`);
    if (memory.isFree) throw new WeighbridgeError("CLOSED", "a tensor was freed while a round or a pull needed it");
    return memory.address + this.#offsets[place]!;
  }
}
