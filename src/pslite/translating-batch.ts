// translating-batch — collects the calls and answers that leave on the channel of a ps-lite node, one frame after the
// other, and passes each to the conversation as a header and the location of its payload. Our own frames are never
// encoded.
//
// Invariants:
//   TranslatingBatch.T1. A frame is passed on once its payload is complete: at the beginning of the next one, or when
//       the batch is taken.
//   TranslatingBatch.T2. The next frame reuses the payload in the page after that; what is attached stays unchanged
//       until the write is flushed, and in requests until the call ends.

import { joinBytes } from "../base/bytes.ts";
import type { JsonContract } from "../contracts/contract.ts";
import type { FrameBatch, Held, Page, PagePool, TakenFrames } from "../peer/frame-batch.ts";
import { FrameHeader, HEADER_BYTES } from "../wire/frame.ts";
import type { Conversation } from "./conversation.ts";

/** One request or answer of ours. Reused for the next one. */
export class OutgoingFrame {
  readonly header: FrameHeader = new FrameHeader();
  /** The beginning of the payload: `page[0 … inlineBytes)`. */
  page: Uint8Array = new Uint8Array(0);
  inlineBytes = 0;
  /** The rest. */
  attached: Uint8Array[] = [];

  /** The payload in one piece, to keep. */
  payload(): Uint8Array {
    return joinBytes([this.page.subarray(0, this.inlineBytes), ...this.attached]);
  }
}

/** The body of a control request of ours. */
export function bodyOf<Q>(fn: JsonContract<Q, unknown>, frame: OutgoingFrame): Q {
  return fn.request.decode(frame.payload(), 0, frame.header.payloadBytes).body;
}

export class TranslatingBatch implements FrameBatch {
  readonly page: Page;
  byteCount = 0;
  readonly #conversation: Conversation;
  readonly #frame = new OutgoingFrame();
  #isOpen = false;
  #held: Held[] = [];

  constructor(conversation: Conversation, pages: PagePool) {
    this.#conversation = conversation;
    this.page = pages.take();
    this.#frame.page = this.page.bytes;
  }

  begin(header: FrameHeader, inlineBytes: number): number {
    this.#complete();
    const frame = this.#frame;
    frame.header.copyFrom(header);
    frame.inlineBytes = inlineBytes;
    this.byteCount += HEADER_BYTES + inlineBytes;
    this.#isOpen = true;
    if (header.payloadBytes === 0) this.#complete();
    return 0;
  }

  attach(part: Uint8Array): void {
    this.#frame.attached.push(part);
    this.byteCount += part.length;
  }

  pad(): void {}

  hold(held: Held): void {
    this.#held.push(held);
  }

  take(): TakenFrames {
    this.#complete();
    const messages = this.#conversation.outgoing?.batch.take();
    const [held, byteCount] = [this.#held, this.byteCount];
    this.#held = [];
    this.byteCount = 0;
    const flushed = (): void => {
      messages?.release();
      for (const each of held) each.release();
    };
    return { chunks: messages?.chunks ?? [], byteCount, flushed };
  }

  /** TranslatingBatch.T1 */
  #complete(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    if (this.#conversation.isLinked) this.#conversation.send(this.#frame);
    if (this.#frame.attached.length > 0) this.#frame.attached = [];
  }
}
