// message-batch — collects the ZMTP frames of messages for one write to a connection. Metas and short parts are copied
// into a page; long parts are attached by reference and sent from where they are.

import { joinBytes } from "../base/bytes.ts";
import { encodeMeta, metaBytesMax, type PsMeta } from "./wire/ps-meta.ts";
import { FRAME_HEADER_BYTES_MAX, frameHeaderBytes, writeFrameHeader } from "./wire/zmtp.ts";

const PAGE_BYTES = 64 * 1024;
/** Parts up to this size are copied: cheaper than one more chunk in the write. */
export const COPY_BYTES_MAX: number = 4 * 1024;
/** Longer metas (rosters, bodies of SimpleApp) get memory of their own. */
const PAGE_META_BYTES_MAX = 8 * 1024;
const PAGES_MAX = 16;

/** Pages between writes; one pool per gateway. */
export class MessagePages {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(PAGE_BYTES);
  }

  give(page: Uint8Array): void {
    if (this.#free.length < PAGES_MAX) this.#free.push(page);
  }
}

/** Messages under way: the connection owns the chunks until `release`. */
class TakenMessages {
  readonly chunks: Uint8Array[] = [];
  readonly #pages: Uint8Array[] = [];
  readonly #pool: MessagePages;

  constructor(pool: MessagePages) {
    this.#pool = pool;
  }

  addPage(page: Uint8Array): void {
    this.#pages.push(page);
  }

  release(): void {
    for (const page of this.#pages.splice(0)) this.#pool.give(page);
  }
}

export class MessageBatch {
  readonly #pool: MessagePages;
  #taken: TakenMessages;
  #page: Uint8Array | undefined;
  #fill = 0;
  #sealed = 0;

  constructor(pool: MessagePages) {
    this.#pool = pool;
    this.#taken = new TakenMessages(pool);
  }

  /** The first part of a message. */
  meta(meta: PsMeta, isLast: boolean): void {
    const bytesMax = metaBytesMax(meta);
    if (bytesMax > PAGE_META_BYTES_MAX) {
      const bytes = new Uint8Array(bytesMax);
      const byteCount = encodeMeta(meta, bytes, 0);
      this.part(byteCount, isLast);
      this.attach(bytes.subarray(0, byteCount));
      return;
    }
    const page = this.#reserve(FRAME_HEADER_BYTES_MAX + bytesMax);
    // The length is known when the meta is written: it is written behind a short header, and moved if it is too long
    // for one.
    const at = this.#fill + frameHeaderBytes(0);
    const end = encodeMeta(meta, page, at);
    const byteCount = end - at;
    const body = this.#fill + frameHeaderBytes(byteCount);
    if (body !== at) page.copyWithin(body, at, end);
    writeFrameHeader(page, this.#fill, byteCount, isLast);
    this.#fill = body + byteCount;
  }

  /** Begins a part of this many bytes: `copy` and `attach` add them. */
  part(byteCount: number, isLast: boolean): void {
    const page = this.#reserve(FRAME_HEADER_BYTES_MAX);
    this.#fill = writeFrameHeader(page, this.#fill, byteCount, isLast);
  }

  /** Adds a copy of `bytes[from … to)`. */
  copy(bytes: Uint8Array, from: number, to: number): void {
    if (to - from > COPY_BYTES_MAX) {
      this.attach(bytes.slice(from, to));
      return;
    }
    const page = this.#reserve(to - from);
    if (to - from <= 32) for (let i = from; i < to; i++) page[this.#fill++] = bytes[i] as number;
    else {
      page.set(bytes.subarray(from, to), this.#fill);
      this.#fill += to - from;
    }
  }

  /** Adds the bytes by reference. They must not change until the write is flushed. */
  attach(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#seal();
    this.#taken.chunks.push(bytes);
  }

  /** Adds the bytes: a copy of short ones, a reference to long ones. */
  add(bytes: Uint8Array): void {
    if (bytes.length <= COPY_BYTES_MAX) this.copy(bytes, 0, bytes.length);
    else this.attach(bytes);
  }

  take(): TakenMessages {
    this.#seal();
    const taken = this.#taken;
    if (this.#page !== undefined) taken.addPage(this.#page);
    this.#page = undefined;
    this.#fill = 0;
    this.#sealed = 0;
    this.#taken = new TakenMessages(this.#pool);
    return taken;
  }

  #reserve(byteCount: number): Uint8Array {
    if (this.#page !== undefined && this.#fill + byteCount <= this.#page.length) return this.#page;
    this.#seal();
    if (this.#page !== undefined) this.#taken.addPage(this.#page);
    this.#page = this.#pool.take();
    this.#fill = 0;
    this.#sealed = 0;
    return this.#page;
  }

  #seal(): void {
    if (this.#page === undefined || this.#fill === this.#sealed) return;
    this.#taken.chunks.push(this.#page.subarray(this.#sealed, this.#fill));
    this.#sealed = this.#fill;
  }
}

export function byteCountOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
}

/** Copies only what is in several chunks. */
export function inOnePiece(chunks: readonly Uint8Array[]): Uint8Array {
  return chunks.length === 1 ? (chunks[0] as Uint8Array) : joinBytes(chunks);
}
