// copy-keys — enters all keys of one table in another.

import type { Arena } from "../../kernel/arena.ts";
import { CURSOR_BYTES, DONE, type Kernels, LIST_ROWS_MAX } from "../../kernel/kernels.ts";
import { KEY_BYTES } from "../../keys/key-range.ts";

const ROW_BYTES = 4;

export type CopyKeys = {
  readonly source: number;
  readonly target: number;
  /** The first payload u32 of the copied keys. */
  readonly word: number;
};

/** False when the arena is full; the target then has some of the keys. */
export function copyKeys(arena: Arena, kernels: Kernels, tables: CopyKeys): boolean {
  const { source, target, word } = tables;
  const scratchBytes = CURSOR_BYTES + LIST_ROWS_MAX * (KEY_BYTES + ROW_BYTES);
  const cursor = arena.tryAllocate(scratchBytes);
  if (cursor === 0) return false;
  const keys = cursor + CURSOR_BYTES;
  const rows = keys + LIST_ROWS_MAX * KEY_BYTES;
  kernels.zero(cursor, CURSOR_BYTES);
  let fits = true;
  for (let count = 0; fits && count >= 0; ) {
    count = kernels.listRows(source, cursor, rows);
    for (let i = 0; i < count; i++) kernels.copy(keys + i * KEY_BYTES, arena.words[(rows >>> 2) + i]!, KEY_BYTES);
    if (count <= 0) continue;
    fits = kernels.insertRows(target, keys, count) === DONE;
    kernels.setWords(target, keys, count, word);
  }
  arena.release(cursor, scratchBytes);
  return fits;
}
