// kept-request — a request that is answered later: it waits for a placement, an application, an operation, its handler.
//   KeptRequest.K1. It belongs to the conversation in which it came: in the next one its number is another request's.
//       From then on, or once the channel has ended, it is neither handled nor answered.

import type { FrameHeader, RequestLabel } from "../wire/frame.ts";
import { labelOf } from "./answer.ts";
import type { Channel } from "./channel.ts";

export class KeptRequest {
  readonly channel: Channel;
  readonly label: RequestLabel;
  readonly #conversation: number;

  /** The channel ignores duplicates of it from now on. Copies what it needs of the header. */
  constructor(channel: Channel, header: FrameHeader) {
    this.channel = channel;
    this.label = labelOf(header);
    this.#conversation = channel.conversation;
    channel.park(header.request);
  }

  /** Whether its caller still waits for the answer (KeptRequest.K1). */
  get isOpen(): boolean {
    return this.channel.conversation === this.#conversation && this.channel.ended === undefined;
  }

  /** Calls `handle`, which answers it, unless nobody waits any more. What `handle` throws goes to the caller. */
  serve(handle: () => void): void {
    if (!this.isOpen) return;
    this.channel.unpark(this.label.request);
    try {
      handle();
    } catch (thrown) {
      this.channel.fail(this.label, thrown);
    }
  }

  /** Refuses it, unless nobody waits any more. */
  fail(thrown: unknown): void {
    if (this.isOpen) this.channel.fail(this.label, thrown);
  }
}
