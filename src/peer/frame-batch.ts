// frame-batch — collects frames for one write to a link. Headers and small payloads are copied side by side into a
// staging page, so that hundreds of small frames leave as one chunk; large payloads are attached by reference and leave
// from where they lie.
//
// Invariants:
//   FrameBatch.B1. Frames start at multiples of 8 in the page, and in the stream.
//   FrameBatch.B2. A page is written to again only after the write that carried it was flushed.
//   FrameBatch.B3. Where the reader takes runs, a small frame that is like the one right before it joins it in a run
//       (wire/frame.ts).
//       (wire/frame.ts). A whole request of a function by name, or its answer, joins the one right before it in a
//       bundle instead: so what is sent in one turn for one node travels as one frame.
//   FrameBatch.B4. The bytes behind a payload are 0, whatever the page held before: nobody reads what others were sent.

import { AssertionError } from "../base/assert.ts";
import {
  addToBundle,
  BUNDLE_BYTES_MAX,
  continuesRun,
  encodeHeader,
  FrameHeader,
  fitsBundle,
  HEADER_BYTES,
  ITEM_BYTES,
  Kind,
  lengthenRun,
  MARK_MAX,
  openBundle,
  paddedBytes,
  RUN_MORE_MAX,
  RUN_PAYLOAD_BYTES_MAX,
  stampBundle,
  stepRun,
} from "../wire/frame.ts";

const PAGE_BYTES = 128 * 1024;
/** Payloads up to this size are copied into the page: cheaper than one more chunk in the write. */
export const INLINE_BYTES_MAX: number = 4 * 1024;
const PADDING = new Uint8Array(8);
const NOWHERE = -1;

/** Staging memory, seen as every type that is copied into it. */
export class Page {
  readonly bytes: Uint8Array;
  readonly words: Uint32Array;
  readonly floats: Float32Array;
  readonly keys: BigUint64Array;
  /** The part that was sent last: traffic repeats itself, and a view costs as much as a small frame. */
  #view: Uint8Array;

  constructor(byteCount: number) {
    this.bytes = new Uint8Array(byteCount);
    this.words = new Uint32Array(this.bytes.buffer);
    this.floats = new Float32Array(this.bytes.buffer);
    this.keys = new BigUint64Array(this.bytes.buffer);
    this.#view = this.bytes;
  }

  part(from: number, to: number): Uint8Array {
    const view = this.#view;
    if (view.byteOffset === from && view.length === to - from) return view;
    this.#view = this.bytes.subarray(from, to);
    return this.#view;
  }
}

/** Stands where no page has been taken yet: channels that are silent need none. */
const NO_PAGE = new Page(0);

/** Pages between writes; one pool per peer. */
export class PagePool {
  readonly #free: Page[] = [];

  take(): Page {
    return this.#free.pop() ?? new Page(PAGE_BYTES);
  }

  give(page: Page): void {
    if (this.#free.length < 16) this.#free.push(page);
  }
}

/** Memory to be released once its bytes have left. */
export type Held = {
  release(): void;
  /**
   * Whether the bytes were made for this answer just now: the sooner they leave, the less they and their memory travel
   * through caches.
   */
  readonly isFresh?: boolean;
};

/** A batch on its way: its chunks are the link's until `flushed`. */
class TakenBatch implements TakenFrames {
  readonly chunks: Uint8Array[] = [];
  byteCount = 0;
  readonly #pool: PagePool;
  readonly #pages: Page[] = [];
  #holds: Held[] | undefined;

  constructor(pool: PagePool) {
    this.#pool = pool;
  }

  addPage(page: Page): void {
    this.#pages.push(page);
  }

  hold(held: Held): void {
    this.#holds ??= [];
    this.#holds.push(held);
  }

