// kv-application — an application of the kv face on a server: serves pushes and pulls of its keys, by a user's handle
// or by the server's sums for it (ps-lite: KVServerDefaultHandle<Val>), frame by frame in the arena (store-handle.ts).
// The server owns the sums: those of a checkpoint are there before the application is made.

import type { Arena } from "../../kernel/arena.ts";
import type { AppRegistry } from "../../peer/app-registry.ts";
import type { PartialRequests } from "../../peer/partial-requests.ts";
import type { Values } from "../../wire/kv-message.ts";
import type { CutPressure } from "../checkpoint/cut-pressure.ts";
import type { ServerSums } from "../parameters/server-sums.ts";
import { refusedError } from "../replication/log-policy.ts";
import { StoreHandle } from "./store-handle.ts";
import { answerWhole, type PartialRequest, type WholeKvRequest, WholeRequests } from "./whole-requests.ts";

type KvApplicationOptions = {
  readonly arena: Arena;
  readonly apps: AppRegistry;
  /** Incomplete requests of all applications that are served whole. */
  readonly unfinishedRequests: PartialRequests<PartialRequest>;
  readonly parameters: { readonly sums: ServerSums };
  readonly checkpoints: { readonly pressure: CutPressure };
  /** Set on a server that is replicated or durable. */
  readonly isRepeated?: boolean | undefined;
};

export class KvApplication {
  readonly #appId: number;
  readonly #apps: AppRegistry;
  readonly #unfinished: PartialRequests<PartialRequest>;
  readonly #sums: StoreHandle;
  readonly #isReplicated: boolean;

  /** Sums pushes from the start. Throws BAD_ARGUMENT if the application exists already. */
  constructor({ arena, apps, unfinishedRequests, parameters, checkpoints, isRepeated }: KvApplicationOptions, appId: number) {
    this.#isReplicated = isRepeated === true;
    this.#appId = appId;
    this.#apps = apps;
    this.#unfinished = unfinishedRequests;
    this.#sums = new StoreHandle(arena, parameters.sums.of(appId), checkpoints.pressure);
    apps.add(appId, this.#sums);
  }

  /**
   * Serves whole requests with `serve` from now on; `undefined` goes back to summing. Throws UNSUPPORTED on a
   * replicated server: nobody knows whether a handle could be repeated.
   */
  serveWhole(serve: ((request: WholeKvRequest) => void) | undefined): void {
    if (serve !== undefined && this.#isReplicated) throw refusedError("a handle of one's own for kv");
    this.#apps.replace(this.#appId, serve === undefined ? this.#sums : new WholeRequests(this.#unfinished, serve));
  }

  /** Answers a request that `serve` got. The arrays must not change any more. */
  answer(request: WholeKvRequest, values: Values | undefined, lens: Int32Array | undefined): void {
    answerWhole(request, values, lens);
  }
}
