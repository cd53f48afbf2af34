// ring-operation — an operation whose parts go round the ring of members: each comes from the left, lands in the array
// or is added to it, and is handed on to the right from there. Which part is the next one, and what becomes of it, a
// cursor says.

import { addElements, bytesOf, elementsOf } from "../../kernel/element-loops.ts";
import { ArrayOperation, type OperationContext, type PartLabel, unexpectedPart } from "./operation.ts";
import type { PartStream } from "./part-stream.ts";
import type { RingCursor } from "./ring-cursor.ts";

/** The part that comes next: elements `from` up to `to`; its index says all about it. */
export type PartCursor = Pick<RingCursor, "from" | "to" | "index" | "isOver" | "isPartial" | "isHandedOn" | "advance">;

export abstract class RingOperation extends ArrayOperation {
  /** Set by `start`; left out by a member to which nothing comes. */
  protected cursor: PartCursor | undefined;
  #left = 0;

  override begin(context: OperationContext): void {
    this.#left = (context.position + context.memberCount - 1) % context.memberCount;
    super.begin(context);
  }

  /** The parts for the member on the right: the only ones that this member sends. */
  protected streamRight({ position, memberCount }: OperationContext): PartStream {
    return this.streamTo((position + 1) % memberCount);
  }

  protected get isComplete(): boolean {
    return this.cursor?.isOver !== false;
  }

  destination(from: number, label: PartLabel, byteCount: number): Uint8Array | undefined {
    const next = this.#nextIf(from, label, byteCount);
    return next === undefined || next.isPartial ? undefined : bytesOf(this.values, next.from, next.to);
  }

  take(from: number, label: PartLabel, payload: Uint8Array): void {
    const next = this.#nextIf(from, label, payload.length);
    if (next === undefined) throw unexpectedPart(this, from, label, payload.length);
    const own = bytesOf(this.values, next.from, next.to);
    if (next.isPartial) addElements(this.values, next.from, elementsOf(this.values, payload));
    else if (payload.buffer !== own.buffer || payload.byteOffset !== own.byteOffset) own.set(payload);
    const { isHandedOn } = next;
    next.advance();
    const [right] = this.streams;
    if (isHandedOn) right?.push(own);
    this.endIfDone();
  }

  awaited(): number[] {
    return this.isComplete ? [] : [this.#left];
  }

  /** The cursor, if this part is the one that has to come. */
  #nextIf(from: number, { index }: PartLabel, byteCount: number): PartCursor | undefined {
    const { cursor, isComplete, values } = this;
    if (cursor === undefined || isComplete || from !== this.#left || index !== cursor.index) return undefined;
    return byteCount === (cursor.to - cursor.from) * values.BYTES_PER_ELEMENT ? cursor : undefined;
  }
}
