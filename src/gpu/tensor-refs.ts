// tensor-refs — small numbers that stand for tensors of a card: a model keeps what devices push in words of 32 bits,
// and addresses of a card have more.
//
// Invariants:
//   TensorRefs.P1. A ref is a tensor's for as long as somebody holds the tensor, and free for another one
//       afterwards.
//   TensorRefs.P2. The address of a tensor that was freed meanwhile is CLOSED, never an address that is not its own.

import { WeighbridgeError } from "../base/errors.ts";
import type { TensorMemory } from "./device-tensor.ts";

const REFS_AT_FIRST = 1024;
const TWO_32 = 2 ** 32;

export class TensorRefs {
  /** By ref, low word and high word; 0 if there is no tensor, or its memory is freed. Ref 0 is none. */
  #words = new Int32Array(2 * REFS_AT_FIRST);
  #count = 1;
  readonly #free: number[] = [];
  #freeCount = 0;
  readonly #dropped: FinalizationRegistry<{ readonly memory: TensorMemory; readonly ref: number }> = new FinalizationRegistry(
    ({ memory, ref }) => {
      memory.refs.delete(ref);
      this.#set(ref, 0);
      this.#free.push(ref);
    },
  );

  /** `offset` is in bytes. */
  add(tensor: object, memory: TensorMemory, offset: number): number {
    const ref = this.#free.pop() ?? this.#count++;
    if (2 * ref === this.#words.length) {
      const words = new Int32Array(4 * ref);
      words.set(this.#words);
      this.#words = words;
    }
    this.#set(ref, memory.address + offset);
    memory.refs.add(ref);
    this.#dropped.register(tensor, { memory, ref });
    return ref;
  }

  /** How often memory was freed: while it is the same, no tensor was. */
  get freeCount(): number {
    return this.#freeCount;
  }

  /** All tensors of this memory are freed. */
  forget({ refs }: TensorMemory): void {
    this.#freeCount++;
    for (const ref of refs) this.#set(ref, 0);
  }

  /** TensorRefs.P2 */
  addressOf(ref: number): number {
    this.check(ref);
    return (this.#words[2 * ref]! >>> 0) + (this.#words[2 * ref + 1]! >>> 0) * TWO_32;
  }

  /** TensorRefs.P2 */
  check(ref: number): void {
    if (this.isFreed(ref)) throw new WeighbridgeError("CLOSED", "a tensor was freed while a round or a pull needed it");
  }

  isFreed(ref: number): boolean {
    return (this.#words[2 * ref]! | this.#words[2 * ref + 1]!) === 0;
  }

  /** Writes an address, which was checked, as the kernels read it. Returns its low word. */
  write(ref: number, target: Int32Array, at: number): number {
    const low = this.#words[2 * ref]!;
    target[at] = low;
    target[at + 1] = this.#words[2 * ref + 1]!;
    return low;
  }

  #set(ref: number, address: number): void {
    this.#words[2 * ref] = address;
    this.#words[2 * ref + 1] = address / TWO_32;
  }
}
