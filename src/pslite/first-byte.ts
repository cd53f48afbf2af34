// first-byte — a connection to our scheduler whose protocol is not known yet. ZeroMQ's begins with ff, ours with "W":
// tools like `weighbridge status` speak our own, whatever the nodes speak.

import type { CancelTimer, Clock } from "../base/clock.ts";
import type { LinkReader } from "../transport/transport.ts";
import { looksLikeZmtp } from "./wire/zmtp.ts";

const FIRST_BYTES = 64;

export type FirstByteHost = {
  /** Returns the reader of everything from now on, the first byte included. */
  readerFor(isZmtp: boolean): LinkReader;
  /** Nothing arrived within `timeoutMs`. */
  silent(): void;
  /** It ended before anything arrived. */
  closed(): void;
};

export class FirstByte implements LinkReader {
  readonly #host: FirstByteHost;
  readonly #buffer = new Uint8Array(FIRST_BYTES);
  readonly #cancelTimer: CancelTimer;
  #reader: LinkReader | undefined;

  constructor(clock: Clock, timeoutMs: number, host: FirstByteHost) {
    this.#host = host;
    this.#cancelTimer = clock.after(timeoutMs, () => host.silent());
  }

  view(): Uint8Array {
    return this.#reader?.view() ?? this.#buffer;
  }

  received(byteCount: number): void {
    if (this.#reader !== undefined) {
      this.#reader.received(byteCount);
      return;
    }
    this.#cancelTimer();
    const reader = this.#host.readerFor(looksLikeZmtp(this.#buffer[0] as number));
    this.#reader = reader;
    for (let at = 0; at < byteCount; ) {
      const view = reader.view();
      const piece = this.#buffer.subarray(at, Math.min(byteCount, at + view.length));
      view.set(piece);
      reader.received(piece.length);
      at += piece.length;
    }
  }

  closed(cause: Error | undefined): void {
    this.#cancelTimer();
    if (this.#reader === undefined) this.#host.closed();
    else this.#reader.closed(cause);
  }
}
