// kv-application — an application of the kv face on a server: serves pushes and pulls of its keys, by a handle of the user's own, or by sums of whatever type is
// pushed (ps-lite: KVServerDefaultHandle<Val>): floats frame by frame where they lie (store-handle.ts), other types by whole requests (typed-sums.ts).
//
// Invariants:
//   KvApplication.A1. Sums are of one type; requests of another one are refused with UNSUPPORTED, and change nothing.

import type { Arena } from "../../kernel/arena.ts";
import { ElementType, elementTypeOf } from "../../kernel/elements.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import type { AppDirectory } from "../../peer/app-directory.ts";
import type { Channel } from "../../peer/channel.ts";
import type { UnfinishedRequests } from "../../peer/unfinished-requests.ts";
import { ValueStore } from "../../store/value-store.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { dtypeOfFlags, type Values } from "../../wire/kv-message.ts";
import { type OtherTypes, StoreHandle } from "./store-handle.ts";
import { otherType, TypedSums } from "./typed-sums.ts";
import { answerWhole, type Gathering, type WholeRequest, WholeRequests } from "./whole-requests.ts";

export type KvApplicationOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly apps: AppDirectory;
  /** Pushes of all applications that are served whole, and have not come whole. */
  readonly unfinishedRequests: UnfinishedRequests<Gathering>;
};

export class KvApplication implements OtherTypes {
  readonly sums: TypedSums;
  readonly #appId: number;
  readonly #apps: AppDirectory;
  readonly #unfinished: UnfinishedRequests<Gathering>;
  readonly #store: ValueStore;
  readonly #floats: StoreHandle;
  /** Requests of other types. */
  readonly #typed: WholeRequests;

  /** Sums what is pushed from the start. Throws BAD_ARGUMENT when the application exists already. */
  constructor({ arena, kernels, apps, unfinishedRequests }: KvApplicationOptions, appId: number) {
    this.#appId = appId;
    this.#apps = apps;
    this.#unfinished = unfinishedRequests;
    this.#store = new ValueStore({ arena, kernels });
    this.#floats = new StoreHandle(arena, this.#store, this);
    this.sums = new TypedSums(arena.bytesMax);
    this.#typed = new WholeRequests(unfinishedRequests, (request) => this.#sum(request));
    apps.add(appId, this.#floats);
  }

  /** Serves whole requests with `serve` from now on; `undefined` goes back to summing. */
  serveWhole(serve: ((request: WholeRequest) => void) | undefined): void {
    this.#apps.replace(this.#appId, serve === undefined ? this.#floats : new WholeRequests(this.#unfinished, serve));
  }

  /** Answers a request that `serve` was given. The arrays must not change any more. */
  answer(request: WholeRequest, values: Values | undefined, lens: Int32Array | undefined): void {
    answerWhole(request, values, lens);
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return this.#typed.destination(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const { dtype } = this.sums;
    if (dtype !== undefined && dtypeOfFlags(header.flags) === ElementType.F32) throw otherType(dtype, ElementType.F32); // A1
    this.#typed.handle(channel, header, bytes, at, fresh);
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#typed.abandon(channel, header);
  }

  #sum(request: WholeRequest): void {
    try {
      if (this.#store.keyCount > 0) throw otherType(ElementType.F32, elementTypeOf(request.values)); // A1
      this.sums.serve(request);
    } catch (thrown) {
      request.channel.fail(request.label, thrown);
    }
  }
}
