// server-sums — the sums of a server: one store for each application of the kv face, and one for the data that workers
// leave for each other (Hetu: PushData). They are server state like parameters: saved with them, and restored before
// use.

import { simdElementKernels } from "../../kernel/row-kernels.ts";
import type { RowTableHost } from "../../store/row-table.ts";
import type { SumOwner } from "../../store/sums/sum-requests.ts";
import { SumStore } from "../../store/sums/sum-store.ts";

export class ServerSums {
  readonly #host: RowTableHost;
  readonly #stores = new Map<SumOwner, SumStore>();
  #isRestoring = false;
  /** Called when the server keeps its first values, and perhaps again. Must not throw. */
  onSums: () => void = () => {};

  constructor(host: RowTableHost) {
    this.#host = host;
  }

  get all(): ReadonlyMap<SumOwner, SumStore> {
    return this.#stores;
  }

  /** The sums of an owner, made at first use. Throws ARENA_FULL. */
  of(owner: SumOwner): SumStore {
    let store = this.#stores.get(owner);
    if (store === undefined) {
      const { arena, kernels, rowKernels } = this.#host;
      store = new SumStore({ arena, kernels, rowKernels, elements: simdElementKernels(arena), tableMade: () => this.onSums() });
      if (this.#isRestoring) store.suspend();
      this.#stores.set(owner, store);
    }
    return store;
  }

  /** While a checkpoint is being restored, pushes and pulls of sums are refused with a retryable QUEUE_FULL. */
  set isRestoring(is: boolean) {
    this.#isRestoring = is;
    for (const store of this.#stores.values()) {
      if (is) store.suspend();
      else store.resume();
    }
  }

  /** Removes everything: a restore that failed leaves nothing behind. */
  clear(): void {
    for (const store of this.#stores.values()) store.clear();
  }
}
