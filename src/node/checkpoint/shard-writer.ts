// shard-writer — ShardWriter writes the data of one server into shard files of a checkpoint, chunk by chunk, while the
// server goes on. A chunk's row count must be known when it is opened; the number of chunks need not be. When a file is
// full, the next chunk goes into a new one. The checkpoint exists only once the files of all servers are committed
// (checkpoint-directory.ts).
//
// Invariants:
//   ShardWriter.W4. A file in `finish`'s result has its final name, is on the disk, and holds every section whole.
//   ShardWriter.W5. After the first failure every call fails with that error, and the files are removed.

import { join } from "node:path";
import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { InTurn } from "../../base/in-turn.ts";
import { checksumText, type ShardFileRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import { chunkKindOf, type ParameterRecord } from "../../store/snapshot/parameter-record.ts";
import { encodeHeader, entryJson, type TensorEntry, tensorBytes } from "../../store/snapshot/safetensors.ts";
import type { ChunkKey } from "../../store/snapshot/section-name.ts";
import {
  chunkEntries,
  SECTION_OVERHEAD_BYTES,
  type ShardOwner,
  shardHeaderBytes,
  shardMetadata,
} from "../../store/snapshot/shard-header.ts";
import type { ChunkSink, ShardSink } from "../../store/snapshot/snapshot-files.ts";
import { type FileLayer, realFiles } from "./file-layer.ts";
import { type OpenSection, SectionFile } from "./section-file.ts";

/** Room for about 2,000 sections; a file whose header is full counts as full, as one that has FILE_BYTES_MAX. */
const HEADER_BYTES = 256 << 10;
const FILE_BYTES_MAX = 2 * 2 ** 30;
const ALIGNMENT = 8;

export type ShardWriterOptions = {
  /** The pending checkpoint's directory. */
  readonly directory: string;
  readonly owner: ShardOwner;
  readonly parameters: readonly ParameterRecord[];
  readonly layer?: FileLayer;
  /** A file beyond this size gets no further chunk; a single chunk may be larger. */
  readonly fileBytesMax?: number;
  /** Reserved at the start of each file for its header; a multiple of 8. */
  readonly headerBytes?: number;
};

type ShardFile = {
  readonly name: string;
  readonly file: SectionFile;
  readonly entries: TensorEntry[];
  readonly sections: OpenSection[];
  /** Of the header so far. */
  headerBytes: number;
};

export class ShardWriter implements ShardSink {
  readonly #options: Required<ShardWriterOptions>;
  readonly #parameters: ReadonlyMap<string, ParameterRecord>;
  readonly #files: ShardFile[] = [];
  #ordinal = 0;
  /** Chunks are opened one after the other: a file that is being created is not created twice. */
  readonly #opening = new InTurn();
  #error: WeighbridgeError | undefined;

  constructor(options: ShardWriterOptions) {
    this.#options = { layer: realFiles, fileBytesMax: FILE_BYTES_MAX, headerBytes: HEADER_BYTES, ...options };
    assert(this.#options.headerBytes % ALIGNMENT === 0, "the header's size is a multiple of 8 bytes");
    this.#parameters = new Map(options.parameters.map((parameter) => [parameter.name, parameter]));
  }

  openRows(parameter: string, { from, to }: { readonly from: number; readonly to: number }): Promise<ChunkSink> {
    return this.#open({ kind: "rows", parameter, from, to }, to - from);
  }

  openParts(
    parameter: string,
    { from, to, rowCount }: { readonly from: number; readonly to: number; readonly rowCount: number },
  ): Promise<ChunkSink> {
    return this.#open({ kind: "parts", parameter, from, to, ordinal: this.#ordinal++ }, rowCount);
  }

  async finish(): Promise<readonly ShardFileRecord[]> {
    await this.#opening.ended;
    const records: ShardFileRecord[] = [];
    try {
      for (const shard of this.#files) records.push(await this.#finishFile(shard));
    } catch (cause) {
      await this.abandon();
      throw cause;
    }
    return records;
  }

  async abandon(): Promise<void> {
    this.#error ??= new WeighbridgeError("CLOSED", `the shard of server ${this.#options.owner.server} was abandoned`);
    await this.#opening.ended;
    const { layer, directory } = this.#options;
    for (const { file, name } of this.#files) {
      await file.abandon();
      // If it fails: the server that began the checkpoint removes the whole directory.
      await layer.remove(join(directory, name)).catch(() => {});
    }
  }

  #open(key: ChunkKey, rowCount: number): Promise<ChunkSink> {
    return this.#opening.run(() => this.#openChunk(key, rowCount));
  }

  async #openChunk(key: ChunkKey, rowCount: number): Promise<ChunkSink> {
    if (this.#error !== undefined) throw this.#error;
    const parameter = this.#parameters.get(key.parameter);
    assert(parameter !== undefined && chunkKindOf(parameter) === key.kind, `${key.parameter} is not saved by ${key.kind}`);
    assert(key.from < key.to && rowCount >= 0, `${key.from} to ${key.to} of ${key.parameter} is not a chunk`);
    const tensors = chunkEntries(key, parameter, rowCount);
    const bytes = tensors.reduce((sum, tensor) => sum + tensorBytes(tensor), 0);
    const shard = await this.#fileWithRoomFor(tensors, bytes);
    const sections = new Map<string, OpenSection>();
    tensors.forEach((tensor, index) => {
      const section = shard.file.add(tensorBytes(tensor));
      const dataFrom = section.position - shard.file.headerBytes;
      const entry: TensorEntry = { ...tensor, dataFrom, dataTo: dataFrom + section.bytes };
      shard.entries.push(entry);
      shard.sections.push(section);
      shard.headerBytes += headerBytesOf(entry);
      sections.set(parameter.columns[index]?.name ?? "", section);
    });
    return {
      write: (column, data) => {
        const section = sections.get(column);
        assert(section !== undefined, `${key.parameter} has no column ${column}`);
        return shard.file.write(section, data);
      },
    };
  }

  async #fileWithRoomFor(tensors: readonly Omit<TensorEntry, "dataFrom" | "dataTo">[], bytes: number): Promise<ShardFile> {
    const last = this.#files.at(-1);
    const { headerBytes: headerBytesMax, fileBytesMax } = this.#options;
    // No offset has more digits than the end of the largest file.
    const dataTo = (last?.file.bytes ?? 0) + bytes;
    const headerBytes = tensors.reduce((sum, tensor) => sum + headerBytesOf({ ...tensor, dataFrom: dataTo, dataTo }), 0);
    if (last !== undefined && last.headerBytes + headerBytes <= headerBytesMax && dataTo <= fileBytesMax) return last;
    const { layer, directory, owner } = this.#options;
    const name = shardFileName(owner.server, this.#files.length);
    const empty = shardHeaderBytes(owner);
    const needed = Math.max(headerBytesMax, Math.ceil((empty + headerBytes) / ALIGNMENT) * ALIGNMENT);
    const file = await SectionFile.create({ layer, path: join(directory, name), headerBytes: needed });
    const shard: ShardFile = { name, file, entries: [], sections: [], headerBytes: empty };
    this.#files.push(shard);
    return shard;
  }

  async #finishFile({ name, file, entries, sections }: ShardFile): Promise<ShardFileRecord> {
    if (this.#error !== undefined) throw this.#error;
    for (const [index, { taken, bytes }] of sections.entries()) {
      assert(taken === bytes, `${entries[index]?.name} of ${name} has ${taken} of ${bytes} bytes`); // ShardWriter.W4
    }
    const metadata = shardMetadata(
      this.#options.owner,
      sections.map((section) => section.crc32),
    );
    const header = encodeHeader(entries, { metadata, reservedBytes: file.headerBytes });
    await file.finish(header);
    return { file: name, bytes: file.bytes, headerCrc32: checksumText(crc32(header)) };
  }
}

function headerBytesOf(entry: TensorEntry): number {
  return Buffer.byteLength(entryJson(entry)) + SECTION_OVERHEAD_BYTES;
}

/** `server-002-000.safetensors`: the server's rank, and the number of its file. */
export function shardFileName(server: number, index: number): string {
  return `server-${String(server).padStart(3, "0")}-${String(index).padStart(3, "0")}.safetensors`;
}
