// tensor-places — small numbers that stand for tensors of a card: a model keeps what devices push in words of 32 bits,
// and addresses of a card have more.
//
// Invariants:
//   TensorPlaces.P1. A place is a tensor's for as long as somebody holds the tensor, and free for another one
//       afterwards.
//   TensorPlaces.P2. The address of a tensor that was freed meanwhile is CLOSED, never an address that is not its own.

import { WeighbridgeError } from "../base/errors.ts";
import type { TensorMemory } from "./device-tensor.ts";

const PLACES_AT_FIRST = 1024;
const TWO_32 = 2 ** 32;

export class TensorPlaces {
  /** By place, low word and high word; 0 if there is no tensor, or its memory is freed. Place 0 is none. */
  #words = new Int32Array(2 * PLACES_AT_FIRST);
  #count = 1;
  readonly #free: number[] = [];
  #freeCount = 0;
  readonly #dropped: FinalizationRegistry<{ readonly memory: TensorMemory; readonly place: number }> = new FinalizationRegistry(
    ({ memory, place }) => {
      memory.places.delete(place);
      this.#set(place, 0);
      this.#free.push(place);
    },
  );

  /** `offset` is in bytes. */
  add(tensor: object, memory: TensorMemory, offset: number): number {
    const place = this.#free.pop() ?? this.#count++;
    if (2 * place === this.#words.length) {
      const words = new Int32Array(4 * place);
      words.set(this.#words);
      this.#words = words;
    }
    this.#set(place, memory.address + offset);
    memory.places.add(place);
    this.#dropped.register(tensor, { memory, place });
    return place;
  }

  /** How often memory was freed: while it is the same, no tensor was. */
  get freeCount(): number {
    return this.#freeCount;
  }

  /** All tensors of this memory are freed. */
  forget({ places }: TensorMemory): void {
    this.#freeCount++;
    for (const place of places) this.#set(place, 0);
  }

  /** TensorPlaces.P2 */
  addressOf(place: number): number {
    this.check(place);
    return (this.#words[2 * place]! >>> 0) + (this.#words[2 * place + 1]! >>> 0) * TWO_32;
  }

  /** TensorPlaces.P2 */
  check(place: number): void {
    if (this.isFreed(place)) throw new WeighbridgeError("CLOSED", "a tensor was freed while a round or a pull needed it");
  }

  isFreed(place: number): boolean {
    return (this.#words[2 * place]! | this.#words[2 * place + 1]!) === 0;
  }

  /** Writes an address, which was checked, as the kernels read it. Returns its low word. */
  write(place: number, target: Int32Array, at: number): number {
    const low = this.#words[2 * place]!;
    target[at] = low;
    target[at + 1] = this.#words[2 * place + 1]!;
    return low;
  }

  #set(place: number, address: number): void {
    this.#words[2 * place] = address;
    this.#words[2 * place + 1] = address / TWO_32;
  }
}
