// Goal: parts that go round the ring cover the array once as partial sums and once as complete ones, in the same order
// at sender and receiver.

import assert from "node:assert/strict";
import { test } from "node:test";
import { PART_BYTES } from "../../wire/collective-frame.ts";
import { partsOf, RingCursor, segmentFrom } from "./ring-cursor.ts";

/** Of f64. */
const PART_LENGTH = PART_BYTES / 8;

type Part = { readonly from: number; readonly to: number; readonly isPartial: boolean; readonly isHandedOn: boolean };

function received(length: number, position: number, memberCount: number): Part[] {
  const parts: Part[] = [];
  for (const cursor = new RingCursor({ length, position, memberCount, partLength: PART_LENGTH }); !cursor.isOver; cursor.advance()) {
    assert.equal(cursor.index, parts.length);
    const { from, to, isPartial, isHandedOn } = cursor;
    parts.push({ from, to, isPartial, isHandedOn });
  }
  return parts;
}

/** Its own segment first, then what it was handed. */
function sent(length: number, position: number, memberCount: number): { from: number; to: number }[] {
  const ring = { length, position, memberCount };
  const own = [...partsOf(segmentFrom(position, ring), segmentFrom(position + 1, ring), PART_LENGTH)];
  const handedOn = received(length, position, memberCount).filter(({ isHandedOn }) => isHandedOn);
  return [...own, ...handedOn.map(({ from, to }) => ({ from, to }))];
}

test("what a member sends is, part by part, what its right neighbour waits for", () => {
  for (const memberCount of [2, 3, 5, 8]) {
    for (const length of [1, memberCount - 1, memberCount, 1001, memberCount * PART_LENGTH + 1, 3 * memberCount * PART_LENGTH - 7]) {
      for (let position = 0; position < memberCount; position++) {
        const expected = received(length, (position + 1) % memberCount, memberCount).map(({ from, to }) => ({ from, to }));
        assert.deepEqual(sent(length, position, memberCount), expected, `${length} elements, member ${position} of ${memberCount}`);
      }
    }
  }
});

test("every element comes complete once, but for the segment that is completed here, and as a partial sum once, but for its own segment", () => {
  const [length, memberCount] = [1003, 4];
  for (let position = 0; position < memberCount; position++) {
    const counts = { partial: new Uint8Array(length), complete: new Uint8Array(length) };
    for (const { from, to, isPartial } of received(length, position, memberCount))
      for (let i = from; i < to; i++) counts[isPartial ? "partial" : "complete"][i]!++;
    const ring = { length, position, memberCount };
    const isIn = (segment: number, i: number): boolean => i >= segmentFrom(segment, ring) && i < segmentFrom(segment + 1, ring);
    for (let i = 0; i < length; i++) {
      assert.equal(counts.partial[i], isIn(position, i) ? 0 : 1);
      assert.equal(counts.complete[i], isIn((position + 1) % memberCount, i) ? 0 : 1);
    }
  }
});
