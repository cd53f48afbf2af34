// held-link — a link as its channel sees it: while it is paused, frames that were read already wait in the reader's buffer, so that a pause
// bounds what is answered, not only what is read. One buffer of small requests can ask for gigabytes.

import type { Link } from "../transport/transport.ts";
import type { FrameReader } from "../wire/frame-reader.ts";

export class HeldLink implements Link {
  readonly #link: Link;
  readonly #reader: FrameReader;
  readonly #resumed: () => void;

  /** `resumed` is called when the link was paused and no longer is: the frames that waited are to be handled, soon. */
  constructor(link: Link, reader: FrameReader, resumed: () => void) {
    this.#link = link;
    this.#reader = reader;
    this.#resumed = resumed;
  }

  get remote(): string {
    return this.#link.remote;
  }

  write(chunks: readonly Uint8Array[], flushed: () => void): void {
    this.#link.write(chunks, flushed);
  }

  pause(): void {
    this.#reader.isHeld = true;
    this.#link.pause();
  }

  resume(): void {
    this.#reader.isHeld = false;
    this.#resumed(); // first: what waits comes before what is still to be read, and before the end of the link
    this.#link.resume();
  }

  close(): void {
    this.#link.close();
  }

  destroy(): void {
    this.#link.destroy();
  }
}
