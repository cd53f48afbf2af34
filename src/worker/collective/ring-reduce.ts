// ring-reduce — an all-reduce of a large array: partial sums go round the ring of members, then complete ones do
// (ring-cursor.ts). A part is added where the link has read it, complete ones are read to where they belong, and both
// leave from there. Every member sends and receives 2 · (n − 1) ÷ n times the array.
//
// A part may be overwritten while it is still unanswered: by the complete sum of it. That has come round the ring
// through the receiver, which so has taken the part; if it is sent again, it is known there by its number, and dropped.

import { addElements, bytesOf, elementsOf } from "../../kernel/element-loops.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import { CollectiveKind, PART_BYTES } from "../../wire/collective-frame.ts";
import { Operation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";
import type { PartStream } from "./part-stream.ts";
import { partsOf, RingCursor, segmentFrom } from "./ring-cursor.ts";

export class RingReduce extends Operation {
  readonly #values: RowArray;
  #context: OperationContext | undefined;
  #left = 0;
  #cursor: RingCursor | undefined;
  #stream: PartStream | undefined;

  constructor(values: RowArray, root: number) {
    super({ kind: CollectiveKind.ALL_REDUCE, root, length: values.length });
    this.#values = values;
  }

  get isIntact(): boolean {
    return this.#values.length === this.length;
  }

  begin(context: OperationContext): void {
    const { position, memberCount } = context;
    const ring = { length: this.length, position, memberCount, partLength: PART_BYTES / this.#values.BYTES_PER_ELEMENT };
    this.#context = context;
    this.#left = (position + memberCount - 1) % memberCount;
    this.#cursor = new RingCursor(ring);
    this.#stream = context.streamTo((position + 1) % memberCount, this);
    for (const { from, to } of partsOf(segmentFrom(position, ring), segmentFrom(position + 1, ring), ring.partLength))
      this.#stream.push(bytesOf(this.#values, from, to));
  }

  destination(from: number, label: PartLabel, byteCount: number): Uint8Array | undefined {
    const cursor = this.#cursor;
    if (cursor === undefined || cursor.isPartial || !this.#isNext(from, label, byteCount)) return undefined;
    return bytesOf(this.#values, cursor.from, cursor.to);
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    const cursor = this.#cursor;
    if (cursor === undefined || !this.#isNext(from, label, payload.length)) throw unexpectedPart(this, from, label, payload.length);
    const own = bytesOf(this.#values, cursor.from, cursor.to);
    if (cursor.isPartial) addElements(this.#values, cursor.from, elementsOf(this.#values, payload));
    else if (payload.buffer !== own.buffer || payload.byteOffset !== own.byteOffset) own.set(payload);
    const { isHandedOn } = cursor;
    cursor.advance();
    if (isHandedOn) this.#stream?.push(own);
    this.acknowledged();
  }

  acknowledged(): void {
    if (this.#cursor?.isOver && this.#stream?.isIdle) this.#context?.finished(this);
  }

  awaited(): number[] {
    return this.#cursor?.isOver === false ? [this.#left] : [];
  }

  *streams(): Iterable<PartStream> {
    if (this.#stream !== undefined) yield this.#stream;
  }

  #isNext(from: number, { index }: PartLabel, byteCount: number): boolean {
    const cursor = this.#cursor;
    return (
      cursor !== undefined &&
      from === this.#left &&
      !cursor.isOver &&
      index === cursor.index &&
      byteCount === bytesOf(this.#values, cursor.from, cursor.to).length
    );
  }
}
