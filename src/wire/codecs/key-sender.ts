// key-sender — writes the key lists of one conversation: by name where the receiver holds the list, otherwise with the
// keys, to be held if they may come again. The other side is key-receiver.ts.

import type { OpenKeyList, SentKeyLists } from "./key-cache.ts";
import { KEY_SECTION_HEADER_BYTES, keySectionBound, nameOfKeys, type WriteKeysJob, writeKeys, writeName } from "./key-codec.ts";
import type { CodecContext } from "./value-codec.ts";

export type SendKeysJob = Omit<WriteKeysJob, "remember"> & {
  /** True for a message that came back with UNKNOWN_KEY_LIST. */
  readonly withKeys?: boolean | undefined;
};

export type SentKeys = {
  readonly sectionBytes: number;
  /** The caller ends it with the cache: `acknowledged`, `missed` after UNKNOWN_KEY_LIST, otherwise `failed`. */
  readonly open: OpenKeyList | undefined;
};

export class KeySender {
  readonly #context: CodecContext;
  readonly #lists: SentKeyLists | undefined;

  /** Without `lists` every list travels with its keys. */
  constructor(context: CodecContext, lists: SentKeyLists | undefined) {
    this.#context = context;
    this.#lists = lists;
  }

  bound(keyCount: number): number {
    return keySectionBound(keyCount);
  }

  /** Throws KEYS_NOT_ASCENDING. */
  write({ keys, keyCount, target, form, withKeys = false }: SendKeysJob): SentKeys {
    const lists = this.#lists;
    if (lists === undefined) return { sectionBytes: writeKeys(this.#context, { keys, keyCount, target, form }), open: undefined };
    const name = nameOfKeys(this.#context, keys, keyCount, target + KEY_SECTION_HEADER_BYTES); // written over below
    if (!withKeys && lists.isHeld(name))
      return { sectionBytes: writeName(this.#context.arena, target, name), open: lists.open(name, true) };
    const remember = lists.isWorthHolding(name) ? name : undefined;
    const sectionBytes = writeKeys(this.#context, { keys, keyCount, target, form, remember });
    return { sectionBytes, open: remember === undefined ? undefined : lists.open(remember, false) };
  }
}
