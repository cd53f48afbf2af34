// section-file — SectionFile writes a file of sections behind a header that is known last. A section gets its offset
// when it is added; sections are then filled in any order and side by side, and the checksum of each is computed on the
// way. Nothing is copied: bytes go to the disk from where they are, at most WRITE_BYTES at a time, so that neither the
// size of a section nor that of the file costs memory or a long turn of the event loop.
//
// Invariants:
//   SectionFile.W1. Until `finish`, the file has another name (.tmp) and no header: nobody mistakes it for a complete
//       one.
//   SectionFile.W2. After the first error every further call fails with the same error, and the .tmp file is removed.
//   SectionFile.W3. The bytes of a section are written, and included in its checksum, in the order of the calls.

import { crc32 } from "node:zlib";
import { assert } from "../../base/assert.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { attempt, type FileLayer, fileError, type OpenFile, writeFully } from "./file-layer.ts";

/** The checksum of this many bytes takes about a quarter of a millisecond. */
const WRITE_BYTES = 1 << 20;
/** More writes at once are no faster, and each occupies a thread of the pool. */
const WRITES_MAX = 2;
/** The file is synced every this many bytes, instead of all at the end. */
const SYNC_BYTES = 128 << 20;

/** A part of the file that is being filled. */
export type OpenSection = {
  readonly position: number;
  readonly bytes: number;
  /** Bytes passed to `write` so far. */
  taken: number;
  crc32: number;
};

type Piece = {
  readonly section: OpenSection;
  readonly bytes: Uint8Array;
  readonly position: number;
  /** How much of it was sent to the disk. */
  sent: number;
  /** Writes under way. */
  open: number;
  readonly resolve: () => void;
  readonly reject: (error: WeighbridgeError) => void;
};

export type SectionFileOptions = {
  readonly layer: FileLayer;
  readonly path: string;
  /** Reserved for the header. */
  readonly headerBytes: number;
};

export class SectionFile {
  readonly path: string;
  readonly headerBytes: number;
  readonly #layer: FileLayer;
  readonly #file: OpenFile;
  readonly #queue: Piece[] = [];
  #end: number;
  #writeCount = 0;
  #unsyncedBytes = 0;
  #syncing: Promise<void> | undefined;
  #error: WeighbridgeError | undefined;
  #isClosed = false;
  #isRemoving = false;
  readonly #removed = Promise.withResolvers<void>();

  private constructor({ layer, path, headerBytes }: SectionFileOptions, file: OpenFile) {
    this.path = path;
    this.headerBytes = headerBytes;
    this.#layer = layer;
    this.#file = file;
    this.#end = headerBytes;
  }

  /** Throws CHECKPOINT_IO if it cannot be created. Replaces a .tmp file of that name, which a dead writer left. */
  static async create(options: SectionFileOptions): Promise<SectionFile> {
    const { layer, path } = options;
    const temporary = `${path}.tmp`;
    await attempt(`cannot remove ${temporary}`, () => layer.remove(temporary));
    return new SectionFile(options, await attempt(`cannot create ${temporary}`, () => layer.create(temporary)));
  }

  /** The file's length so far. */
  get bytes(): number {
    return this.#end;
  }

