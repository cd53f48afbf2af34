// store-handle — KV_PUSH, KV_PULL and KV_PUSH_PULL on a ValueStore: pushes are summed, pulls read. What ps-lite's default handle does for
// one value per key, for any number of them. Works where the frame lies in the arena; never waits. Values that are no floats are handed on.
//
// Invariants:
//   H1. A request that makes no sense changes nothing, and its asker is told why.
//   H2. The bytes of an answer do not change while they leave: small ones are copied, gathered ones are the answer's own, blocks are held.

import { AssertionError, assert } from "../../base/assert.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { kvPull, kvPush } from "../../contracts/kv.ts";
import type { Arena } from "../../kernel/arena.ts";
import { ElementType } from "../../kernel/elements.ts";
import { KEY_BYTES } from "../../keys/key-range.ts";
import { answerFrames, labelOf } from "../../peer/answer.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import { type Held, INLINE_BYTES_MAX } from "../../peer/frame-batch.ts";
import { BLOCK_FLOATS } from "../../store/large-value.ts";
import { SharedSpan } from "../../store/shared-span.ts";
import { checkLengths } from "../../store/value-batch.ts";
import type { ValueStore } from "../../store/value-store.ts";
import { APP_CUT, BLOCK_BYTES, type FrameHeader, PAYLOAD_BYTES_MAX } from "../../wire/frame.ts";
import { checkKvFrame, DTYPE_MASK, DTYPE_SHIFT, doNotAddUp, KvFlag, LARGE_VALUE_BYTES, LEN_BYTES } from "../../wire/kv-message.ts";

const FLOAT_BYTES = 4;
const FLOATS = ElementType.F32 << DTYPE_SHIFT;
/** What a frame of values of one width may say beside its type: nothing that there is anything to do about. */
const PLAIN_FLAGS = KvFlag.FIRST | KvFlag.LAST | APP_CUT;
const ZEROS = new Uint8Array(BLOCK_BYTES);

/** Who serves values of other types, and refuses floats once it holds some. */
export type OtherTypes = FunctionHandler & { readonly sums: { readonly dtype: number | undefined } };

export class StoreHandle implements FunctionHandler {
  readonly #arena: Arena;
  readonly #store: ValueStore;
  readonly #others: OtherTypes | undefined;
  /** Where small answers are put together. */
  readonly #scratch: number;
  /** The read buffer that was last found to lie in the arena. */
  #readBuffer: Uint8Array | undefined;

  constructor(arena: Arena, store: ValueStore, others?: OtherTypes) {
    assert(BLOCK_FLOATS * FLOAT_BYTES === BLOCK_BYTES, "the store and the wire cut long values alike");
    this.#arena = arena;
    this.#store = store;
    this.#others = others;
    this.#scratch = arena.allocateState(INLINE_BYTES_MAX);
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return (header.flags & DTYPE_MASK) === FLOATS ? undefined : this.#others?.destination?.(channel, header);
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#others?.abandon?.(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const others = this.#others;
    if (others !== undefined && ((header.flags & DTYPE_MASK) !== FLOATS || others.sums.dtype !== undefined)) {
      others.handle(channel, header, bytes, at, fresh);
      return;
    }
    checkFrame(header);
    if (bytes === this.#readBuffer || this.#isInArena(bytes)) {
      this.#serve(channel, header, bytes.byteOffset + at, fresh);
      return;
    }
    const size = Math.max(1, header.payloadBytes);
    const address = this.#arena.allocate(size); // a request that waited for its application lies elsewhere
    try {
      this.#arena.bytes.set(bytes.subarray(at, at + header.payloadBytes), address);
      this.#serve(channel, header, address, fresh);
    } finally {
      this.#arena.release(address, size);
    }
  }

  /** Asking a view for its buffer costs more than a small request; a link reads into the same one again and again. */
  #isInArena(bytes: Uint8Array): boolean {
    if (bytes.buffer !== this.#arena.bytes.buffer) return false;
    this.#readBuffer = bytes;
    return true;
  }

  /** Frees the state. */
  close(): void {
    this.#store.close();
    this.#arena.release(this.#scratch, INLINE_BYTES_MAX);
  }

