// written-frames — finds the frames in what a channel writes to its link, where they lie: a header with the beginning of its payload in a
// page, the rest of the payload in chunks of its own (peer/frame-batch.ts writes them so).

import { assert } from "../base/assert.ts";
import { decodeHeader, FrameHeader, HEADER_BYTES, paddedBytes } from "../wire/frame.ts";

/** One frame. Reused for the next one. */
export class WrittenFrame {
  readonly header: FrameHeader = new FrameHeader();
  /** The part of the payload that lies behind its header: `page[at … at + inlineBytes)`. Its memory is used again once it was flushed. */
  page: Uint8Array = new Uint8Array(0);
  at = 0;
  inlineBytes = 0;
  /** The rest. In requests this is the caller's memory, unchanged until the request ends; in answers it is held until it was flushed. */
  attached: Uint8Array[] = [];

  /** The payload in one piece, to keep. */
  payload(): Uint8Array {
    const whole = new Uint8Array(this.header.payloadBytes);
    whole.set(this.page.subarray(this.at, this.at + this.inlineBytes));
    let at = this.inlineBytes;
    for (const part of this.attached) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}

/** Calls `visit` with each frame of a write. */
export class WrittenFrames {
  readonly #frame = new WrittenFrame();
  #buffer: ArrayBufferLike | undefined;
  #words: Uint32Array = new Uint32Array(0);

  read(chunks: readonly Uint8Array[], visit: (frame: WrittenFrame) => void): void {
    let index = 0;
    let at = 0;
    while (index < chunks.length) {
      const chunk = chunks[index] as Uint8Array;
      if (at === chunk.length) {
        index++;
        at = 0;
        continue;
      }
      const frame = this.#frame;
      const { header } = frame;
      decodeHeader(this.#wordsOf(chunk.buffer), (chunk.byteOffset + at) >> 2, header);
      const { payloadBytes } = header;
      const payloadAt = at + HEADER_BYTES;
      const hereBytes = Math.min(paddedBytes(payloadBytes), chunk.length - payloadAt);
      frame.page = chunk;
      frame.at = payloadAt;
      frame.inlineBytes = Math.min(hereBytes, payloadBytes);
      frame.attached = [];
      at = payloadAt + hereBytes;
      let leftBytes = paddedBytes(payloadBytes) - hereBytes;
      let payloadLeft = payloadBytes - frame.inlineBytes;
      while (leftBytes > 0) {
        const part = chunks[++index];
        assert(part !== undefined && part.length <= leftBytes, "a frame is written whole");
        at = part.length;
        leftBytes -= part.length;
        if (payloadLeft > 0) frame.attached.push(part); // else it is padding
        payloadLeft -= part.length;
      }
      visit(frame);
    }
  }

  #wordsOf(buffer: ArrayBufferLike): Uint32Array {
    if (this.#buffer !== buffer) {
      this.#buffer = buffer;
      this.#words = new Uint32Array(buffer, 0, buffer.byteLength >> 2);
    }
    return this.#words;
  }
}
