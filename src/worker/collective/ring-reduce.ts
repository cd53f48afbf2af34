// ring-reduce — an all-reduce of a large array: partial sums go round the ring of members, then complete ones do
// (ring-cursor.ts). A part is added where the link has read it, complete ones are read to where they belong, and both
// leave from there. Every member sends and receives 2 · (n − 1) ÷ n times the array.
//
// A part may be overwritten while it is still unanswered: by the complete sum of it. That has come round the ring
// through the receiver, which so has taken the part; if it is sent again, it is known there by its number, and dropped.

import { bytesOf } from "../../kernel/element-loops.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import { CollectiveKind, PART_BYTES } from "../../wire/collective-frame.ts";
import type { OperationContext } from "./operation.ts";
import { partsOf, RingCursor, segmentFrom } from "./ring-cursor.ts";
import { RingOperation } from "./ring-operation.ts";

export class RingReduce extends RingOperation {
  constructor(values: RowArray, root: number) {
    super(values, CollectiveKind.ALL_REDUCE, root);
  }

  protected start(context: OperationContext): void {
    const { position, memberCount } = context;
    const ring = { length: this.length, position, memberCount, partLength: PART_BYTES / this.values.BYTES_PER_ELEMENT };
    this.cursor = new RingCursor(ring);
    const right = this.streamRight(context);
    for (const { from, to } of partsOf(segmentFrom(position, ring), segmentFrom(position + 1, ring), ring.partLength))
      right.push(bytesOf(this.values, from, to));
  }
}
