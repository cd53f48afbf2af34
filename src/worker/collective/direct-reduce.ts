// direct-reduce — an all-reduce of a small array: every member sends its values to every other, and each adds them all
// in the order of ranks. One way instead of the ring's 2 · (n − 1), for n ÷ 2 times its bytes. What leaves is a copy,
// so it is over as soon as everything has come.

import { addElements, bytesOf, elementsOf } from "../../kernel/element-loops.ts";
import { copyElements, type RowArray } from "../../kernel/row-element.ts";
import { CollectiveKind } from "../../wire/collective-frame.ts";
import { ArrayOperation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";

export class DirectReduce extends ArrayOperation {
  /** By position; this member's own are undefined. */
  readonly #parts: (RowArray | undefined)[] = [];
  #awaitedCount = 0;

  constructor(values: RowArray, root: number) {
    super(values, CollectiveKind.ALL_REDUCE, root);
  }

  protected start(context: OperationContext): void {
    const { position, memberCount } = context;
    this.#awaitedCount = memberCount - 1;
    const copy = this.values.slice(); // what becomes of it once it has left is nobody's concern
    for (let to = 0; to < memberCount; to++) if (to !== position) context.streamTo(to, this).push(bytesOf(copy, 0, copy.length));
  }

  protected get isComplete(): boolean {
    return this.#awaitedCount === 0;
  }

  destination(): undefined {
    return undefined;
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    if (label.index !== 0 || this.#parts[from] !== undefined || payload.length !== this.values.byteLength)
      throw unexpectedPart(this, from, label, payload.length);
    this.#parts[from] = elementsOf(this.values, payload.slice());
    this.#awaitedCount--;
    if (this.isComplete) this.#sum();
    this.endIfDone();
  }

  awaited(): number[] {
    const { position = 0, memberCount = 0 } = this.context ?? {};
    return Array.from({ length: memberCount }, (_, i) => i).filter((i) => i !== position && this.#parts[i] === undefined);
  }

  /** In the order of positions: the same bits at every member. */
  #sum(): void {
    const values = this.values;
    const position = this.context?.position ?? 0;
    const [first = values] = this.#parts;
    for (let i = 1; i <= this.#parts.length || i <= position; i++) {
      const addend = i === position ? values : this.#parts[i];
      if (addend !== undefined) addElements(first, 0, addend);
    }
    if (first !== values) copyElements(values, first);
  }
}
