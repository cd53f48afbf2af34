// served-requests — the requests of a ps-lite node to ours: passes each to the channel, and sends its response in turn.
// served-request.ts handles one request and its response.
//
// Invariants:
//   ServedRequests.Q1. A response with long values leaves while they are still being written here: until it is
//       complete, others wait.

import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import { bodyParts } from "../wire/simple-frame.ts";
import type { Conversation } from "./conversation.ts";
import type { PulledLists } from "./pulled-lists.ts";
import { problemWith, RequestReader } from "./request-reader.ts";
import { ServedRequest } from "./served-request.ts";
import type { PsMeta } from "./wire/ps-meta.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";

export class ServedRequests {
  readonly conversation: Conversation;
  readonly lists: PulledLists;
  readonly #reader: RequestReader;
  /** The response that is being written (ServedRequests.Q1), and what waits for its end. */
  #current: ServedRequest | undefined;
  #waiting: (() => void)[] = [];

  constructor(conversation: Conversation) {
    this.conversation = conversation;
    this.lists = conversation.host.lists;
    this.#reader = new RequestReader(conversation, this.lists);
  }

  /** A request of the node. Returns the sink of its parts. */
  take(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const served = new ServedRequest(this, meta);
    const problem = problemWith(meta, hasParts);
    if (problem !== undefined) {
      served.refuse(problem);
      return undefined;
    }
    if (meta.simpleApp) {
      this.#putSimple(served, meta);
      return undefined;
    }
    return this.#reader.begun(served, meta.dataTypes.length > 2);
  }

  /** A body may take several frames (wire/simple-frame.ts). */
  #putSimple(served: ServedRequest, { appId, customerId, head, body }: PsMeta): void {
    const parts = bodyParts(body);
    served.open(parts.length);
    let from = 0;
    for (const [i, part] of parts.entries()) {
      const header = this.conversation.requestHeader(FunctionId.SIMPLE, true, served);
      if (i === 0) served.first = header.request;
      header.app = appId;
      header.customer = customerId;
      header.command = head;
      if (parts.length > 1) {
        header.flags = i < parts.length - 1 ? FunctionFlag.PART : 0;
        header.arg1 = served.first >>> 0;
        header.arg2 = from;
        header.arg3 = body.length;
      }
      this.conversation.payload.deliverCopy(header, part);
      from += part.length;
    }
  }

  /** The guess was wrong: pulls again without one (Conversation.E4). */
  pullAgain(served: ServedRequest): void {
    const { channel, host } = this.conversation;
    this.lists.forget(served.keys, served);
    host.clock.soon(() => {
      if (this.conversation.channel === channel) this.#reader.pullUnknown(served);
    });
  }

  /**
   * The link with our peer is gone, and with it what was not answered. A response that has begun cannot be finished.
   */
  unlinked(): void {
    if (this.#current !== undefined) this.conversation.outgoing?.destroy();
    this.#current = undefined;
    this.#waiting = [];
  }

  /** Runs this once no response is being written. */
  whenFree(run: () => void): void {
    if (this.#current === undefined) run();
    else this.#waiting.push(run);
  }

  /** Whether this response may be written as it comes; others wait from then on. */
  occupy(served: ServedRequest): boolean {
    if (this.#current !== undefined && this.#current !== served) return false;
    this.#current = served;
    return true;
  }

  release(): void {
    this.#current = undefined;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const run of waiting) run();
    if (waiting.length > 0) this.conversation.outgoing?.flushSoon();
  }
}
