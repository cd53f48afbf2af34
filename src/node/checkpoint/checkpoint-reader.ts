// checkpoint-reader — CheckpointReader opens a checkpoint and reads it chunk by chunk, for any number of servers: each
// reads the chunks that it owns and nothing else. `open` reads and checks manifest and headers; data is read on
// request.
//
// Invariants:
//   CheckpointReader.Q1. Bytes are passed on after their checksum was verified; a chunk beyond BATCH_BYTES is verified
//       as it is read, and the call fails at its end.
//   CheckpointReader.Q2. An error names the file and says what is wrong with it. Reading changes nothing.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import {
  type CheckpointManifest,
  checksumText,
  decodeManifest,
  MANIFEST_FILE,
  type ShardFileRecord,
} from "../../store/snapshot/checkpoint-manifest.ts";
import { chunksByParameter, coverageProblems } from "../../store/snapshot/coverage.ts";
import { columnBytesPerRow, rowBytesOf } from "../../store/snapshot/parameter-record.ts";
import { decodeHeaderBytes, LENGTH_BYTES } from "../../store/snapshot/safetensors.ts";
import { chunkName } from "../../store/snapshot/section-name.ts";
import { type Chunk, decodeShardHeader, type Section } from "../../store/snapshot/shard-header.ts";
import { type SnapshotSource, type SourceBatch, torn } from "../../store/snapshot/snapshot-files.ts";
import { attempt, type FileLayer, type OpenFile, readFully, readSmallFile, realFiles } from "./file-layer.ts";

const MANIFEST_BYTES_MAX = 256 << 20;
/** Of all columns together. */
const BATCH_BYTES = 4 << 20;

export type ReaderOptions = {
  readonly layer?: FileLayer | undefined;
  /** Turns an error that occurs while data is read into the one to throw. */
  readonly explain?: ((thrown: unknown) => Promise<unknown>) | undefined;
};

export type OpenShard = { readonly file: OpenFile; readonly path: string };

export class CheckpointReader implements SnapshotSource, AsyncDisposable {
  /** The checkpoint's directory. */
  readonly path: string;
  readonly manifest: CheckpointManifest;
  readonly #chunks: ReadonlyMap<string, readonly Chunk[]>;
  readonly #shards: ReadonlyMap<string, OpenShard>;
  readonly #explain: (thrown: unknown) => Promise<unknown>;

  private constructor(
    opened: OpenedShards & Pick<ReaderOptions, "explain"> & { readonly path: string; readonly manifest: CheckpointManifest },
  ) {
    this.path = opened.path;
    this.manifest = opened.manifest;
    this.#shards = opened.shards;
    this.#chunks = chunksByParameter(opened.chunks);
    this.#explain = opened.explain ?? ((thrown) => Promise.resolve(thrown));
  }

  /**
   * `path` is the checkpoint's own directory (find-checkpoint.ts). Throws CHECKPOINT_MISSING, _TORN, _FOREIGN or _IO.
   */
  static async open(path: string, { layer = realFiles, explain }: ReaderOptions = {}): Promise<CheckpointReader> {
    const manifest = await readManifest(path, layer);
    const opened = await openShards(path, manifest, layer);
    const reader = new CheckpointReader({ path, manifest, explain, ...opened });
    const [problem] = coverageProblems(manifest, reader.#chunks);
    if (problem === undefined) return reader;
    await reader.close();
    throw new WeighbridgeError("CHECKPOINT_TORN", `${path}: ${problem}`);
  }

  chunks(parameter: string): readonly Chunk[] {
    return this.#chunks.get(parameter) ?? [];
  }

  async readColumn(chunk: Chunk, column: string, into: Uint8Array): Promise<void> {
    await this.#explained(() => this.#readColumn(chunk, column, into));
  }

  async readRows(chunk: Chunk, take: (batch: SourceBatch) => void | Promise<void>): Promise<void> {
    await this.#explained(() => this.#readRows(chunk, take));
  }

  async #explained(read: () => Promise<void>): Promise<void> {
    try {
      await read();
    } catch (thrown) {
      throw await this.#explain(thrown);
    }
  }

