// broadcast — one member's values become everybody's: they go round the ring from it, part by part, and end with its
// left neighbour.

import { bytesOf } from "../../kernel/element-loops.ts";
import { CollectiveKind, PART_BYTES } from "../../wire/collective-frame.ts";
import type { OperationContext } from "./operation.ts";
import { type PartCursor, RingOperation } from "./ring-operation.ts";

const PART_LENGTH = PART_BYTES / Float32Array.BYTES_PER_ELEMENT;

export class Broadcast extends RingOperation {
  readonly #rootPosition: number;

  constructor(values: Float32Array, root: { readonly rank: number; readonly position: number }) {
    super(values, CollectiveKind.BROADCAST, root.rank);
    this.#rootPosition = root.position;
  }

  protected start(context: OperationContext): void {
    const { position, memberCount } = context;
    const distance = (position - this.#rootPosition + memberCount) % memberCount;
    const right = distance < memberCount - 1 ? this.streamRight(context) : undefined;
    const parts = new BroadcastCursor(this.length);
    if (distance > 0) this.cursor = parts;
    else for (; !parts.isOver; parts.advance()) right?.push(bytesOf(this.values, parts.from, parts.to));
  }
}

/** One part after the other; one at least, so that who calls something else is found. */
class BroadcastCursor implements PartCursor {
  from = 0;
  to: number;
  index = 0;
  isOver = false;
  readonly isPartial = false;
  readonly isHandedOn = true;
  readonly #length: number;

  constructor(length: number) {
    this.#length = length;
    this.to = Math.min(length, PART_LENGTH);
  }

  advance(): void {
    this.index++;
    this.from = this.to;
    this.to = Math.min(this.#length, this.from + PART_LENGTH);
    this.isOver = this.from === this.#length;
  }
}
