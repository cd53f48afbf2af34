// sum-handle — the default handle of an application: sums what is pushed, whatever its type (ps-lite: KVServerDefaultHandle<Val>). Floats are
// served frame by frame where they lie (store-handle.ts), values of other types by whole requests (typed-sums.ts).
//
// Invariants:
//   U1. An application holds values of one type; requests of another one are refused with UNSUPPORTED, and change nothing.

import type { Arena } from "../../kernel/arena.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import type { UnfinishedRequests } from "../../peer/unfinished-requests.ts";
import type { ValueStore } from "../../store/value-store.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { dtypeOf, dtypeOfFlags, FLOAT32 } from "../../wire/kv-message.ts";
import { StoreHandle } from "./store-handle.ts";
import { otherType, TypedSums } from "./typed-sums.ts";
import { type Gathering, type WholeRequest, WholeRequests } from "./whole-requests.ts";

export class SumHandle implements FunctionHandler {
  readonly #store: ValueStore;
  readonly #floats: StoreHandle;
  readonly #others: TypedSums;
  readonly #whole: WholeRequests;

  constructor(arena: Arena, store: ValueStore, unfinished: UnfinishedRequests<Gathering>) {
    this.#store = store;
    this.#floats = new StoreHandle(arena, store);
    this.#others = new TypedSums(arena.bytesMax);
    this.#whole = new WholeRequests(unfinished, (request) => this.#serve(request));
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return dtypeOfFlags(header.flags) === FLOAT32 ? undefined : this.#whole.destination(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    if (dtypeOfFlags(header.flags) !== FLOAT32) {
      this.#whole.handle(channel, header, bytes, at, fresh);
      return;
    }
    if (this.#others.dtype !== undefined) throw otherType(this.#others.dtype, FLOAT32); // U1
    this.#floats.handle(channel, header, bytes, at, fresh);
  }

  #serve(request: WholeRequest): void {
    try {
      if (this.#store.keyCount > 0) throw otherType(FLOAT32, dtypeOf(request.values)); // U1
      this.#others.serve(request);
    } catch (thrown) {
      request.channel.fail(request.label, thrown);
    }
  }
}
