// find-slots — in which slots the rows of some keys are, for whoever keeps a fixed number of rows and a table that says where.
//
//   index     row of the table: [ key u64 | slot u32 ]

import type { Arena } from "../../kernel/arena.ts";
import type { RowKernels } from "../../kernel/row-kernels.ts";
import { NO_SLOT } from "./slot-lists.ts";

const SLOT_BYTES = 4;

export type SlotSearch = {
  /** The table. */
  readonly index: number;
  readonly keys: number;
  readonly keyCount: number;
  /** Where the slot of each key is written (i32), NO_SLOT for those that the index does not know. */
  readonly slots: number;
};

export function findSlots({ words }: Arena, rowKernels: RowKernels, { index, keys, keyCount, slots }: SlotSearch): void {
  rowKernels.findValues(index, keys, keyCount, SLOT_BYTES, slots, 0);
  for (let at = slots >>> 2, end = at + keyCount; at < end; at++) {
    const row = words[at] as number;
    words[at] = row === 0 ? NO_SLOT : (words[row >>> 2] as number);
  }
}
