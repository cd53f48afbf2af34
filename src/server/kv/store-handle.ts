// store-handle — KV_PUSH, KV_PULL and KV_PUSH_PULL on a SumStore: sums pushes, and reads. Like ps-lite's default
// handle, but for any number of values per key, of any type. Works on the frame in the arena, frame by frame; never
// waits.
//
// Invariants:
//   StoreHandle.H1. An invalid request changes nothing, and its failure says why.
//   StoreHandle.H2. The bytes of an answer do not change while they leave: small ones are copied, others are the
//       answer's own, blocks are held.

import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { kvPull, kvPush } from "../../contracts/kv.ts";
import type { Arena } from "../../kernel/arena.ts";
import { KEY_BYTES } from "../../kernel/elements.ts";
import { answerFrames, labelOf } from "../../peer/answer.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import { INLINE_BYTES_MAX } from "../../peer/frame-batch.ts";
import type { UpdatePressure } from "../../peer/function-host.ts";
import { SharedSpan } from "../../store/block-span.ts";
import { checkLengths } from "../../store/sums/sum-batch.ts";
import type { SumStore } from "../../store/sums/sum-store.ts";
import { APP_CUT, BLOCK_BYTES, type FrameHeader, PAYLOAD_BYTES_MAX } from "../../wire/frame.ts";
import { checkKvFrame, DTYPE_MASK, DTYPE_SHIFT, doNotAddUp, KvFlag, LARGE_VALUE_BYTES, LEN_BYTES } from "../../wire/kv-message.ts";

/** The flags of a frame with values of one width that need no work, beside its type. */
const PLAIN_FLAGS = KvFlag.FIRST | KvFlag.LAST | APP_CUT | DTYPE_MASK;
const ZEROS = new Uint8Array(BLOCK_BYTES);

/** Whose update it was. */
type UpdateSource = { readonly holder: WorkerIncarnation };

export class StoreHandle implements FunctionHandler {
  readonly #arena: Arena;
  readonly #store: SumStore;
  /** Where small answers are made. */
  readonly #scratch: number;
  /** The read buffer that was last found to lie in the arena. */
  #readBuffer: Uint8Array | undefined;
  /** What links with pushes wait for while a checkpoint is being saved. */
  readonly #pressure: UpdatePressure<UpdateSource> | undefined;

  /** Throws ARENA_FULL. */
  constructor(arena: Arena, store: SumStore, pressure?: UpdatePressure<UpdateSource>) {
    this.#arena = arena;
    this.#store = store;
    this.#pressure = pressure;
    this.#scratch = arena.allocateState(INLINE_BYTES_MAX);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const type = (header.flags & DTYPE_MASK) >> DTYPE_SHIFT;
    if (type !== this.#store.type) this.#store.use(type);
    checkFrame(header, this.#store.elementBytes);
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

  /** Reading a view's buffer costs more than a small request; a link reads into the same one again and again. */
  #isInArena(bytes: Uint8Array): boolean {
    if (bytes.buffer !== this.#arena.bytes.buffer) return false;
    this.#readBuffer = bytes;
    return true;
  }

  /** Releases the memory. */
  close(): void {
    this.#store.close();
    this.#arena.release(this.#scratch, INLINE_BYTES_MAX);
  }

  #serve(channel: Channel, header: FrameHeader, keys: number, fresh: boolean): void {
    if (header.functionId !== kvPull.id && fresh) {
      this.#push(header, keys);
      if (this.#pressure?.isOn === true) this.#slowDown(channel, this.#pressure);
    } else this.#store.requireAscending(keys, header.arg0);
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

  /** The push counts even if its answer fails: the worker must not repeat it. */
  #pullAfterPush(channel: Channel, header: FrameHeader, keys: number): void {
    try {
      this.#pull(channel, header, keys);
    } catch (thrown) {
      if (!isWeighbridgeError(thrown, "ARENA_FULL")) throw thrown;
      const message = `the push was applied, but there was no memory for what it came to: read it with a pull; ${thrown.message}`;
      throw new WeighbridgeError("ANSWER_LOST", message, { cause: thrown });
    }
  }

  #slowDown(channel: Channel, pressure: UpdatePressure<UpdateSource>): void {
    const wait = pressure.on({ holder: { worker: channel.id, incarnation: channel.incarnation } });
    if (wait !== undefined) channel.holdInput(wait);
  }

  #push(header: FrameHeader, keys: number): void {
    const { arg0: keyCount, arg1: width, arg2: offset, flags } = header;
    const { elementBytes } = this.#store;
    const values = keys + keyCount * KEY_BYTES;
    if ((flags & KvFlag.LENS) !== 0) {
      const valueCount = valueBytesOf(header) / elementBytes;
      this.#withLens(header, keys, (lens) => this.#store.pushVariable({ keys, keyCount, values, lens, valueCount }));
    } else if ((flags & KvFlag.PIECE) !== 0) {
      const blockElements = BLOCK_BYTES / elementBytes;
      const elementCount = Math.min(blockElements, width - offset);
      this.#store.pushBlock({ key: keys, width, blockIndex: offset / blockElements, values, elementCount });
    } else {
      this.#store.push({ keys, keyCount, width, values });
    }
  }

  /** The lens of a frame: where they lie, or, behind an odd number of narrow integers, copied as whole words. */
  #withLens(header: FrameHeader, keys: number, use: (lens: number) => void): void {
    const { arg0: keyCount } = header;
    const at = keys + keyCount * KEY_BYTES + valueBytesOf(header);
    if (at % LEN_BYTES === 0) {
      use(at);
      return;
    }
    const lens = this.#arena.allocate(keyCount * LEN_BYTES);
    try {
      this.#arena.bytes.copyWithin(lens, at, at + keyCount * LEN_BYTES);
      use(lens);
    } finally {
      this.#arena.release(lens, keyCount * LEN_BYTES);
    }
  }

