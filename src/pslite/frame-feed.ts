// frame-feed — gives a node the frames of a peer that does not speak our protocol: into the reader of its link, as if they had come from
// there. Small frames are staged and handed over together; the payload of a long one is read straight to where the reader wants it.
//
// Invariants:
//   F1. The reader sees whole frames, one after the other: while one is open, what is staged waits behind it.
//   F2. The reader is never called from inside itself: what it makes us stage is handed over after it returned.
//   F3. When the reader throws, `failed` is called once, and nothing more is handed over.

import { assert } from "../base/assert.ts";
import type { LinkReader } from "../transport/transport.ts";
import { encodeHeader, type FrameHeader, HEADER_BYTES, paddedBytes } from "../wire/frame.ts";

const STAGE_BYTES = 64 * 1024;
/** The most that one read of a payload takes: pushes of 1 MB were 1.16 to 1.38 times as fast as with reads of up to 512 KiB (bench/RESULTS.md). */
const READ_BYTES_MAX = 128 * 1024;
const ZEROS = new Uint8Array(8);

class Stage {
  readonly bytes: Uint8Array = new Uint8Array(STAGE_BYTES);
  readonly words: Uint32Array = new Uint32Array(this.bytes.buffer);
  fill = 0;
}

export class FrameFeed {
  readonly #reader: LinkReader;
  readonly #failed: (thrown: unknown) => void;
  #stage = new Stage();
  #spare: Stage | undefined;
  /** Frames that did not fit the stage while the reader could not be called, whole. */
  readonly #overflow: Uint8Array[] = [];
  #isBusy = false;
  #isFinished = false;
  /** Payload bytes of the open frame that are still to come, and the padding behind them. */
  #openBytes = 0;
  #openPadding = 0;
  #isOpen = false;

  constructor(reader: LinkReader, failed: (thrown: unknown) => void) {
    this.#reader = reader;
    this.#failed = failed;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Stages a frame with a short payload; returns where in `stageBytes` the payload goes. */
  begin(header: FrameHeader): number {
    const frameBytes = HEADER_BYTES + paddedBytes(header.payloadBytes);
    assert(frameBytes <= STAGE_BYTES, "longer frames go whole or open");
    if (this.#stage.fill + frameBytes > STAGE_BYTES) this.#makeRoom();
    const { words, bytes, fill } = this.#stage;
    encodeHeader(header, words, fill >> 2);
    const at = fill + HEADER_BYTES;
    this.#stage.fill = fill + frameBytes;
    for (let i = at + header.payloadBytes; i < this.#stage.fill; i++) bytes[i] = 0;
    return at;
  }

  get stageBytes(): Uint8Array {
    return this.#stage.bytes;
  }

  /** Stages a frame of any length with a copy of this payload. */
  put(header: FrameHeader, payload: Uint8Array): void {
    header.payloadBytes = payload.length;
    if (HEADER_BYTES + paddedBytes(payload.length) <= STAGE_BYTES) {
      const at = this.begin(header);
      this.stageBytes.set(payload, at);
      return;
    }
    if (this.#isBusy || this.#isOpen) {
      this.#makeRoom();
      this.#overflow.push(frameOf(header, payload));
      return;
    }
    this.flush();
    this.#deliver(frameOf(header, payload));
  }

  /** Hands over what is staged, unless the reader is being called or a frame is open: then soon after. */
  flush(): void {
    if (this.#isBusy || this.#isOpen) return;
    while ((this.#stage.fill > 0 || this.#overflow.length > 0) && !this.#isFinished) {
      for (const frames of this.#overflow.splice(0)) this.#deliver(frames);
      const stage = this.#stage;
      this.#stage = this.#spare ?? new Stage();
      this.#spare = undefined;
      this.#deliver(stage.bytes.subarray(0, stage.fill));
      stage.fill = 0;
      this.#spare = stage;
    }
  }

  /** Opens a frame whose payload begins with `prefix`; the rest comes through `view` and `streamed`. */
  open(header: FrameHeader, prefix: Uint8Array): void {
    this.flush();
    assert(!this.#isOpen && !this.#isBusy, "one frame at a time (F1)");
    const frame = new Uint8Array(HEADER_BYTES + prefix.length);
    encodeHeader(header, new Uint32Array(frame.buffer, 0, HEADER_BYTES >> 2), 0);
    frame.set(prefix, HEADER_BYTES);
    this.#isOpen = true;
    this.#openBytes = header.payloadBytes - prefix.length;
    this.#openPadding = paddedBytes(header.payloadBytes) - header.payloadBytes;
    this.#deliver(frame);
  }

  /** Where the next bytes of the open frame go, and up to `aheadBytes` behind them if there is room: nothing of those stays after `streamed`. */
  view(aheadBytes: number): Uint8Array {
    const view = this.#reader.view();
    const byteCount = Math.min(this.#openBytes + aheadBytes, READ_BYTES_MAX);
    return view.length > byteCount ? view.subarray(0, byteCount) : view;
  }

  /** So many bytes are there. Returns how many of the frame are still to come; after the last the frame is closed. */
  streamed(byteCount: number): number {
    this.#openBytes -= byteCount;
    this.#call(byteCount);
    if (this.#openBytes > 0 || this.#isFinished) return this.#openBytes;
    if (this.#openPadding > 0) this.#deliver(ZEROS.subarray(0, this.#openPadding));
    this.#isOpen = false;
    return 0;
  }

  /** Nothing more is handed over. */
  finish(): void {
    this.#isFinished = true;
  }

  #makeRoom(): void {
    this.flush();
    if (this.#stage.fill === 0) return;
    this.#overflow.push(this.#stage.bytes.slice(0, this.#stage.fill)); // the reader cannot be called now
    this.#stage.fill = 0;
  }

  #deliver(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && !this.#isFinished; ) {
      const view = this.#viewOrFail();
      if (view === undefined) return;
      const byteCount = Math.min(view.length, bytes.length - at);
      view.set(at === 0 && byteCount === bytes.length ? bytes : bytes.subarray(at, at + byteCount));
      at += byteCount;
      this.#call(byteCount);
    }
  }

  #viewOrFail(): Uint8Array | undefined {
    try {
      return this.#reader.view();
    } catch (thrown) {
      this.#fail(thrown);
      return undefined;
    }
  }

  /** F2, F3 */
  #call(byteCount: number): void {
    const wasBusy = this.#isBusy;
    this.#isBusy = true;
    try {
      if (!this.#isFinished) this.#reader.received(byteCount);
    } catch (thrown) {
      this.#fail(thrown);
    } finally {
      this.#isBusy = wasBusy;
    }
  }

  #fail(thrown: unknown): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#failed(thrown);
  }
}

function frameOf(header: FrameHeader, payload: Uint8Array): Uint8Array {
  const frame = new Uint8Array(HEADER_BYTES + paddedBytes(payload.length));
  encodeHeader(header, new Uint32Array(frame.buffer), 0);
  frame.set(payload, HEADER_BYTES);
  return frame;
}
