// part-stream — the parts of one operation to one member, in order, PARTS_OPEN_MAX of them on their way: what a member
// that is late has to keep is bounded by that.

import type { WeighbridgeError } from "../../base/errors.ts";
import { RingQueue } from "../../base/ring-queue.ts";
import type { Channel } from "../../peer/channel.ts";
import { PARTS_OPEN_MAX } from "../../wire/collective-frame.ts";
import type { Operation } from "./operation.ts";
import { PartCall } from "./part-call.ts";

export type PartStreamOptions = {
  readonly channel: Channel;
  readonly generation: number;
  readonly operation: Operation;
  /** What its parts say the length is. */
  readonly length: number;
  /** What a part fails with whose memory is gone. */
  readonly detached: () => WeighbridgeError;
  /** A part was refused, or the member is gone. True when that does not matter any more. */
  readonly failed: (sequence: number, error: WeighbridgeError) => boolean;
};

export class PartStream {
  readonly channel: Channel;
  readonly #options: PartStreamOptions;
  readonly #waiting = new RingQueue<Uint8Array>();
  readonly #open = new Set<PartCall>();
  #index = 0;

  constructor(options: PartStreamOptions) {
    this.#options = options;
    this.channel = options.channel;
  }

  /** Nothing of it is on its way, or waits. */
  get isIdle(): boolean {
    return this.#open.size === 0 && this.#waiting.length === 0;
  }

  /**
   * The part is sent when its turn comes; its bytes stay as they are until it was taken, or the operation has failed.
   */
  push(payload: Uint8Array): void {
    if (this.#open.size < PARTS_OPEN_MAX) this.#send(payload);
    else this.#waiting.push(payload);
  }

  /** Sends the failure instead of what was not taken. Returns whether a link may be writing from its memory. */
  revoke(over: Uint8Array): boolean {
    while (this.#waiting.shift() !== undefined);
    let isReferred = false;
    for (const call of this.#open) {
      isReferred ||= call.isReferred;
      call.revoke(over);
    }
    return isReferred;
  }

  #send(payload: Uint8Array): void {
    const { operation, generation, length, detached, failed } = this.#options;
    const { kind, root, sequence } = operation;
    const call = new PartCall({
      label: { kind, root, generation, sequence, length, index: this.#index++ },
      payload,
      detached,
      acknowledged: () => this.#acknowledged(call),
      failed: (_, error) => {
        if (failed(sequence, error)) this.#acknowledged(call);
        else this.#open.delete(call);
      },
    });
    this.#open.add(call);
    this.channel.send(call, true); // PARTS_OPEN_MAX bounds them
  }

  #acknowledged(call: PartCall): void {
    this.#open.delete(call);
    const next = this.#waiting.shift();
    if (next !== undefined) this.#send(next);
    this.#options.operation.endIfDone();
  }
}
