// row-layout — where the parts of a table's row lie, and how many rows are worked on at a time.

import { ROW_KEY_BYTES } from "../kernel/kernels.ts";
import type { RowColumns } from "./table-requests.ts";

const KEY_BYTES = 8;
const WORD_BYTES = 4;
/** Rows of one chunk: a small share of a second-level cache, next to gradients or results. */
const CHUNK_BYTES = 73_728;
/** The kernels probe this many keys together. */
const PROBED_TOGETHER = 128;
const CHUNK_ROWS_MAX = 8 * PROBED_TOGETHER;

export function columnsOf(valueBytes: number, extraBytes: number, versions: boolean): RowColumns {
  const versionBytes = versions ? WORD_BYTES : 0;
  return {
    key: { offset: -ROW_KEY_BYTES, byteCount: KEY_BYTES },
    values: { offset: 0, byteCount: valueBytes },
    slots: { offset: valueBytes, byteCount: extraBytes },
    version: versions ? { offset: valueBytes + extraBytes, byteCount: WORD_BYTES } : undefined,
    payload: { offset: 0, byteCount: valueBytes + extraBytes + versionBytes },
  };
}

/** As many rows as fit a chunk: at least one, whole batches of the kernels where there are several. */
export function chunkRowsFor(rowBytes: number): number {
  const rows = Math.max(1, Math.min(CHUNK_ROWS_MAX, Math.floor(CHUNK_BYTES / rowBytes)));
  return rows < PROBED_TOGETHER ? rows : rows - (rows % PROBED_TOGETHER);
}
