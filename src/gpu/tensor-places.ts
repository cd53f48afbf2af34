// tensor-places — small numbers that stand for tensors of a card: a model keeps what devices push in words of 32 bits,
// and addresses of a card have more.
//
// Invariants:
//   TensorPlaces.P1. A place is a tensor's for as long as somebody holds the tensor, and free for another one afterwards.
//   TensorPlaces.P2. The address of a tensor that was freed meanwhile is CLOSED, never an address that is not its own.

import { WeighbridgeError } from "../base/errors.ts";
import type { TensorMemory } from "./device-tensor.ts";

const PLACES_AT_FIRST = 1024;

export class TensorPlaces {
  /** By place; 0 if there is no tensor, or its memory is freed. Place 0 is none. */
  #addresses = new Float64Array(PLACES_AT_FIRST);
  #count = 1;
  readonly #free: number[] = [];
  readonly #dropped: FinalizationRegistry<{ readonly memory: TensorMemory; readonly place: number }> = new FinalizationRegistry(
    ({ memory, place }) => {
      memory.places.delete(place);
      this.#addresses[place] = 0;
      this.#free.push(place);
    },
  );

  /** `offset` is in bytes. */
  add(tensor: object, memory: TensorMemory, offset: number): number {
    const place = this.#free.pop() ?? this.#count++;
    if (place === this.#addresses.length) {
      const addresses = new Float64Array(2 * place);
      addresses.set(this.#addresses);
      this.#addresses = addresses;
    }
    this.#addresses[place] = memory.address + offset;
    memory.places.add(place);
    this.#dropped.register(tensor, { memory, place });
    return place;
  }

  /** All tensors of this memory are freed. */
  forget({ places }: TensorMemory): void {
    for (const place of places) this.#addresses[place] = 0;
  }

  /** TensorPlaces.P2 */
  addressOf(place: number): number {
    const address = this.#addresses[place]!;
    if (!(address > 0)) throw new WeighbridgeError("CLOSED", "a tensor was freed while a round or a pull needed it");
    return address;
  }
}
