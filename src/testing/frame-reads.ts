// frame-reads — bytes as sockets bring them to a frame reader, for its tests.

import { assert } from "../base/assert.ts";
import { Random } from "../base/random.ts";
import type { FrameReader } from "../wire/frame-reader.ts";

/**
 * Feeds `stream` to the reader as a socket does: a read at `at` fills the view, or `nextReadBytes(at)` if that is less.
 */
export function feed(reader: FrameReader, stream: Uint8Array, nextReadBytes: (at: number) => number): number {
  let readCount = 0;
  for (let at = 0; at < stream.length; readCount++) {
    const view = reader.view();
    assert(view.length > 0, "R1: a reader has room for the next bytes");
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
