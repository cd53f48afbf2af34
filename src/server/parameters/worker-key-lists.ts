// worker-key-lists — the key lists that workers told this server to remember: those of each worker by themselves, since a name counts within
// one conversation (wire/codecs/key-cache.ts).
//
// Invariants:
//   W1. A worker that comes back with a new incarnation has told nothing yet; one that died or left takes no memory.

import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { LISTED_KEYS_MAX, NAMED_LISTS_MAX } from "../../contracts/rows.ts";
import { KEY_BYTES } from "../../keys/key-range.ts";
import { ReceivedKeyLists, receivedListCount } from "../../wire/codecs/key-cache.ts";
import { KeyReceiver } from "../../wire/codecs/key-receiver.ts";
import type { CodecContext } from "../../wire/codecs/value-codec.ts";

type Conversation = { readonly incarnation: number; readonly lists: ReceivedKeyLists; readonly receiver: KeyReceiver };

export class WorkerKeyLists {
  readonly #context: CodecContext;
  readonly #workers = new Map<number, Conversation>();

  constructor(context: CodecContext) {
    this.#context = context;
  }

  /** Reads the key lists of this worker. Throws ARENA_FULL. */
  of({ worker, incarnation }: WorkerIncarnation): KeyReceiver {
    const known = this.#workers.get(worker);
    if (known?.incarnation === incarnation) return known.receiver;
    this.forget(worker); // W1
    const listCountMax = receivedListCount(NAMED_LISTS_MAX);
    const lists = new ReceivedKeyLists(this.#context, { listCountMax, bytesMax: listCountMax * LISTED_KEYS_MAX * KEY_BYTES });
    const receiver = new KeyReceiver(this.#context, lists);
    this.#workers.set(worker, { incarnation, lists, receiver });
    return receiver;
  }

  forget(worker: number): void {
    this.#workers.get(worker)?.lists.close();
    this.#workers.delete(worker);
  }
}
