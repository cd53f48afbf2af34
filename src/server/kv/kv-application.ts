// kv-application — an application of the kv face on a server: serves pushes and pulls of its keys, by sums or by a handle of the user's own.

import type { Arena } from "../../kernel/arena.ts";
import type { Kernels } from "../../kernel/kernels.ts";
import type { AppDirectory } from "../../peer/app-directory.ts";
import type { FunctionHandler } from "../../peer/channel.ts";
import type { UnfinishedRequests } from "../../peer/unfinished-requests.ts";
import { ValueStore } from "../../store/value-store.ts";
import type { Values } from "../../wire/kv-message.ts";
import { SumHandle } from "./sum-handle.ts";
import { answerWhole, type Gathering, type WholeRequest, WholeRequests } from "./whole-requests.ts";

export type KvApplicationOptions = {
  readonly arena: Arena;
  readonly kernels: Kernels;
  readonly apps: AppDirectory;
  /** Pushes of all applications that are served whole, and have not come whole. */
  readonly unfinishedRequests: UnfinishedRequests<Gathering>;
};

export class KvApplication {
  readonly #unfinished: UnfinishedRequests<Gathering>;
  readonly #sums: SumHandle;
  #handler: FunctionHandler;

  /** Sums what is pushed from the start. Throws BAD_ARGUMENT when the application exists already. */
  constructor({ arena, kernels, apps, unfinishedRequests }: KvApplicationOptions, appId: number) {
    this.#unfinished = unfinishedRequests;
    this.#sums = new SumHandle(arena, new ValueStore({ arena, kernels }), unfinishedRequests);
    this.#handler = this.#sums;
    apps.add(appId, {
      destination: (channel, header) => this.#handler.destination?.(channel, header),
      handle: (channel, header, bytes, at, fresh) => this.#handler.handle(channel, header, bytes, at, fresh),
    });
  }

  /** Serves whole requests with `serve` from now on; `undefined` goes back to summing. */
  serveWhole(serve: ((request: WholeRequest) => void) | undefined): void {
    this.#handler = serve === undefined ? this.#sums : new WholeRequests(this.#unfinished, serve);
  }

  /** Answers a request that `serve` was given. The arrays must not change any more. */
  answer(request: WholeRequest, values: Values | undefined, lens: Int32Array | undefined): void {
    answerWhole(request, values, lens);
  }
}
