// pausable-link — a link as its channel sees it. While it is paused, frames that were read wait in the reader's buffer:
// a pause bounds what is answered, not only what is read, since one buffer of small requests can request gigabytes
// (Connection.H5). Once it is closed they are dropped (Connection.H4).

import type { Link, MemoryUpgrade } from "../transport/transport.ts";
import type { FrameReader } from "../wire/frame-reader.ts";

export class PausableLink implements Link {
  /** Where writes go. */
  readonly inner: Link;
  readonly #reader: FrameReader;
  readonly #resumed: () => void;

  /** Calls `resumed` when the link is no longer paused: the owner then handles the frames that waited. */
  constructor(link: Link, reader: FrameReader, resumed: () => void) {
    this.inner = link;
    this.#reader = reader;
    this.#resumed = resumed;
  }

  get remote(): string {
    return this.inner.remote;
  }

  get upgrade(): MemoryUpgrade | undefined {
    return this.inner.upgrade;
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    this.inner.write(chunks, flushed);
  }

  pause(): void {
    this.#reader.isHeld = true;
    this.inner.pause();
  }

  resume(): void {
    this.#reader.isHeld = false;
    this.#resumed(); // first: frames that waited precede what is still to be read, and the end of the link
    this.inner.resume();
  }

  close(): void {
    this.#reader.drop();
    this.inner.close();
  }

  destroy(): void {
    this.#reader.drop();
    this.inner.destroy();
  }
}
