// key-receiver — reads the key lists of one conversation, in any form, and holds those it has to. See also KeyCodec.K1
// and KeyCodec.K2.

import { assert } from "../../base/assert.ts";
import type { Arena } from "../../kernel/arena.ts";
import { CODEC_COUNT_MAX } from "../../kernel/codec-kernels.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import { decodeKeyDeltas, KEY_SECTION_HEADER_BYTES, KeyForm, type KeyListName, keysNotAscending, padded, REMEMBER } from "./key-codec.ts";
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

type KeySectionHeader = {
  readonly form: number;
  /** What the list is called, if it is NAMED or to be remembered. */
  readonly name: KeyListName | undefined;
  readonly keyCount: number;
  readonly body: number;
  readonly bodyBytes: number;
  /** Where the next byte of the message is, counted from the section's first (KeyCodec.K2). */
  readonly sectionBytes: number;
};

/** Reads and checks a header, not the body; `byteCount` is what is left of the message. Throws BAD_REQUEST. */
export function readKeySectionHeader(arena: Arena, source: number, byteCount: number): KeySectionHeader {
  assert(source % KEY_BYTES === 0, "the frame reader aligns payloads to 8 bytes");
  if (byteCount < KEY_SECTION_HEADER_BYTES) throw malformed(`${byteCount} bytes are too short for a key list`);
  const view = new DataView(arena.memory.buffer, source, KEY_SECTION_HEADER_BYTES);
  const form = view.getUint8(0);
  const flags = view.getUint8(1);
  const keyCount = view.getUint32(4, true);
  const bodyBytes = view.getUint32(8, true);
  const signature = view.getBigUint64(16, true);
  const hasName = form === KeyForm.NAMED || flags === REMEMBER;
  if (form > KeyForm.NAMED || flags > (form === KeyForm.NAMED ? 0 : REMEMBER))
    throw malformed(`a key list of form ${form}, flags ${flags}`);
  if (view.getUint16(2, true) !== 0 || view.getUint32(12, true) !== 0 || (!hasName && signature !== 0n)) {
    throw malformed("a key list with a field that has no meaning and is not 0");
  }
  if (keyCount === 0 || keyCount > CODEC_COUNT_MAX) throw malformed(`a list of ${keyCount} keys`);
  const sectionBytes = KEY_SECTION_HEADER_BYTES + padded(bodyBytes);
  if (sectionBytes > byteCount) throw malformed(`a key list of ${sectionBytes} bytes where ${byteCount} are left`);
  const expected = form === KeyForm.RAW ? keyCount * KEY_BYTES : 0;
  if (form !== KeyForm.DELTA && bodyBytes !== expected) throw malformed(`${bodyBytes} bytes for ${keyCount} keys`);
  const body = source + KEY_SECTION_HEADER_BYTES;
  for (let at = body + bodyBytes; at < body + padded(bodyBytes); at++) {
    if (arena.bytes[at] !== 0) throw malformed("bytes behind a key list that are not 0");
  }
  return { form, name: hasName ? { keyCount, signature } : undefined, keyCount, body, bodyBytes, sectionBytes };
}
