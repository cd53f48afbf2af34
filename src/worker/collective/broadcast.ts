// broadcast — one member's values become everybody's: they go round the ring from it, part by part, and end with its
// left neighbour.

import { bytesOf } from "../../kernel/element-loops.ts";
import { CollectiveKind, PART_BYTES } from "../../wire/collective-frame.ts";
import { Operation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";
import type { PartStream } from "./part-stream.ts";
import { partsOf } from "./ring-cursor.ts";

export class Broadcast extends Operation {
  readonly #values: Float32Array;
  readonly #rootPosition: number;
  #context: OperationContext | undefined;
  #left = 0;
  #stream: PartStream | undefined;
  #parts: Iterator<{ readonly from: number; readonly to: number }, undefined> | undefined;
  /** The part that comes next; undefined when none does. */
  #next: { readonly from: number; readonly to: number } | undefined;
  #nextIndex = 0;

  constructor(values: Float32Array, root: { readonly rank: number; readonly position: number }) {
    super({ kind: CollectiveKind.BROADCAST, root: root.rank, length: values.length });
    this.#values = values;
    this.#rootPosition = root.position;
  }

  get isIntact(): boolean {
    return this.#values.length === this.length;
  }

  begin(context: OperationContext): void {
    const { position, memberCount } = context;
    const distance = (position - this.#rootPosition + memberCount) % memberCount;
    this.#context = context;
    this.#left = (position + memberCount - 1) % memberCount;
    if (distance < memberCount - 1) this.#stream = context.streamTo((position + 1) % memberCount, this);
    // One at least, so that who calls something else is found.
    const parts = this.length === 0 ? [{ from: 0, to: 0 }] : partsOf(0, this.length, PART_BYTES / Float32Array.BYTES_PER_ELEMENT);
    if (distance === 0) {
      for (const { from, to } of parts) this.#stream?.push(bytesOf(this.#values, from, to));
      return;
    }
    this.#parts = parts[Symbol.iterator]() as Iterator<{ readonly from: number; readonly to: number }, undefined>;
    this.#next = this.#parts.next().value;
  }

  destination(from: number, label: PartLabel, byteCount: number): Uint8Array | undefined {
    const next = this.#next;
    return next !== undefined && this.#isNext(from, label, byteCount) ? bytesOf(this.#values, next.from, next.to) : undefined;
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    const next = this.#next;
    if (next === undefined || !this.#isNext(from, label, payload.length)) throw unexpectedPart(this, from, label, payload.length);
    const own = bytesOf(this.#values, next.from, next.to);
    if (payload.buffer !== own.buffer || payload.byteOffset !== own.byteOffset) own.set(payload);
    this.#nextIndex++;
    this.#next = this.#parts?.next().value;
    this.#stream?.push(own);
    this.acknowledged();
  }

  acknowledged(): void {
    if (this.#next === undefined && (this.#stream?.isIdle ?? true)) this.#context?.finished(this);
  }

  awaited(): number[] {
    return this.#next === undefined ? [] : [this.#left];
  }

  *streams(): Iterable<PartStream> {
    if (this.#stream !== undefined) yield this.#stream;
  }

  #isNext(from: number, { index }: PartLabel, byteCount: number): boolean {
    const next = this.#next;
    return next !== undefined && from === this.#left && index === this.#nextIndex && byteCount === 4 * (next.to - next.from);
  }
}
