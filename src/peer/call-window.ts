// call-window — bounds the open calls of one node to another that does not answer, in number and bytes. Not the queue
// of a channel (outbox.ts), which counts the calls of a worker's router.
//
// Invariants:
//   CallWindow.W1. Open calls are at most `callsMax`, and have at most `bytesMax` bytes together unless there is only
//       one.
//   CallWindow.W2. A call is open until it is answered or has failed, also after its caller's deadline has passed.
//   CallWindow.W3. A caller that waits for room learns of it, also when the calls before it have failed.

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

  /** CallWindow.W1 */
  admits(byteCount: number): boolean {
    const { callsMax, bytesMax } = this.#options;
    return this.#callCount === 0 || (this.#callCount < callsMax && this.#byteCount + byteCount <= bytesMax);
  }

  /** A call of so many bytes is open from now on. */
  open(byteCount: number): void {
    this.#callCount++;
    this.#byteCount += byteCount;
  }

  /** It has ended (CallWindow.W2). */
  close(byteCount: number): void {
    this.#callCount--;
    this.#byteCount -= byteCount;
    if (this.#room === undefined || !this.#isHalfFree) return;
    this.#room.resolve();
    this.#room = undefined;
  }

  /** Resolves once half of the window is free (CallWindow.W3). */
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
