// direct-reduce — an all-reduce of a small array: every member sends its values to every other, and each adds them all
// in the order of ranks. One way instead of the ring's 2 · (n − 1), for n ÷ 2 times its bytes. What leaves is a copy,
// so it is over as soon as everything has come.

import { addElements, bytesOf, elementsOf } from "../../kernel/element-loops.ts";
import { copyElements, type RowArray } from "../../kernel/row-element.ts";
import { CollectiveKind } from "../../wire/collective-frame.ts";
import { Operation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";
import type { PartStream } from "./part-stream.ts";

export class DirectReduce extends Operation {
  readonly #values: RowArray;
  /** By position; this member's own are undefined. */
  readonly #parts: (RowArray | undefined)[] = [];
  #context: OperationContext | undefined;
  #awaitedCount = 0;

  constructor(values: RowArray, root: number) {
    super({ kind: CollectiveKind.ALL_REDUCE, root, length: values.length });
    this.#values = values;
  }

  get isIntact(): boolean {
    return this.#values.length === this.length;
  }

  begin(context: OperationContext): void {
    const { position, memberCount } = context;
    this.#context = context;
    this.#awaitedCount = memberCount - 1;
    const copy = this.#values.slice();
    for (let to = 0; to < memberCount; to++) if (to !== position) context.streamTo(to, this).push(bytesOf(copy, 0, copy.length));
  }

  destination(): undefined {
    return undefined;
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    if (label.index !== 0 || this.#parts[from] !== undefined || payload.length !== this.#values.byteLength)
      throw unexpectedPart(this, from, label, payload.length);
    this.#parts[from] = elementsOf(this.#values, payload.slice());
    this.#awaitedCount--;
    if (this.#awaitedCount > 0) return;
    this.#sum();
    this.#context?.finished(this);
  }

  acknowledged(): void {} // the copies that left are nobody's concern

  awaited(): number[] {
    const { position = 0, memberCount = 0 } = this.#context ?? {};
    return Array.from({ length: memberCount }, (_, i) => i).filter((i) => i !== position && this.#parts[i] === undefined);
  }

  *streams(): Iterable<PartStream> {}

  /** In the order of positions: the same bits at every member. */
  #sum(): void {
    const values = this.#values;
    const position = this.#context?.position ?? 0;
    const [first = values] = this.#parts;
    for (let i = 1; i <= this.#parts.length || i <= position; i++) {
      const addend = i === position ? values : this.#parts[i];
      if (addend !== undefined) addElements(first, 0, addend);
    }
    if (first !== values) copyElements(values, first);
  }
}
