// stub-link — a Link to nowhere, for unit tests: it keeps what is written and shows it as frames. It flushes at once,
// or when the test says so. And bytes as sockets bring them to a frame reader.

import { assert } from "../base/assert.ts";
import { joinBytes } from "../base/bytes.ts";
import { Random } from "../base/random.ts";
import type { Link } from "../transport/transport.ts";
import { FrameHeader, HEADER_BYTES, paddedBytes } from "../wire/frame.ts";
import { decodeHeader, type FrameReader } from "../wire/frame-reader.ts";

export type StubFrame = { readonly header: FrameHeader; readonly payload: Uint8Array };

type Write = { readonly bytes: Uint8Array; readonly flushed: () => void };

export class StubLink implements Link {
  readonly remote = "stub";
  isPaused = false;
  isClosed = false;
  isDestroyed = false;
  /** Whether `write` flushes before it returns. */
  flushesAtOnce = false;
  #unflushed: Write[] = [];
  #frames: StubFrame[] = [];
  #rest: Uint8Array = new Uint8Array(0);
  #byteCount = 0;

  /** All bytes ever written. */
  get byteCount(): number {
    return this.#byteCount;
  }

  get unflushedBytes(): number {
    return this.#unflushed.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Copies at once: a chunk that changes before its flush is not found out here (the simulated network does that). */
  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    const bytes = joinBytes(chunks);
    this.#byteCount += bytes.length;
    this.#cut(joinBytes([this.#rest, bytes]));
    if (this.flushesAtOnce) flushed();
    else this.#unflushed.push({ bytes, flushed });
  }

  /** The frames written since the last call. */
  take(): StubFrame[] {
    const frames = this.#frames;
    this.#frames = [];
    return frames;
  }

  /** Flushes the oldest write; false when there is none. */
  flush(): boolean {
    const write = this.#unflushed.shift();
    write?.flushed();
    return write !== undefined;
  }

  pause(): void {
    this.isPaused = true;
  }

  resume(): void {
    this.isPaused = false;
  }

  close(): void {
    this.isClosed = true;
  }

  destroy(): void {
    this.isDestroyed = true;
  }

  #cut(bytes: Uint8Array): void {
    let at = 0;
    while (bytes.length - at >= HEADER_BYTES) {
      const header = new FrameHeader();
      decodeHeader(new Uint32Array(bytes.slice(at, at + HEADER_BYTES).buffer), 0, header);
      const end = at + HEADER_BYTES + paddedBytes(header.payloadBytes);
      if (end > bytes.length) break;
      this.#frames.push({ header, payload: bytes.slice(at + HEADER_BYTES, at + HEADER_BYTES + header.payloadBytes) });
      at = end;
    }
    this.#rest = bytes.slice(at);
  }
}

/**
 * Feeds `stream` to the reader as a socket does: a read at `at` fills the view, or `nextReadBytes(at)` if that is less.
 */
export function feed(reader: FrameReader, stream: Uint8Array, nextReadBytes: (at: number) => number): number {
  let readCount = 0;
  for (let at = 0; at < stream.length; readCount++) {
    const view = reader.view();
    assert(view.length > 0, "FrameReader.R1: a reader has room for the next bytes");
    const byteCount = Math.min(view.length, nextReadBytes(at), stream.length - at);
    view.set(stream.subarray(at, at + byteCount));
    reader.received(byteCount);
    at += byteCount;
  }
  return readCount;
}

export function randomPayload(length: number, seed: number): Uint8Array {
  const random = new Random(seed);
  return Uint8Array.from({ length }, () => random.below(256));
}
