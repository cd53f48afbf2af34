// key-receiver — reads the key lists of one conversation, in any form, and holds those it has to. See also KC1 and KC2.

import { assert } from "../../base/assert.ts";
import { KEY_BYTES } from "../../keys/key-range.ts";
import { decodeKeyDeltas, KeyForm, keysNotAscending, readKeySectionHeader } from "./key-codec.ts";
import { type HeldKeyList, type ReceivedKeyLists, unknownKeyList } from "./received-key-lists.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

export type ReceivedKeys = {
  /** Strictly ascending, in the arena, the caller's until released. RAW ones lie in the message itself. */
  readonly keys: HeldKeyList;
  readonly sectionBytes: number;
};

export type ReceiveKeysJob = {
  readonly source: number;
  /** What is left of the message from `source` on. */
  readonly byteCount: number;
  /** Longer lists are refused before memory is allocated: a few bytes can claim many keys. */
  readonly keyCountMax: number;
};

export class KeyReceiver {
  readonly #context: CodecContext;
  readonly #lists: ReceivedKeyLists | undefined;

  /** Without `lists` no list is held, and every name is unknown. */
  constructor(context: CodecContext, lists: ReceivedKeyLists | undefined) {
    this.#context = context;
    this.#lists = lists;
  }

  /** Throws BAD_REQUEST, KEYS_NOT_ASCENDING, UNKNOWN_KEY_LIST or ARENA_FULL, and then holds nothing new. */
  read({ source, byteCount, keyCountMax }: ReceiveKeysJob): ReceivedKeys {
    const header = readKeySectionHeader(this.#context.arena, source, byteCount);
    const { form, name, keyCount, body, bodyBytes, sectionBytes } = header;
    if (keyCount > keyCountMax) throw malformed(`a list of ${keyCount} keys where at most ${keyCountMax} are taken`);
    if (form === KeyForm.NAMED) {
      assert(name !== undefined, "a section of this form has a name");
      if (this.#lists === undefined) throw unknownKeyList(name);
      return { keys: this.#lists.find(name), sectionBytes };
    }
    const keys = form === KeyForm.RAW ? this.#raw(body, keyCount) : this.#deltas(body, bodyBytes, keyCount);
    try {
      if (name !== undefined) this.#lists?.remember(name, keys.address);
    } catch (error) {
      keys.release();
      throw error;
    }
    return { keys, sectionBytes };
  }

  #raw(address: number, keyCount: number): HeldKeyList {
    const wrong = this.#context.kernels.checkAscending(address, keyCount);
    if (wrong >= 0) throw keysNotAscending(wrong, keyCount);
    return { address, keyCount, release: () => {} };
  }

  #deltas(source: number, byteCount: number, keyCount: number): HeldKeyList {
    const { arena, codecKernels } = this.#context;
    const address = arena.allocate(keyCount * KEY_BYTES);
    const release = (): void => arena.release(address, keyCount * KEY_BYTES);
    try {
      decodeKeyDeltas(codecKernels, { source, byteCount, keyCount, target: address });
    } catch (error) {
      release();
      throw error;
    }
    return { address, keyCount, release };
  }
}
