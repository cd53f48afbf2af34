// frame-batch — collects frames for one write to a link. Headers and small payloads are copied side by side into a staging page, so that
// hundreds of small frames leave as one chunk; large payloads are attached by reference and leave from where they lie.
//
// Invariants:
//   B1. Frames start at multiples of 8 in the page, and in the stream.
//   B2. A page is written to again only after the write that carried it was flushed.

import { assert } from "../base/assert.ts";
import { encodeHeader, type FrameHeader, HEADER_BYTES, paddedBytes } from "../wire/frame.ts";

const PAGE_BYTES = 128 * 1024;
/** Payloads up to this size are copied into the page: cheaper than one more chunk in the write. */
export const INLINE_BYTES_MAX: number = 4 * 1024;
const PADDING = new Uint8Array(8);

/** Staging memory, seen as every type that is copied into it. */
export class Page {
  readonly bytes: Uint8Array = new Uint8Array(PAGE_BYTES);
  readonly words: Uint32Array = new Uint32Array(this.bytes.buffer);
  readonly floats: Float32Array = new Float32Array(this.bytes.buffer);
  readonly keys: BigUint64Array = new BigUint64Array(this.bytes.buffer);
}

/** Pages between writes; one pool per peer. */
export class PagePool {
  readonly #free: Page[] = [];

  take(): Page {
    return this.#free.pop() ?? new Page();
  }

  give(page: Page): void {
    if (this.#free.length < 16) this.#free.push(page);
  }
}

/** What must hear that its bytes have left. */
export type Held = { release(): void };

export class FrameBatch {
  readonly #pool: PagePool;
  #page: Page;
  /** Bytes of the page that are in use, and from where on they are not yet a chunk. */
  #fill = 0;
  #sealed = 0;
  #chunks: Uint8Array[] = [];
  #pages: Page[] = [];
  #holds: Held[] = [];
  #byteCount = 0;

  constructor(pool: PagePool) {
    this.#pool = pool;
    this.#page = pool.take();
  }

  get byteCount(): number {
    return this.#byteCount;
  }

  /** The page in which `begin` reserved; valid until the next `begin`. */
  get page(): Page {
    return this.#page;
  }

  /**
   * Writes the header and reserves `inlineBytes` behind it in the page. Returns their byte offset: a multiple of 8.
   * That is the whole payload, or a multiple of 8 bytes and the rest is attached right away and padded.
   */
  begin(header: FrameHeader, inlineBytes: number): number {
    const padded = paddedBytes(inlineBytes);
    assert(HEADER_BYTES + padded <= PAGE_BYTES, "what is inline fits a page");
    if (this.#fill + HEADER_BYTES + padded > PAGE_BYTES) this.#turnPage();
    const at = this.#fill;
    encodeHeader(header, this.#page.words, at >> 2);
    this.#fill = at + HEADER_BYTES + padded;
    this.#byteCount += HEADER_BYTES + padded;
    return at + HEADER_BYTES;
  }

  /** Appends part of the payload by reference. The caller keeps the bytes unchanged until the write is flushed. */
  attach(part: Uint8Array): void {
    this.#seal();
    this.#chunks.push(part);
    this.#byteCount += part.length;
  }

  /** Ends a payload that was attached; `begin` pads what is inline. */
  pad(payloadBytes: number): void {
    const padding = paddedBytes(payloadBytes) - payloadBytes;
    if (padding > 0) this.attach(PADDING.subarray(0, padding));
  }

  /** Calls `held.release()` once this batch was flushed. */
  hold(held: Held): void {
    this.#holds.push(held);
  }

  /** Hands the batch over as chunks, and starts a new one. Call `flushed` when the chunks are free again. */
  take(): { readonly chunks: readonly Uint8Array[]; readonly byteCount: number; readonly flushed: () => void } {
    this.#seal();
    const chunks = this.#chunks;
    const pages = this.#pages;
    const holds = this.#holds;
    const byteCount = this.#byteCount;
    pages.push(this.#page);
    this.#page = this.#pool.take();
    this.#fill = 0;
    this.#sealed = 0;
    this.#chunks = [];
    this.#pages = [];
    this.#holds = [];
    this.#byteCount = 0;
    const pool = this.#pool;
    const flushed = (): void => {
      for (const page of pages) pool.give(page); // B2
      for (const held of holds) held.release();
    };
    return { chunks, byteCount, flushed };
  }

  #turnPage(): void {
    this.#seal();
    this.#pages.push(this.#page);
    this.#page = this.#pool.take();
    this.#fill = 0;
    this.#sealed = 0;
  }

  #seal(): void {
    if (this.#fill === this.#sealed) return;
    this.#chunks.push(this.#page.bytes.subarray(this.#sealed, this.#fill));
    this.#sealed = this.#fill;
  }
}