  #serve(channel: Channel, header: FrameHeader, keys: number, fresh: boolean): void {
    if (header.functionId !== kvPull.id && fresh) this.#push(header, keys);
    else this.#store.requireAscending(keys, header.arg0);
    if (header.functionId === kvPush.id) channel.acknowledge(header);
    else if (header.functionId === kvPull.id) this.#pull(channel, header, keys);
    else this.#pullAfterPush(channel, header, keys);
  }

  #pull(channel: Channel, header: FrameHeader, keys: number): void {
    if ((header.flags & KvFlag.WANT_LENS) !== 0) this.#pullVariable(channel, header, keys);
    else if ((header.flags & KvFlag.PIECE) !== 0) this.#pullPiece(channel, header, keys);
    else if ((header.flags & KvFlag.LENS) !== 0) this.#pullPushed(channel, header, keys);
    else this.#pullRows(channel, header, keys);
  }

  /** The push counts, whatever becomes of its answer: nobody must repeat it for want of that. */
  #pullAfterPush(channel: Channel, header: FrameHeader, keys: number): void {
    try {
      this.#pull(channel, header, keys);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "ARENA_FULL")) throw thrown;
      const message = `the push was applied, but there was no memory for what it came to: read it with a pull; ${thrown.message}`;
      throw new WeighbridgeError("ANSWER_LOST", message, { cause: thrown });
    }
  }

  #push(header: FrameHeader, keys: number): void {
    const { arg0: keyCount, arg1: width, arg2: offset, flags } = header;
    const values = keys + keyCount * KEY_BYTES;
    if ((flags & KvFlag.LENS) !== 0) {
      const valueBytes = header.payloadBytes - keyCount * (KEY_BYTES + LEN_BYTES);
      this.#store.pushVariable({ keys, keyCount, values, lens: values + valueBytes, valueCount: valueBytes / FLOAT_BYTES });
    } else if ((flags & KvFlag.PIECE) !== 0) {
      const floatCount = Math.min(BLOCK_FLOATS, width - offset);
      this.#store.pushBlock({ key: keys, width, blockIndex: offset / BLOCK_FLOATS, values, floatCount });
    } else {
      this.#store.push({ keys, keyCount, width, values });
    }
  }

  #pullRows(channel: Channel, header: FrameHeader, keys: number): void {
    const { arg0: keyCount, arg1: width } = header;
    const byteCount = keyCount * width * FLOAT_BYTES;
    const { bytes } = this.#arena;
    if (byteCount <= INLINE_BYTES_MAX) {
      this.#store.pull({ keys, keyCount, width, out: this.#scratch });
      channel.answerCopy(header, bytes, this.#scratch, byteCount);
      return;
    }
    const hold = this.#store.holdRows({ keys, keyCount, width });
    channel.answerHeld(header, bytes.subarray(hold.address, hold.address + byteCount), hold);
  }

  /** The values of keys that were just pushed, each of the length it was pushed with. */
  #pullPushed(channel: Channel, header: FrameHeader, keys: number): void {
    const { arg0: keyCount } = header;
    const byteCount = header.payloadBytes - keyCount * (KEY_BYTES + LEN_BYTES);
    const lens = keys + keyCount * KEY_BYTES + byteCount;
    checkLengths(this.#arena, lens, keyCount, byteCount / FLOAT_BYTES); // no push has looked at them when the request came again
    if (byteCount === 0) {
      channel.acknowledge(header);
      return;
    }
    const out = this.#arena.allocate(byteCount);
    const hold = new FreshSpan(this.#arena, { address: out, byteCount });
    try {
      this.#store.pullVariable({ keys, keyCount, lens, out });
    } catch (thrown) {
      hold.release();
      throw thrown;
    }
    channel.answerHeld(header, this.#arena.bytes.subarray(out, out + byteCount), hold);
  }

  #pullPiece(channel: Channel, header: FrameHeader, key: number): void {
    const { arg1: width, arg2: offset } = header;
    const hold = this.#store.holdBlock(key, width, offset / BLOCK_FLOATS);
    const byteCount = Math.min(BLOCK_FLOATS, width - offset) * FLOAT_BYTES;
    if (hold === undefined) channel.answerHeld(header, ZEROS.subarray(0, byteCount));
    else channel.answerHeld(header, this.#arena.bytes.subarray(hold.address, hold.address + byteCount), hold);
  }

  /** Values of any lengths, then the lengths, in as many frames as it takes. */
  #pullVariable(channel: Channel, header: FrameHeader, keys: number): void {
    const { arg0: keyCount, arg1: width } = header;
    const arena = this.#arena;
    const lensBytes = keyCount * LEN_BYTES;
    const lens = arena.allocate(lensBytes);
    try {
      const knownCount = this.#store.lengths(keys, keyCount, lens);
      const floatCount = width === 0 ? knownCount : knownCount + lengthenUnknown(arena.words, lens >>> 2, keyCount, width);
      const totalBytes = floatCount * FLOAT_BYTES + lensBytes;
      const out = arena.allocate(totalBytes);
      const hold = new FreshSpan(arena, { address: out, byteCount: totalBytes, users: Math.ceil(totalBytes / BLOCK_BYTES) });
      this.#store.pullVariable({ keys, keyCount, lens, out }); // cannot fail: `lengths` found every key
      arena.bytes.copyWithin(out + floatCount * FLOAT_BYTES, lens, lens + lensBytes);
      const payload = arena.bytes.subarray(out, out + totalBytes);
      for (const answer of answerFrames(labelOf(header), [payload], { held: hold })) channel.answer(answer);
    } finally {
      arena.release(lens, lensBytes);
    }
  }
}

