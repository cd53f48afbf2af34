// received-key-lists — the receiver's side of lists of keys that travel once: what one sender had it remember, in the
// arena. key-cache.ts has the sender's side, and the invariants of both.

import { assert } from "../../base/assert.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import { type KeyListName, nameOfKeys } from "./key-codec.ts";
import { type CodecContext, malformed } from "./value-codec.ts";

/** The answer to a name that is not held. */
export function unknownKeyList({ signature, keyCount }: KeyListName): WeighbridgeError {
  const message = `no list of ${keyCount} keys with the signature ${signature.toString(16)} is held: send the keys`;
  return new WeighbridgeError("UNKNOWN_KEY_LIST", message, { retryable: true });
}

/** A list in the arena, the caller's until `release`. */
export interface HeldKeyList {
  readonly address: number;
  readonly keyCount: number;
  release(): void;
}

class ReceivedList implements HeldKeyList {
  readonly address: number;
  readonly keyCount: number;
  readonly #free: () => void;
  /** The cache itself is the first. */
  #holderCount = 1;

  constructor(address: number, keyCount: number, free: () => void) {
    this.address = address;
    this.keyCount = keyCount;
    this.#free = free;
  }

  hold(): this {
    this.#holderCount++;
    return this;
  }

  release(): void {
    assert(this.#holderCount > 0, "a key list is released once by each holder");
    if (--this.#holderCount === 0) this.#free();
  }
}

export type ReceivedKeyListsOptions = {
  readonly listCountMax: number;
  /** Arena bytes of all lists together, without dropped ones that are still in use. */
  readonly bytesMax: number;
};

/** The receiver's side: the lists of one sender. */
export class ReceivedKeyLists {
  readonly #context: CodecContext;
  readonly #options: ReceivedKeyListsOptions;
  readonly #lists = new Map<bigint, ReceivedList>();
  /** The oldest first. */
  readonly lists: ReadonlyMap<bigint, Pick<HeldKeyList, "address" | "keyCount">> = this.#lists;
  /** 8 bytes for the signature of a list that came. */
  readonly #signature: number;
  #byteCount = 0;

  /** Throws ARENA_FULL. */
  constructor(context: CodecContext, options: ReceivedKeyListsOptions) {
    this.#context = context;
    this.#options = options;
    this.#signature = context.arena.allocate(KEY_BYTES);
  }

  get byteCount(): number {
    return this.#byteCount;
  }

  /**
   * Keeps a copy of a list that came with its keys. A list that is too long for the cache is not kept: the sender
   * learns that when it names it. Throws BAD_REQUEST if the name is not that of the keys (KeyCache.C2), and ARENA_FULL:
   * a sender may rely on what was acknowledged (KeyCache.C5).
   */
  remember(name: KeyListName, keys: number): void {
    const { arena, kernels } = this.#context;
    const { signature } = nameOfKeys(this.#context, keys, name.keyCount, this.#signature);
    if (signature !== name.signature) throw malformed(`a list of ${name.keyCount} keys under a name that is not its own`);
    const known = this.#held(name);
    if (known !== undefined) {
      this.#lists.delete(signature);
      this.#lists.set(signature, known); // the youngest now
      return;
    }
    const byteCount = name.keyCount * KEY_BYTES;
    if (byteCount > this.#options.bytesMax) return;
    const copy = arena.allocate(byteCount);
    kernels.copy(copy, keys, byteCount);
    this.#drop(signature);
    this.#lists.set(signature, new ReceivedList(copy, name.keyCount, () => arena.release(copy, byteCount)));
    this.#byteCount += byteCount;
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= this.#options.listCountMax && this.#byteCount <= this.#options.bytesMax) break;
      this.#drop(oldest); // KeyCache.C3
    }
  }

  /** The keys of a named list, which the caller releases. Throws UNKNOWN_KEY_LIST: retry with the keys. */
  find(name: KeyListName): HeldKeyList {
    const list = this.#held(name);
    if (list === undefined) throw unknownKeyList(name);
    return list.hold();
  }

  close(): void {
    for (const signature of [...this.#lists.keys()]) this.#drop(signature);
    this.#context.arena.release(this.#signature, KEY_BYTES);
  }

  #held({ signature, keyCount }: KeyListName): ReceivedList | undefined {
    const list = this.#lists.get(signature);
    return list?.keyCount === keyCount ? list : undefined;
  }

  #drop(signature: bigint): void {
    const list = this.#lists.get(signature);
    if (list === undefined) return;
    this.#lists.delete(signature);
    this.#byteCount -= list.keyCount * KEY_BYTES;
    list.release();
  }
}
