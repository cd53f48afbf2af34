// shard-header — our part of the header of a shard file: the server that wrote it, its checkpoint, its chunks, and the
// checksum of every section. To others it is a plain safetensors header (safetensors.ts). Pure.
//
// The metadata, all strings:
//   format    "weighbridge-shard"
//   version   "1"
//   job, step, server
//   crc32     8 hexadecimal digits for each section, in the order of their data, without anything between
//
//   ShardHeader.S1. Each section has a checksum, so a reader checks what it reads, and reads no more than it needs.
//   ShardHeader.S2. The sections of a chunk are the columns of its parameter, each once, with the dtype and shape that
//       follow from its rows.

import { checksumText } from "./checkpoint-manifest.ts";
import { type ColumnRecord, chunkKindOf, columnShapeIn, KEYS_COLUMN, type ParameterRecord } from "./parameter-record.ts";
import { decodeHeader, type HeaderSource, LENGTH_BYTES, type TensorEntry } from "./safetensors.ts";
import { type ChunkKey, chunkName, parseSectionName, sectionName } from "./section-name.ts";
import { foreign, torn } from "./snapshot-files.ts";

const SHARD_FORMAT = "weighbridge-shard";
const SHARD_VERSION = "1";
const CHECKSUM_DIGITS = 8;

/** Which checkpoint a shard file belongs to, and who wrote it. */
export type ShardOwner = { readonly job: string; readonly step: number; readonly server: number };

export type Section = {
  readonly column: ColumnRecord;
  /** Where its bytes begin in the file. */
  readonly position: number;
  readonly bytes: number;
  readonly crc32: number;
};

export type Chunk = {
  /** The name of the file it lies in. */
  readonly file: string;
  readonly key: ChunkKey;
  readonly rowCount: number;
  /** By the column's name. */
  readonly sections: ReadonlyMap<string, Section>;
};

export function shardMetadata({ job, step, server }: ShardOwner, checksums: readonly number[]): Record<string, string> {
  const crc32 = checksums.map(checksumText).join("");
  return { format: SHARD_FORMAT, version: SHARD_VERSION, job, step: String(step), server: String(server), crc32 };
}

/** Header bytes for what does not depend on the entries. */
export function shardHeaderBytes(owner: ShardOwner): number {
  return LENGTH_BYTES + new TextEncoder().encode(`{"__metadata__":${JSON.stringify(shardMetadata(owner, []))}}`).byteLength;
}

/** Header bytes for a section besides the JSON of its entry: a comma and its checksum. */
export const SECTION_OVERHEAD_BYTES: number = 1 + CHECKSUM_DIGITS;

/** The entries of a chunk's columns, in the order in which they lie in the file. */
export function chunkEntries(key: ChunkKey, { columns }: ParameterRecord, rowCount: number): Omit<TensorEntry, "dataFrom" | "dataTo">[] {
  return columns.map((column) => ({ name: sectionName(key, column.name), dtype: column.dtype, shape: columnShapeIn(column, rowCount) }));
}

type ShardSource = HeaderSource & {
  /** The file's name in its directory, which `file` may say with more. */
  readonly name: string;
  readonly owner: ShardOwner;
  readonly parameters: ReadonlyMap<string, ParameterRecord>;
  readonly partCount: number;
};

/** The chunks of a shard file. Throws CHECKPOINT_FOREIGN or CHECKPOINT_TORN, naming the file. */
export function decodeShardHeader(header: Uint8Array, source: ShardSource): readonly Chunk[] {
  const { entries, metadata, dataStart } = decodeHeader(header, source);
  requireOwner(metadata, source);
  const checksums = checksumsOf(metadata.crc32 ?? "", entries.length, source.file); // ShardHeader.S1
  const chunks = new Map<string, { key: ChunkKey; entries: Map<string, { entry: TensorEntry; crc32: number }> }>();
  entries.forEach((entry, index) => {
    const parsed = parseSectionName(entry.name);
    if (parsed === undefined) throw foreign(source.file, `has a tensor ${JSON.stringify(entry.name)}, which is no name of ours`);
    const { key, column } = parsed;
    const chunk = chunks.get(chunkName(key)) ?? { key, entries: new Map() };
    chunks.set(chunkName(key), chunk);
    chunk.entries.set(column, { entry, crc32: checksums[index] ?? 0 });
  });
  return [...chunks.values()].map((chunk) => chunkOf(chunk.key, chunk.entries, { ...source, dataStart }));
}

function requireOwner(metadata: Readonly<Record<string, string>>, { file, owner }: ShardSource): void {
  const { format, version, job, step, server } = metadata;
  if (format !== SHARD_FORMAT) throw foreign(file, "is a safetensors file, but no shard of a checkpoint");
  if (version !== SHARD_VERSION) throw foreign(file, `is of version ${JSON.stringify(version)}; this Weighbridge reads ${SHARD_VERSION}`);
  if (job !== owner.job || step !== String(owner.step) || server !== String(owner.server)) {
    const expected = `server ${owner.server}, step ${owner.step} of job ${JSON.stringify(owner.job)}`;
    throw foreign(file, `was written by server ${server}, step ${step} of job ${JSON.stringify(job)}; expected ${expected}`);
  }
}

function checksumsOf(digits: string, entryCount: number, file: string): number[] {
  if (digits.length !== entryCount * CHECKSUM_DIGITS || !/^[0-9a-f]*$/.test(digits)) {
    throw torn(file, `has ${digits.length} digits of checksums for ${entryCount} sections`);
  }
  return Array.from({ length: entryCount }, (_, index) =>
    Number.parseInt(digits.slice(index * CHECKSUM_DIGITS, (index + 1) * CHECKSUM_DIGITS), 16),
  );
}

type EntryOfColumn = ReadonlyMap<string, { readonly entry: TensorEntry; readonly crc32: number }>;

function chunkOf(key: ChunkKey, entries: EntryOfColumn, source: ShardSource & { readonly dataStart: number }): Chunk {
  const { file, parameters, partCount, dataStart, name } = source;
  const subject = JSON.stringify(chunkName(key));
  const parameter = parameters.get(key.parameter);
  if (parameter === undefined) throw foreign(file, `has ${subject}, of a parameter that the manifest does not list`);
  if (chunkKindOf(parameter) !== key.kind) throw foreign(file, `has ${subject}, but the manifest says it is a ${parameter.kind}`);
  const bound = key.kind === "rows" ? parameter.rowCount : partCount;
  if (key.to > bound) throw foreign(file, `has ${subject}, which goes beyond the ${bound} ${key.kind} there are`);
  const rowCount = key.kind === "rows" ? key.to - key.from : (entries.get(KEYS_COLUMN)?.entry.shape[0] ?? 0);
  const sections = new Map<string, Section>();
  for (const column of parameter.columns) {
    const found = entries.get(column.name);
    if (found === undefined) throw torn(file, `has ${subject} without its column ${column.name}`);
    const { entry, crc32 } = found;
    const shape = columnShapeIn(column, rowCount); // ShardHeader.S2
    if (entry.dtype !== column.dtype || entry.shape.join() !== shape.join()) {
      const expected = `${column.dtype} [${shape.join(", ")}]`;
      throw torn(file, `has ${JSON.stringify(entry.name)} as ${entry.dtype} [${entry.shape.join(", ")}]; expected ${expected}`);
    }
    sections.set(column.name, { column, position: dataStart + entry.dataFrom, bytes: entry.dataTo - entry.dataFrom, crc32 });
  }
  if (sections.size !== entries.size) throw torn(file, `has ${subject} with columns that its parameter has not`);
  return { file: name, key, rowCount, sections };
}