  async #readColumn(chunk: Chunk, column: string, into: Uint8Array): Promise<void> {
    const section = sectionOf(chunk, column);
    assert(
      into.byteLength === section.bytes,
      `${into.byteLength} bytes for ${column} of ${chunkName(chunk.key)}, which has ${section.bytes}`,
    );
    const shard = this.#shardOf(chunk);
    const counted = await readSection(shard, section, (from) => into.subarray(from, from + BATCH_BYTES));
    requireChecksum(counted, { chunk, section, path: shard.path });
  }

  async #readRows(chunk: Chunk, take: (batch: SourceBatch) => void | Promise<void>): Promise<void> {
    const columns = [...chunk.sections.keys()].map((name) => ({ name, section: sectionOf(chunk, name), counted: 0 }));
    const rowBytes = rowBytesOf(columns.map(({ section }) => section.column));
    const batchRows = Math.max(1, Math.min(chunk.rowCount, Math.floor(BATCH_BYTES / rowBytes)));
    const buffers = new Map(columns.map(({ name, section }) => [name, new Uint8Array(batchBytesOf(section, batchRows))]));
    const { file, path } = this.#shardOf(chunk);
    for (let rowFrom = 0; rowFrom < chunk.rowCount || rowFrom === 0; rowFrom += batchRows) {
      const rowCount = Math.min(batchRows, chunk.rowCount - rowFrom);
      const isLast = rowFrom + rowCount === chunk.rowCount;
      const batch = new Map<string, Uint8Array>();
      for (const column of columns) {
        const { name, section } = column;
        const bytes = buffers.get(name)?.subarray(0, batchBytesOf(section, rowCount)) ?? new Uint8Array();
        batch.set(name, bytes);
        if (rowFrom > 0 && section.column.per === "chunk") continue;
        const position = section.position + rowFrom * columnBytesPerRow(section.column);
        await readFully(file, bytes, position, path);
        column.counted = crc32(bytes, column.counted);
        // CheckpointReader.Q1
        if (isLast || section.column.per === "chunk") requireChecksum(column.counted, { chunk, section, path });
      }
      await take({ rowCount, columns: batch });
    }
  }

  async close(): Promise<void> {
    for (const { file } of this.#shards.values()) await file.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #shardOf({ file }: Chunk): OpenShard {
    const shard = this.#shards.get(file);
    assert(shard !== undefined, `${file} is not of this checkpoint`);
    return shard;
  }
}

export async function readManifest(path: string, layer: FileLayer = realFiles): Promise<CheckpointManifest> {
  const file = join(path, MANIFEST_FILE);
  return decodeManifest(await readSmallFile(layer, file, MANIFEST_BYTES_MAX), { file, crc32 });
}

type OpenedShards = { readonly shards: ReadonlyMap<string, OpenShard>; readonly chunks: readonly Chunk[] };

async function openShards(path: string, manifest: CheckpointManifest, layer: FileLayer): Promise<OpenedShards> {
  const shards = new Map<string, OpenShard>();
  const chunks: Chunk[] = [];
  try {
    for (const { rank, files } of manifest.servers) {
      for (const record of files) {
        const shardPath = join(path, record.file);
        const file = await attempt(`cannot open ${shardPath}`, () => layer.open(shardPath));
        const shard = { path: shardPath, file };
        shards.set(record.file, shard);
        for (const chunk of await readShardHeader(shard, { record, manifest, server: rank })) chunks.push(chunk);
      }
    }
  } catch (cause) {
    for (const { file } of shards.values()) await file.close();
    throw cause;
  }
  return { shards, chunks };
}

export type ExpectedShard = { readonly record: ShardFileRecord; readonly manifest: CheckpointManifest; readonly server: number };

/** Checks a shard file's length and header against the manifest. */
export async function readShardHeader({ file, path }: OpenShard, { record, manifest, server }: ExpectedShard): Promise<readonly Chunk[]> {
  const fileBytes = await attempt(`cannot read ${path}`, () => file.size());
  const source = { file: path, fileBytes };
  const start = new Uint8Array(Math.min(LENGTH_BYTES, fileBytes));
  await readFully(file, start, 0, path);
  const header = new Uint8Array(decodeHeaderBytes(start, source));
  await readFully(file, header, LENGTH_BYTES, path);
  const parameters = new Map(manifest.parameters.map((parameter) => [parameter.name, parameter]));
  const owner = { job: manifest.job, step: manifest.step, server };
  // First what the file itself says: "of another checkpoint" is a better answer than "another checksum".
  const chunks = decodeShardHeader(header, { ...source, name: record.file, owner, parameters, partCount: manifest.partCount });
  const counted = checksumText(crc32(header, crc32(start)));
  if (fileBytes !== record.bytes || counted !== record.headerCrc32) {
    const what = `${fileBytes} bytes and a header of checksum ${counted}; the manifest says ${record.bytes} and ${record.headerCrc32}`;
    throw torn(path, `was changed after it was written: it has ${what}`);
  }
  return chunks;
}

/** Reads a section piece by piece, each into the memory that `pieceAt` returns for it. Returns the checksum of all. */
export async function readSection({ file, path }: OpenShard, section: Section, pieceAt: (from: number) => Uint8Array): Promise<number> {
  let counted = 0;
  for (let from = 0; from < section.bytes; ) {
    const piece = pieceAt(from);
    await readFully(file, piece, section.position + from, path);
    counted = crc32(piece, counted);
    from += piece.byteLength;
  }
  return counted;
}

function sectionOf({ sections, key }: Chunk, column: string): Section {
  const section = sections.get(column);
  assert(section !== undefined, `${key.parameter} has no column ${column}`);
  return section;
}

function batchBytesOf({ column, bytes }: Section, rowCount: number): number {
  return column.per === "chunk" ? bytes : rowCount * columnBytesPerRow(column);
}

type Checked = { readonly chunk: Chunk; readonly section: Section; readonly path: string };

export function requireChecksum(counted: number, { chunk, section, path }: Checked): void {
  if (counted === section.crc32) return;
  const what = `${section.column.name} of ${chunkName(chunk.key)} has checksum ${checksumText(counted)}, not ${checksumText(section.crc32)}`;
  throw torn(path, `was changed after it was written: ${what}`);
}
