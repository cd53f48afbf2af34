// expected-rows — what a checkpoint has for this server, before any of it is read: the rows of its tables and the keys
// of sums by part, and the memory for all of it. Exact if the placement is that of the checkpoint; otherwise it assumes
// that a chunk is spread evenly over its parts.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { type Arena, arenaBytesFor } from "../../kernel/arena.ts";
import { evenRanges, type Range } from "../../keys/key-range.ts";
import { PART_COUNT } from "../../keys/part.ts";
import type { CheckpointManifest, ServerRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import { sumsOf } from "../../store/snapshot/describe-sums.ts";
import { type ParameterRecord, rowBytesOf } from "../../store/snapshot/parameter-record.ts";
import type { Chunk } from "../../store/snapshot/shard-header.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import type { Ownership } from "../ownership.ts";

/** Of a row in the index of a table, approximately. */
const INDEX_BYTES_PER_ROW = 8;
/** An approximate bound of what a table or tensor takes beside its rows. */
const PARAMETER_BYTES = 2 ** 18;
const ARENA_BYTES_MAX = 2 ** 32;

/** The servers that had what this one has: itself if it had the same parts, otherwise all. */
export function sourcesOf({ servers }: CheckpointManifest, ownership: Ownership): readonly ServerRecord[] {
  const own = servers.find(({ rank }) => rank === ownership.rank);
  return own !== undefined && ownership.isSameAs(own.state.placement) ? [own] : servers;
}

/** How many rows of a table come to this server, by part. */
export function expectedRows(source: SnapshotSource, name: string, ownership: Ownership): Float64Array {
  const byPart = new Float64Array(PART_COUNT);
  const sources = sourcesOf(source.manifest, ownership);
  const isExact = sources.every(({ rank, state }) => rank === ownership.rank && ownership.isSameAs(state.placement));
  const files = new Set(sources.flatMap((server) => server.files.map(({ file }) => file)));
  for (const { file, key, rowCount } of source.chunks(name)) {
    if (!files.has(file)) continue;
    const to = Math.min(key.to, PART_COUNT);
    let ownCount = 0;
    for (let part = key.from; part < to; part++) if (ownership.ownsPart(part)) ownCount++;
    const share = rowCount / (isExact ? ownCount : to - key.from);
    for (let part = key.from; part < to; part++) if (ownership.ownsPart(part)) byPart[part]! += share;
  }
  return byPart;
}

/** How many keys of sums come to this server, by part. */
export function expectedSums(source: SnapshotSource, record: ParameterRecord, ownership: Ownership): Float64Array {
  const shares = sharesOf(source, record, ownership);
  if (shares === undefined) return expectedRows(source, record.name, ownership);
  const byPart = new Float64Array(PART_COUNT);
  for (const { file, key, rowCount } of source.chunks(record.name)) {
    const perPart = (rowCount * (shares.get(file) ?? 0)) / (key.to - key.from);
    for (let part = key.from; part < Math.min(key.to, PART_COUNT); part++) byPart[part]! += perPart;
  }
  return byPart;
}

/** By file: the share of its raw keys that is this server's now, from 0 to 1, if they are spread evenly. */
type Shares = ReadonlyMap<Chunk["file"], number>;

/** Undefined for sums that are placed by parts: data. */
export function sharesOf({ manifest, path }: SnapshotSource, record: ParameterRecord, ownership: Ownership): Shares | undefined {
  if (sumsOf(record, path).owner === "data") return undefined;
  const { servers } = manifest;
  const own = rangeOf(ownership.placement, ownership.rank);
  const isByRank = isAppCut(manifest);
  return new Map(
    servers.flatMap(({ rank, state, files }) => {
      const share = isByRank ? Number(rank === ownership.rank) : overlap(own, rangeOf(state.placement, rank));
      return files.map(({ file }) => [file, share] as const);
    }),
  );
}

/** The raw keys of a server in a placement; all if it is unknown. */
function rangeOf(placement: unknown, rank: number): Range {
  const { servers } = (placement ?? {}) as { readonly servers?: unknown };
  const [all] = evenRanges(1) as [Range];
  if (!Array.isArray(servers)) return all;
  const index = servers.indexOf(rank);
  return evenRanges(servers.length)[index] ?? { begin: 0n, end: 0n }; // a server outside of the placement owns nothing
}

/** The share of the other range that lies in the first. */
function overlap(own: Range, other: Range): number {
  let { begin, end } = own;
  if (other.begin > begin) begin = other.begin;
  if (other.end < end) end = other.end;
  return end <= begin ? 0 : Number(end - begin) / Number(other.end - other.begin);
}

/** Whether an application chose the servers of its requests itself. */
export function isAppCut({ servers }: CheckpointManifest): boolean {
  return servers.some(({ state }) => state.appCut === true);
}

/** How many bytes of state this server needs for all of a checkpoint, about. */
function neededBytes(source: SnapshotSource, numbers: readonly number[], ownership: Ownership): number {
  return source.manifest.parameters.reduce((bytes, record, i) => {
    const rows =
      record.kind === "tensor"
        ? tensorRows(source, record, numbers[i] ?? 0, ownership)
        : sum(record.kind === "table" ? expectedRows(source, record.name, ownership) : expectedSums(source, record, ownership));
    const rowBytes = rowBytesOf(record.columns);
    return bytes + rows * (rowBytes + (record.kind === "tensor" ? 0 : INDEX_BYTES_PER_ROW)) + PARAMETER_BYTES;
  }, 0);
}

function tensorRows(source: SnapshotSource, record: ParameterRecord, number: number, ownership: Ownership): number {
  const chunks = source.chunks(record.name);
  const rowsPerBlock = chunks.reduce((most, { rowCount }) => Math.max(most, rowCount), 1);
  return chunks.reduce(
    (total, { key, rowCount }) => total + (ownership.ownsBlock(number, Math.floor(key.from / rowsPerBlock)) ? rowCount : 0),
    0,
  );
}

function sum(counts: Float64Array): number {
  return counts.reduce((total, count) => total + count, 0);
}

/** The same failure; where it is for want of room, with the size of the arena that would do. */
export function explainedRoom(
  thrown: unknown,
  {
    source,
    numbers,
    ownership,
    arena,
  }: { readonly source: SnapshotSource; readonly numbers: readonly number[]; readonly ownership: Ownership; readonly arena: Arena },
): unknown {
  if (!isWeighbridgeError(thrown, "ARENA_FULL")) return thrown;
  const needed = Math.ceil(neededBytes(source, numbers, ownership));
  const size = arenaBytesFor(Math.max(needed, arena.stateBytesMax + 1));
  const helps =
    size <= ARENA_BYTES_MAX ? `start it with --arena-bytes-max ${size} or more, or with more servers` : "start the job with more servers";
  const has = `its arena of ${arena.bytesMax} bytes has ${arena.stateBytesMax} for parameters`;
  return new WeighbridgeError("ARENA_FULL", `${source.path} needs about ${needed} bytes on this server, and ${has}: ${helps}`, {
    cause: thrown,
  });
}
