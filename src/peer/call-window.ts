// call-window — how much one node may have open with another that does not answer: so many calls, and so many bytes of
// requests. Not the queue of a channel (outbox.ts), which counts calls of a worker's router, whose callers wait for
// them.
//
// Invariants:
//   CallWindow.W1. Calls that are open take at most `bytesMax` bytes together, or are one call alone; and they are at
//       most `callsMax`.
//   CallWindow.W2. A call is open until it is answered or has failed, whether or not anybody waits for it: a caller
//       whose deadline has passed does not make room.
//   CallWindow.W3. Who is refused, and waits for room, is told once there is some; also when the calls before have
//       failed.

import { Deferred } from "../base/deferred.ts";

export type CallWindowOptions = { readonly callsMax: number; readonly bytesMax: number };

export class CallWindow {
  readonly #options: CallWindowOptions;
  #callCount = 0;
  #byteCount = 0;
  #room: Deferred<void> | undefined;

  constructor(options: CallWindowOptions) {
    this.#options = options;
  }

  /** W1 */
  admits(byteCount: number): boolean {
    const { callsMax, bytesMax } = this.#options;
    return this.#callCount === 0 || (this.#callCount < callsMax && this.#byteCount + byteCount <= bytesMax);
  }

  /** A call of so many bytes is open from now on. */
  open(byteCount: number): void {
    this.#callCount++;
    this.#byteCount += byteCount;
  }

  /** It has ended (W2). */
  close(byteCount: number): void {
    this.#callCount--;
    this.#byteCount -= byteCount;
    if (this.#room === undefined || !this.#isHalfFree) return;
    this.#room.resolve();
    this.#room = undefined;
  }

  /** Resolves once half of the window is free (W3). */
  async whenRoom(): Promise<void> {
    if (this.#isHalfFree) return;
    this.#room ??= new Deferred();
    await this.#room.promise;
  }

  /** "32 calls of 65536 bytes", for messages. */
  describe(): string {
    return `${this.#callCount} calls of ${this.#byteCount} bytes`;
  }

  get #isHalfFree(): boolean {
    const { callsMax, bytesMax } = this.#options;
    return this.#callCount === 0 || (this.#callCount <= callsMax / 2 && this.#byteCount <= bytesMax / 2);
  }
}
