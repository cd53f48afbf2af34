// table-parts — the rows of one part of a table: walked, counted and dropped without a look at those of other parts,
// but for the segments that it shares with the parts beside it while the table is small (TableShape.H2).

import { MOVE_ROWS } from "./layout.as";
import { Segment, listSegment } from "./segment.as";
import { remove } from "./table.as";
import { PART_BITS, Table, nextSegmentIndex, partOf } from "./table-shape.as";

/** As `listRows`, for the rows of one part. A cursor that is zero is at the part's beginning. */
export function listPart(t: Table, part: u32, cursor: usize, rowsOut: usize): i32 {
  const first = <u64>part << (32 - PART_BITS), from = max(load<u64>(cursor), first), shift = 32 - <u64>t.depth, index = <u32>(from >> shift);
  if (from >= <u64>(part + 1) << (32 - PART_BITS)) return -1;
  store<u64>(cursor, <u64>nextSegmentIndex(t, index) << shift);
  return listOfPart(changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2))), part, rowsOut);
}

export function countPart(t: Table, part: u32): u32 {
  const end = <u32>((<u64>(part + 1) << t.depth) >> PART_BITS);
  let index = <u32>((<u64>part << t.depth) >> PART_BITS), count: u32 = 0;
  do {
    const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
    count += s.depth >= PART_BITS ? s.entries : <u32>listOfPart(s, part, MOVE_ROWS);
    index = nextSegmentIndex(t, index);
  } while (index < end);
  return count;
}

/** Removes the rows of a part; their memory serves later rows of the table. Returns how many there were. */
export function dropPart(t: Table, part: u32): u32 {
  const before = t.rowCount, end = <u32>((<u64>(part + 1) << t.depth) >> PART_BITS);
  let index = <u32>((<u64>part << t.depth) >> PART_BITS);
  do {
    const s = changetype<Segment>(<usize>load<u32>(<usize>t.directory + (<usize>index << 2)));
    const count = listOfPart(s, part, MOVE_ROWS);
    for (let i = 0; i < count; i++) remove(t, load<u64>(<usize>load<u32>(MOVE_ROWS + (<usize>i << 2))));
    index = nextSegmentIndex(t, index);
  } while (index < end);
  return before - t.rowCount;
}

/** Writes the addresses of a segment's rows of a part; returns how many. */
function listOfPart(s: Segment, part: u32, rowsOut: usize): i32 {
  const count = listSegment(s, rowsOut);
  if (s.depth >= PART_BITS) return <i32>count;
  let out = rowsOut;
  for (let i: usize = 0; i < count; i++) {
    const row = load<u32>(rowsOut + (i << 2));
    store<u32>(out, row);
    out += <usize>(partOf(load<u64>(row)) == part) << 2;
  }
  return <i32>((out - rowsOut) >> 2);
}