  get #temporary(): string {
    return `${this.path}.tmp`;
  }

  /** Reserves the next `bytes` of the file for a section. */
  add(bytes: number): OpenSection {
    const section: OpenSection = { position: this.#end, bytes, taken: 0, crc32: 0 };
    this.#end += bytes;
    return section;
  }

  /**
   * Appends to a section. The bytes are read until the promise is fulfilled, and must not change before; they may be in
   * an arena. Awaiting it is the backpressure: a caller that does keeps at most one piece queued.
   */
  write(section: OpenSection, bytes: Uint8Array): Promise<void> {
    assert(section.taken + bytes.byteLength <= section.bytes, `${bytes.byteLength} bytes more than a section of ${this.path} has room for`);
    assert(!this.#isClosed || this.#error !== undefined, `${this.path} is finished`);
    if (this.#error !== undefined) return Promise.reject(this.#error); // SectionFile.W2
    if (bytes.byteLength === 0) return Promise.resolve();
    const position = section.position + section.taken;
    section.taken += bytes.byteLength;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#queue.push({ section, bytes, position, sent: 0, open: 0, resolve, reject });
    this.#pump();
    return promise;
  }

  /** Writes the header, and renames the file once all of it is on the disk. All writes must have been fulfilled. */
  async finish(header: Uint8Array): Promise<void> {
    if (this.#error !== undefined) throw this.#error; // SectionFile.W2
    assert(header.byteLength === this.headerBytes, `a header of ${header.byteLength} bytes for ${this.headerBytes} kept free`);
    assert(this.#queue.length === 0 && this.#writeCount === 0, `${this.path} is still being written`);
    assert(!this.#isClosed, `${this.path} is finished`);
    try {
      await this.#syncing;
      if (this.#error !== undefined) throw this.#error;
      await writeFully(this.#file, header, 0, this.#temporary);
      await attempt(`cannot write ${this.#temporary}`, () => this.#file.sync());
      await this.#close();
      await attempt(`cannot rename ${this.#temporary}`, () => this.#layer.rename(this.#temporary, this.path));
    } catch (cause) {
      const error = fileError(`cannot write ${this.#temporary}`, cause);
      this.#fail(error);
      await this.abandon(error);
      throw error;
    }
  }

  /** Removes what was written. Waiting calls fail with `reason`. Does nothing once the file is renamed. */
  async abandon(reason: WeighbridgeError = new WeighbridgeError("CLOSED", `${this.path} was abandoned`)): Promise<void> {
    if (this.#isClosed && this.#error === undefined) return;
    this.#fail(reason);
    await this.#removed.promise;
  }

  /** Sends what is queued, at most WRITES_MAX writes at a time. */
  #pump(): void {
    while (this.#writeCount < WRITES_MAX && this.#syncing === undefined && this.#error === undefined) {
      const piece = this.#queue[0];
      if (piece === undefined) return;
      const from = piece.sent;
      const bytes = piece.bytes.subarray(from, from + WRITE_BYTES);
      piece.section.crc32 = crc32(bytes, piece.section.crc32); // SectionFile.W3
      piece.sent += bytes.byteLength;
      piece.open++;
      if (piece.sent === piece.bytes.byteLength) this.#queue.shift();
      this.#writeCount++;
      void this.#send(piece, bytes, piece.position + from);
    }
  }

  async #send(piece: Piece, bytes: Uint8Array, position: number): Promise<void> {
    try {
      await writeFully(this.#file, bytes, position, this.#temporary);
      this.#unsyncedBytes += bytes.byteLength;
    } catch (thrown) {
      this.#fail(isWeighbridgeError(thrown) ? thrown : fileError(`cannot write ${this.#temporary}`, thrown));
    }
    this.#writeCount--;
    piece.open--;
    if (this.#error !== undefined) {
      piece.reject(this.#error);
      this.#removeOnceQuiet();
    } else if (piece.open === 0 && piece.sent === piece.bytes.byteLength) {
      piece.resolve();
    }
    if (this.#unsyncedBytes >= SYNC_BYTES && this.#syncing === undefined) this.#sync();
    this.#pump();
  }

  #sync(): void {
    this.#unsyncedBytes = 0;
    const syncing = attempt(`cannot write ${this.#temporary}`, () => this.#file.sync()).catch((error: WeighbridgeError) =>
      this.#fail(error),
    );
    this.#syncing = syncing.then(() => {
      this.#syncing = undefined;
      this.#pump();
    });
  }

  #fail(error: WeighbridgeError): void {
    this.#error ??= error;
    for (const piece of this.#queue.splice(0)) {
      // The others are rejected when their writes, which read the caller's bytes until then, have ended.
      if (piece.open === 0) piece.reject(this.#error);
    }
    this.#removeOnceQuiet();
  }

  #removeOnceQuiet(): void {
    if (this.#writeCount > 0 || this.#isRemoving) return;
    this.#isRemoving = true;
    void this.#remove().then(this.#removed.resolve);
  }

  async #remove(): Promise<void> {
    await this.#syncing;
    await this.#close().catch(() => {}); // Its content is no longer needed.
    await this.#layer.remove(this.#temporary).catch(() => {}); // `removeLeftovers` removes it later.
  }

  async #close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await attempt(`cannot write ${this.#temporary}`, () => this.#file.close());
  }
}