  /** The chunks have left, or never will: pages and held memory are free again. */
  flushed(): void {
    for (const page of this.#pages) this.#pool.give(page); // FrameBatch.B2
    if (this.#holds !== undefined) for (const held of this.#holds) held.release();
  }
}

/** What was taken out of a batch to be written: the chunks are the link's until `flushed`. */
export type TakenFrames = { readonly chunks: readonly Uint8Array[]; readonly byteCount: number; flushed(): void };

/**
 * What calls and answers are put into, one after the other. Over our own protocol they are encoded as frames
 * (EncodedFrames); a gateway makes another protocol's messages of them.
 */
export type FrameBatch = {
  readonly byteCount: number;
  /** The page in which `begin` reserved; valid until the next `begin`. */
  readonly page: Page;
  /**
   * Begins a frame and reserves `inlineBytes` of its payload in the page. Returns their byte offset: a multiple of 8.
   * That is the whole payload, or a multiple of 8 bytes and the rest is attached right away and padded.
   */
  begin(header: FrameHeader, inlineBytes: number): number;
  /**
   * Appends part of the payload by reference. The caller keeps the bytes unchanged until the write is flushed. A chunk
   * that is empty later has lost its memory.
   */
  attach(part: Uint8Array): void;
  /** Ends a payload that was attached. */
  pad(payloadBytes: number): void;
  /** Calls `held.release()` once this batch was flushed. */
  hold(held: Held): void;
  /** Hands the batch over, and starts a new one. Call its `flushed` when the chunks are free again. */
  take(): TakenFrames;
};

/** The last frame of a batch, as long as others may join it in a bundle (FrameBatch.B3, Frame.B1, Frame.B2). */
class OpenBundle {
  #words: Uint32Array = NO_PAGE.words;
  /** Where the header of its first frame lies, in words; NOWHERE: there is none. */
  #at = NOWHERE;
  #isRequest = true;
  #epoch = 0;
  #firstRequest = 0;
  #lastRequest = 0;
  /** Of its first update; 0 without any. */
  #stamp = 0;
  #byteCount = 0;
  #isAlone = true;

  /** This frame has a header of its own, at word index `at`. False: it takes no others. */
  begin(header: FrameHeader, words: Uint32Array, at: number): boolean {
    this.#at = NOWHERE;
    if (!fitsBundle(header)) return false;
    this.#at = at;
    this.#words = words;
    this.#isRequest = header.kind === Kind.REQUEST;
    this.#epoch = header.epoch;
    this.#firstRequest = header.request;
    this.#lastRequest = header.request;
    this.#stamp = header.stamp;
    this.#byteCount = paddedBytes(header.payloadBytes);
    this.#isAlone = true;
    return true;
  }

  /** The next frame joins none. */
  close(): void {
    this.#at = NOWHERE;
  }

  takes(header: FrameHeader): boolean {
    if (this.#at === NOWHERE || (header.kind === Kind.REQUEST) !== this.#isRequest || !fitsBundle(header)) return false;
    if (this.#byteCount + ITEM_BYTES + paddedBytes(header.payloadBytes) > BUNDLE_BYTES_MAX) return false;
    if (!this.#isRequest) return Math.abs(header.request - this.#firstRequest) <= MARK_MAX;
    if (header.request !== this.#lastRequest + 1 || header.epoch !== this.#epoch) return false;
    const distance = header.stamp - this.#stamp;
    return header.stamp === 0 || this.#stamp === 0 || (distance > 0 && distance < MARK_MAX);
  }

  /** Writes the item of a frame that it takes, at word index `at` of the same page. */
  add(header: FrameHeader, at: number): void {
    const words = this.#words;
    const { stamp } = header;
    if (this.#isAlone) openBundle(words, this.#at, this.#isRequest, this.#stamp);
    this.#isAlone = false;
    if (stamp !== 0 && this.#stamp === 0) {
      this.#stamp = stamp;
      stampBundle(words, this.#at, header);
    }
    this.#lastRequest = header.request;
    this.#byteCount += ITEM_BYTES + paddedBytes(header.payloadBytes);
    const requestMark = stamp === 0 ? 0 : 1 + stamp - this.#stamp;
    addToBundle(words, this.#at, at, header, this.#isRequest ? requestMark : header.request - this.#firstRequest, this.#byteCount);
  }
}

export class EncodedFrames implements FrameBatch {
  readonly #pool: PagePool;
  #taken: TakenBatch;
  #page: Page = NO_PAGE;
  /** Bytes of the page that are in use, and from where on they are not yet a chunk. */
  #fill = 0;
  #sealed = 0;
  /** The header of the last frame, as long as another one may join it in a run; and where it lies in the page. */
  readonly #last = new FrameHeader();
  #lastAt = NOWHERE;
  #lastMore = 0;
  readonly #bundle = new OpenBundle();
  /** Whether the reader takes runs and bundles. */
  takesRuns = false;

  constructor(pool: PagePool) {
    this.#pool = pool;
    this.#taken = new TakenBatch(pool);
  }

  get byteCount(): number {
    return this.#taken.byteCount;
  }

  get page(): Page {
    return this.#page;
  }

  /** Writes the header, unless the frame joins a run or a bundle. */
  begin(header: FrameHeader, inlineBytes: number): number {
    const padded = paddedBytes(inlineBytes);
    if (this.#lastAt === NOWHERE || !this.#joinsRun(header, inlineBytes, padded)) {
      if (!this.#bundle.takes(header) || this.#fill + ITEM_BYTES + padded > this.#page.bytes.length)
        return this.#beginAlone(header, inlineBytes);
      this.#bundle.add(header, this.#fill >> 2);
      this.#fill += ITEM_BYTES;
      this.#taken.byteCount += ITEM_BYTES;
    }
    const at = this.#fill;
    if (padded !== inlineBytes) this.#clearLast(at + padded);
    this.#fill = at + padded;
    this.#taken.byteCount += padded;
    return at;
  }

  #beginAlone(header: FrameHeader, inlineBytes: number): number {
    const padded = paddedBytes(inlineBytes);
    if (HEADER_BYTES + padded > PAGE_BYTES) throw new AssertionError("what is inline fits a page");
    if (this.#fill + HEADER_BYTES + padded > this.#page.bytes.length) this.#turnPage();
    const at = this.#fill;
    encodeHeader(header, this.#page.words, at >> 2);
    if (this.takesRuns && !this.#bundle.begin(header, this.#page.words, at >> 2)) this.#mayOpenRun(header, inlineBytes, at);
    else this.#lastAt = NOWHERE;
    if (padded !== inlineBytes) this.#clearLast(at + HEADER_BYTES + padded);
    this.#fill = at + HEADER_BYTES + padded;
    this.#taken.byteCount += HEADER_BYTES + padded;
    return at + HEADER_BYTES;
  }

  /** Clears the last 8 bytes of a payload that is yet to be written (FrameBatch.B4). */
  #clearLast(end: number): void {
    const { words } = this.#page;
    words[(end >> 2) - 2] = 0;
    words[(end >> 2) - 1] = 0;
  }

  /** Whether the frame needs no header, because it joins the last one in a run (FrameBatch.B3). */
  #joinsRun(header: FrameHeader, inlineBytes: number, padded: number): boolean {
    const last = this.#last;
    const page = this.#page;
    if (inlineBytes !== header.payloadBytes || !continuesRun(last, header)) return false;
    if (this.#lastMore === RUN_MORE_MAX || this.#fill + padded > page.bytes.length) return false;
    this.#lastMore++;
    lengthenRun(page.words, this.#lastAt >> 2);
    stepRun(last);
    return true;
  }

  #mayOpenRun(header: FrameHeader, inlineBytes: number, at: number): void {
    const isSmall = inlineBytes === header.payloadBytes && inlineBytes <= RUN_PAYLOAD_BYTES_MAX;
    this.#lastAt = isSmall && (header.kind === Kind.REQUEST || header.kind === Kind.REPLY) ? at : NOWHERE;
    this.#lastMore = 0;
    this.#last.copyFrom(header);
  }

  attach(part: Uint8Array): void {
    if (part.length === 0) return;
    this.#seal();
    this.#taken.chunks.push(part);
    this.#taken.byteCount += part.length;
  }

  /** `begin` pads what is inline. */
  pad(payloadBytes: number): void {
    const padding = paddedBytes(payloadBytes) - payloadBytes;
    if (padding > 0) this.attach(PADDING.subarray(0, padding));
  }

  hold(held: Held): void {
    this.#taken.hold(held);
  }

  take(): TakenBatch {
    this.#seal();
    const taken = this.#taken;
    if (this.#page !== NO_PAGE) taken.addPage(this.#page);
    this.#page = NO_PAGE;
    this.#fill = 0;
    this.#sealed = 0;
    this.#lastAt = NOWHERE;
    this.#bundle.close();
    this.#taken = new TakenBatch(this.#pool);
    return taken;
  }

  #turnPage(): void {
    this.#seal();
    if (this.#page !== NO_PAGE) this.#taken.addPage(this.#page);
    this.#page = this.#pool.take();
    this.#fill = 0;
    this.#sealed = 0;
    this.#lastAt = NOWHERE;
    this.#bundle.close();
  }

  #seal(): void {
    if (this.#fill === this.#sealed) return;
    this.#taken.chunks.push(this.#page.part(this.#sealed, this.#fill));
    this.#sealed = this.#fill;
  }
}
