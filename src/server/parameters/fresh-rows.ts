// fresh-rows — the rows that a cache lacks, read from a table that counts versions: those it has that are too far
// behind, and those it has not. The table checks first whether it may be cached, and the keys' bounds
// (table-parameter).
//
//   keys      known │ to keep │ only to read          as the cache sends them
//   answer    indexes u32 │ versions u32 │ rows       one piece of the arena, room for all keys
//
// Invariants:
//   FreshRows.F1. Memory is allocated before anything is read or pushed: reading cannot fail.

import { badRequest } from "../../base/errors.ts";
import type { FreshRows, RowsSync } from "../../contracts/cached-rows.ts";
import type { Arena } from "../../kernel/arena.ts";
import { FLOAT_BYTES, INDEX_BYTES, KEY_BYTES } from "../../kernel/elements.ts";
import { VERSION_NONE } from "../../kernel/row-kernels.ts";
import type { TableSpec } from "../../store/parameter-spec.ts";
import type { TableStore } from "../../store/table-store.ts";
import { type CallMemory, roomFor } from "./call-memory.ts";

/** Where an answer is written. */
export type FreshRoom = { readonly indexesOut: number; readonly versionsOut: number; readonly rowsOut: number };

/** The memory that an answer needs at most; `memory` holds it (FreshRows.F1). Throws BAD_REQUEST, ARENA_FULL. */
export function freshRoom(
  arena: Arena,
  { name, width }: TableSpec,
  { keys, versions, keptCount }: RowsSync,
  memory: CallMemory,
): FreshRoom {
  const { length: keyCount } = keys;
  if (versions.length + keptCount > keyCount) {
    const requested = `${versions.length} known and ${keptCount} kept rows`;
    throw badRequest(`${requested} among ${keyCount} keys of ${name}`);
  }
  const indexesOut = roomFor(arena, keyCount * (2 * INDEX_BYTES + width * FLOAT_BYTES), memory);
  const versionsOut = indexesOut + keyCount * INDEX_BYTES;
  return { indexesOut, versionsOut, rowsOut: versionsOut + keyCount * INDEX_BYTES };
}

export function readFresh({ memory }: Arena, store: TableStore, sync: RowsSync, room: FreshRoom): Omit<FreshRows, "rate"> {
  const { keys, versions, keptCount } = sync;
  const staleCount = readStale(store, sync, room);
  readUnknown(store, sync, room.versionsOut + staleCount * INDEX_BYTES, room.rowsOut + staleCount * store.width * FLOAT_BYTES);
  const { buffer } = memory;
  return {
    generation: store.generation,
    indexes: new Uint32Array(buffer, room.indexesOut, staleCount),
    versions: new Uint32Array(buffer, room.versionsOut, staleCount + keptCount),
    rows: new Float32Array(buffer, room.rowsOut, (staleCount + keys.length - versions.length) * store.width),
  };
}

/** The rows that a cache has and that are too far behind; all of them when its versions are of another generation. */
function readStale(store: TableStore, { keys, versions, bound, generation }: RowsSync, room: FreshRoom): number {
  const { length: keyCount } = versions;
  if (generation !== store.generation) versions.fill(VERSION_NONE); // in the request's own memory
  return store.sync({ keys: keys.byteOffset, keyCount, known: versions.byteOffset, bound, ...room });
}

/** The rows that a cache does not have, with versions for those it wants to keep. */
function readUnknown(store: TableStore, { keys, versions, keptCount }: RowsSync, versionsOut: number, rowsOut: number): void {
  const kept = keys.byteOffset + versions.length * KEY_BYTES;
  store.pull({ keys: kept, keyCount: keptCount, out: rowsOut, versionsOut });
  const out = rowsOut + keptCount * store.width * FLOAT_BYTES;
  store.pull({ keys: kept + keptCount * KEY_BYTES, keyCount: keys.length - versions.length - keptCount, out });
}