  #pullRows(channel: Channel, header: FrameHeader, keys: number): void {
    const { arg0: keyCount, arg1: width } = header;
    const byteCount = keyCount * width * this.#store.elementBytes;
    if (byteCount <= INLINE_BYTES_MAX) {
      this.#store.pull({ keys, keyCount, width, out: this.#scratch });
      channel.answerCopy(header, this.#arena.bytes, this.#scratch, byteCount);
    } else this.#answerFresh(channel, header, byteCount, (out) => this.#store.pull({ keys, keyCount, width, out }));
  }

  /** The values of keys that were just pushed, each of the length it was pushed with. */
  #pullPushed(channel: Channel, header: FrameHeader, keys: number): void {
    const { arg0: keyCount } = header;
    const byteCount = valueBytesOf(header);
    this.#withLens(header, keys, (lens) => {
      // If the request came again, no push has checked them.
      checkLengths(this.#arena, lens, keyCount, byteCount / this.#store.elementBytes);
      if (byteCount === 0) channel.acknowledge(header);
      else this.#answerFresh(channel, header, byteCount, (out) => this.#store.pullVariable({ keys, keyCount, lens, out }));
    });
  }

  /** Answers with so many bytes that `write` writes. */
  #answerFresh(channel: Channel, header: FrameHeader, byteCount: number, write: (out: number) => void): void {
    const address = this.#arena.allocate(byteCount);
    const hold = new SharedSpan(this.#arena, { address, byteCount });
    try {
      write(address);
    } catch (thrown) {
      hold.release();
      throw thrown;
    }
    channel.answerHeld(header, this.#arena.bytes.subarray(address, address + byteCount), hold);
  }

  #pullPiece(channel: Channel, header: FrameHeader, key: number): void {
    const { arg1: width, arg2: offset } = header;
    const { elementBytes } = this.#store;
    const blockElements = BLOCK_BYTES / elementBytes;
    const hold = this.#store.holdBlock(key, width, offset / blockElements);
    const byteCount = Math.min(blockElements, width - offset) * elementBytes;
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
      const count = width === 0 ? knownCount : knownCount + lengthenUnknown(arena.words, lens >>> 2, keyCount, width);
      const valueBytes = count * this.#store.elementBytes;
      const totalBytes = valueBytes + lensBytes;
      const out = arena.allocate(totalBytes);
      const hold = new SharedSpan(arena, { address: out, byteCount: totalBytes, users: Math.ceil(totalBytes / BLOCK_BYTES) });
      try {
        this.#store.pullVariable({ keys, keyCount, lens, out });
      } catch (thrown) {
        arena.release(out, totalBytes);
        throw thrown;
      }
      arena.bytes.copyWithin(out + valueBytes, lens, lens + lensBytes);
      const payload = arena.bytes.subarray(out, out + totalBytes);
      for (const answer of answerFrames(labelOf(header), [payload], { held: hold })) channel.answer(answer);
    } finally {
      arena.release(lens, lensBytes);
    }
  }
}

/** Of a frame with lens. */
function valueBytesOf({ arg0: keyCount, payloadBytes }: FrameHeader): number {
  return payloadBytes - keyCount * (KEY_BYTES + LEN_BYTES);
}

/** Gives unknown keys a length: that of the first known key, or `width`. Returns the number of values. */
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

/** Lengths that do not add up are refused before anything is touched (StoreHandle.H1). */
function checkFrame(header: FrameHeader, elementBytes: number): void {
  const { arg0: keyCount, arg1: width, flags } = header;
  const sends = header.functionId !== kvPull.id;
  if (isPlain(header, elementBytes, sends)) return;
  checkKvFrame(header, elementBytes, sends);
  const isPiece = (flags & KvFlag.PIECE) !== 0;
  const isLarge = width * elementBytes >= LARGE_VALUE_BYTES;
  if (isPiece && !isLarge) throw doNotAddUp(`pieces of a value of only ${width} elements`);
  if (!isPiece && isLarge) throw doNotAddUp(`a value of ${width} elements that is not cut into pieces`);
  const answerBytes = keyCount * width * elementBytes;
  if (!isPiece && answerBytes > PAYLOAD_BYTES_MAX)
    throw doNotAddUp(`${answerBytes} bytes of values in one frame; they must be cut at ${PAYLOAD_BYTES_MAX}`);
}

/**
 * Whether it has values of one small width whose lengths add up, like most frames: `checkKvFrame` would find nothing.
 */
function isPlain(header: FrameHeader, elementBytes: number, sends: boolean): boolean {
  const { arg0: keyCount, arg1: width, arg2: offset, flags, payloadBytes } = header;
  const valueBytes = width * elementBytes;
  return (
    (flags & ~PLAIN_FLAGS) === 0 &&
    offset === 0 &&
    keyCount > 0 &&
    width > 0 &&
    valueBytes < LARGE_VALUE_BYTES &&
    keyCount * valueBytes <= PAYLOAD_BYTES_MAX &&
    payloadBytes === keyCount * (KEY_BYTES + (sends ? valueBytes : 0))
  );
}