/** Gives keys that nobody pushed a length: that of the first key somebody did, or `width`. Returns how many values that makes. */
function lengthenUnknown(words: Uint32Array, from: number, keyCount: number, width: number): number {
  const end = from + keyCount;
  let length = width;
  for (let at = from; at < end; at++) {
    if (words[at] === 0) continue;
    length = words[at] as number;
    break;
  }
  let added = 0;
  for (let at = from; at < end; at++) {
    if (words[at] !== 0) continue;
    words[at] = length;
    added += length;
  }
  return added;
}

/** What was put together for one answer, in as many frames as it has users. */
class FreshSpan extends SharedSpan implements Held {
  readonly isFresh = true;
}

/** Lengths that do not add up are refused before anything is touched (H1). */
function checkFrame(header: FrameHeader): void {
  const { arg0: keyCount, arg1: width, flags } = header;
  const sends = header.functionId !== kvPull.id;
  if (isPlain(header, sends)) return;
  if ((flags & DTYPE_MASK) !== FLOATS) throw new AssertionError("the caller serves other types elsewhere");
  checkKvFrame(header, FLOAT_BYTES, sends);
  const isPiece = (flags & KvFlag.PIECE) !== 0;
  const isLarge = width * FLOAT_BYTES >= LARGE_VALUE_BYTES;
  if (isPiece && !isLarge) throw doNotAddUp(`pieces of a value of only ${width} floats`);
  if (!isPiece && isLarge) throw doNotAddUp(`a value of ${width} floats that is not cut into pieces`);
  const answerBytes = keyCount * width * FLOAT_BYTES;
  if (!isPiece && answerBytes > PAYLOAD_BYTES_MAX)
    throw doNotAddUp(`${answerBytes} bytes of values in one frame; they must be cut at ${PAYLOAD_BYTES_MAX}`);
}

/** Whether it is one of most frames, floats of one small width whose lengths add up: there `checkKvFrame` has nothing to find. */
function isPlain({ arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes }: FrameHeader, sends: boolean): boolean {
  const valueBytes = width * FLOAT_BYTES;
  return (
    (flags & ~PLAIN_FLAGS) === FLOATS &&
    offset === 0 &&
    keyCount > 0 &&
    width > 0 &&
    valueBytes < LARGE_VALUE_BYTES &&
    keyCount * valueBytes <= PAYLOAD_BYTES_MAX &&
    payloadBytes === keyCount * (KEY_BYTES + (sends ? valueBytes : 0))
  );
}
