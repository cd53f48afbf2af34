// frame-reader — cuts the byte stream of one link into frames, with few copies. The link reads into it (LinkReader).
//
// Small frames are handled where they lie in the reader's own buffer. A large one whose sink names a destination is
// read straight into it: only bytes that had arrived with the header are copied. One of up to COPY_BYTES_MAX is read
// with its neighbours and copied: a read of its own would cost more.
//
//   buffer   [ handled | start … frames being read … fill | room ]    `view()`: the room, or the rest of a destination
//
// Invariants:
//   FrameReader.R1. `view()` is never empty.
//   FrameReader.R2. `start` is a multiple of 8, so that headers and payloads are aligned wherever they lie.
//   FrameReader.R3. The reader calls `destination` exactly once per frame with a payload that is not in a run, then
//       `frame` exactly once, with the bytes there.
//   FrameReader.R4. After a throw the reader is finished: the link's owner closes it.
//   FrameReader.R5. While `isHeld` whole frames wait in the buffer, unless it is full: FrameReader.R1 comes first.
//   FrameReader.R6. A view stays where the next bytes go until they are `received`: nothing moves between two reads.
//   FrameReader.R7. A run is handed over as its frames, in order, in place, and whole: a reader that is held in between
//       stops behind it. Whoever handles the first frame may rely on the others (LoggedRequests.I6).
//       So are the frames of a bundle, of which none is handed over before all of it was checked.
//   FrameReader.R8. Large frames that follow each other are not moved: a read ends where another frame as long as the
//       last would not fit, and the next one begins at the front.
//   FrameReader.R9. If a destination loses its memory while it is being filled, the reader reads the frame to its end
//       into memory of its own and hands it over from there.

import { AssertionError, assert } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";
import {
  EPOCH_HALF_BITS,
  EPOCH_SHIFT,
  FRAME_ALIGN,
  FrameHeader,
  HEADER_BYTES,
  HIGH_MASK,
  ITEM_BYTES,
  Kind,
  MAGIC,
  MORE_SHIFT,
  PAYLOAD_BYTES_MAX,
  PROTOCOL_VERSION,
  paddedBytes,
  RUN_PAYLOAD_BYTES_MAX,
  stepRun,
  TWO_32,
} from "./frame.ts";
import { FunctionId } from "./function-id.ts";
import { strangeOpening } from "./hello.ts";

/** While payloads go to destinations, a header is read with at most this much behind it. */
const EARLY_BYTES = 32 * 1024;

/** Payloads up to this size are copied to their destination rather than read there. */
const COPY_BYTES_MAX: number = 128 * 1024;

/** From here on a frame is dear to move. */
const LARGE_BYTES = 64 * 1024;

/** Answers to more input than this wait for the rest of the turn: the sender sends in bulk. */
const SMALL_INPUT_BYTES = 16 * 1024;
/** Answers to this much leave at once: the sender may have nothing else under way. */
const LARGE_INPUT_BYTES = 256 * 1024;

/** Whether answers to this input leave at once instead of waiting for the rest of the turn's. */
export function wasAllInput(byteCount: number, viewBytes: number): boolean {
  return (byteCount < viewBytes && byteCount <= SMALL_INPUT_BYTES) || byteCount >= LARGE_INPUT_BYTES;
}

/** The smallest buffer in which every legal frame fits. */
export const READ_BUFFER_BYTES: number = HEADER_BYTES + PAYLOAD_BYTES_MAX;

export type FrameSink = {
  /** Where this payload belongs, exactly `payloadBytes` long; undefined leaves it in the reader's buffer. */
  destination(header: FrameHeader): Uint8Array | undefined;
  /** A whole frame, with its payload at `bytes[at]`. Header and buffer are valid until this returns. */
  frame(header: FrameHeader, bytes: Uint8Array, at: number): void;
  /** Before the frames of each read. False: what was read is dropped. */
  beginInput?(byteCount: number): boolean;
  /** After them. `wasAll`: there was room for more than came, so nothing else is waiting to be read. */
  endInput?(wasAll: boolean): void;
};

/** For a link that is being closed: what it read already is nobody's. */
const NOBODY: FrameSink = { destination: () => undefined, frame: () => {} };

export class FrameReader {
  /** Who takes the frames; its owner may name another one at any time. */
  sink: FrameSink;
  /** For the link's owner: the link is gone. */
  closed: (cause: Error | undefined) => void = () => {};
  /** Where the owner counts frames. */
  counts: { framesReceived: number } = { framesReceived: 0 };
  readonly #copyBytesMax: number;
  #bytes: Uint8Array;
  #words: Uint32Array;
  readonly #header = new FrameHeader();
  #start = 0;
  #fill = 0;
  /** The destination being filled, and how far. */
  #direct: Uint8Array | undefined;
  #directFill = 0;
  /** True once the frame at `start` was offered to the sink and stays in the buffer. */
  #inPlace = false;
  /** Where the frame at `start` is copied once it is whole; undefined for one that is handled in place. */
  #copyTo: Uint8Array | undefined;
  /** True while frames with destinations follow each other. */
  #bulk = false;
  /** Set by the link's owner to let frames wait (FrameReader.R5); `goOn` handles them. */
  isHeld = false;
  /** Bytes of the view that was given last. */
  #viewBytes = 0;

  /**
   * `buffer` is the reader's alone, 8-byte aligned, and READ_BUFFER_BYTES or longer; on a server it lies in the arena.
   * It may be shorter if the sink's `destination` throws for every frame that does not fit. `copyBytesMax` is for
   * tests.
   */
  constructor(sink: FrameSink, buffer: Uint8Array, copyBytesMax: number = COPY_BYTES_MAX) {
    this.sink = sink;
    this.#copyBytesMax = copyBytesMax;
    this.#bytes = buffer;
    this.#words = wordsOf(buffer);
  }

  /** Goes on in another buffer of READ_BUFFER_BYTES or more. The sink's `frame` may call it. */
  moveTo(buffer: Uint8Array): void {
    assert(buffer.byteLength >= READ_BUFFER_BYTES, "every legal frame fits the buffer");
    const unhandled = this.#bytes.subarray(this.#start, this.#fill);
    buffer.set(unhandled);
    this.#bytes = buffer;
    this.#words = wordsOf(buffer);
    if (this.#fill < this.#start) return; // padding of a direct frame is due: its offset is the same in every buffer
    this.#fill = unhandled.length;
    this.#start = 0;
  }

  /** Whether the stream would end inside a frame if it ended now. */
  get isInsideFrame(): boolean {
    return this.#direct !== undefined || this.#fill !== this.#start;
  }

  /** From now on frames are dropped, also those that were read already. */
  drop(): void {
    this.sink = NOBODY;
  }

  view(): Uint8Array {
    const view = this.#nextView();
    this.#viewBytes = view.length;
    return view;
  }

  #nextView(): Uint8Array {
    if (this.#direct !== undefined) return this.#restOf(this.#direct);
    if (this.#fill === 0 && !this.#bulk && this.#header.payloadBytes < LARGE_BYTES) return this.#bytes;
    const end = this.#bulk ? Math.min(this.#bytes.length, this.#fill + EARLY_BYTES) : this.#roomEnd();
    return this.#bytes.subarray(this.#fill, end);
  }

  /** FrameReader.R9 */
  #restOf(direct: Uint8Array): Uint8Array {
    const { payloadBytes } = this.#header;
    const kept = direct.length === payloadBytes ? direct : new Uint8Array(payloadBytes);
    this.#direct = kept;
    return kept.subarray(this.#directFill);
  }

  /** FrameReader.R8 */
  #roomEnd(): number {
    const { length } = this.#bytes;
    const { payloadBytes } = this.#header; // of the frame that is being read, or the one before
    if (payloadBytes < LARGE_BYTES) return length;
    const end = length - ((length - this.#start) % (HEADER_BYTES + paddedBytes(payloadBytes)));
    return end > this.#fill ? end : length;
  }

  received(byteCount: number): void {
    const { sink } = this;
    if (sink.beginInput?.(byteCount) === false) return;
    this.#take(byteCount);
    // after a throw the link is closed, and nothing leaves on it
    sink.endInput?.(wasAllInput(byteCount, this.#viewBytes));
  }

  #take(byteCount: number): void {
    if (this.#direct === undefined) {
      this.#fill += byteCount;
    } else {
      this.#directFill += byteCount;
      if (this.#directFill < this.#header.payloadBytes) return;
      this.#finishDirect(this.#direct);
    }
    this.#cut();
  }

  /**
   * Handles the whole frames that waited while the reader was held. The rest stays until the next read
   * (FrameReader.R6).
   */
  goOn(): void {
    const { sink } = this;
    sink.beginInput?.(0);
    if (this.#direct === undefined) this.#cut(true);
    sink.endInput?.(false);
  }

  /** Handles every whole frame in the buffer, then makes room for the rest of the next one. */
  #cut(isBetweenReads = false): void {
    const header = this.#header;
    while (this.#fill - this.#start >= HEADER_BYTES) {
      if (this.isHeld && this.#hasRoom()) return;
      decodeHeader(this.#words, this.#start >> 2, header);
      const at = this.#start + HEADER_BYTES;
      const end = at + paddedBytes(header.payloadBytes) * (1 + header.more);
      const isBundle = header.functionId === FunctionId.BUNDLE;
      if ((header.more > 0 || isBundle) && end - this.#start > this.#bytes.length)
        throw malformed(`${isBundle ? "a bundle" : `a run of ${header.more + 1} frames`} before its hello`);
      if (isBetweenReads && this.#fill < end) return; // FrameReader.R6
      if (header.payloadBytes > 0 && !this.#inPlace && header.more === 0 && !isBundle) {
        const destination = this.sink.destination(header);
        if (destination !== undefined && header.payloadBytes > this.#copyBytesMax) {
          if (!this.#land(destination, at, end)) return;
          continue;
        }
        if (destination !== undefined && destination.length !== header.payloadBytes)
          throw new AssertionError("a destination is exactly as long as the payload");
        this.#copyTo = destination;
      }
      if (this.#fill < end) {
        this.#inPlace = true;
        break;
      }
      this.#inPlace = false;
      this.#bulk = false;
      this.#start = end; // before the call: the sink may throw or look at the reader
      const copyTo = this.#copyTo;
      if (header.more === 0 && !isBundle) this.counts.framesReceived++;
      if (isBundle) this.#deliverBundle(at);
      else if (header.more > 0) this.#deliverRun(at);
      else if (copyTo === undefined) this.sink.frame(header, this.#bytes, at);
      else this.#deliverCopy(copyTo, at);
    }
    if (!isBetweenReads) this.#makeRoom();
  }

  /** Hands over the frames of a run one by one (FrameReader.R7). */
  #deliverRun(first: number): void {
    const header = this.#header;
    const bytes = this.#bytes;
    const stride = paddedBytes(header.payloadBytes);
    for (let at = first; ; at += stride) {
      this.counts.framesReceived++;
      this.sink.frame(header, bytes, at);
      if (header.more === 0) return;
      header.more--;
      stepRun(header);
    }
  }

  /** Hands over the frames of a bundle one by one, each where it belongs (FrameReader.R7). */
  #deliverBundle(first: number): void {
    const header = this.#header;
    const bytes = this.#bytes;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    checkBundle(header, view, first);
    const { kind, payloadBytes: wholeBytes, arg1: more, request, stamp: firstStamp } = header;
    const isRequest = kind === Kind.REQUEST;
    header.functionId = FunctionId.FUNCTION;
    let at = first;
    let [payloadBytes, mark] = [header.arg2, header.arg3];
    for (let i = 0; ; i++) {
      header.payloadBytes = payloadBytes;
      header.request = isRequest ? request + i : request + mark;
      header.stamp = isRequest && mark !== 0 ? firstStamp + mark - 1 : 0;
      if (!isRequest) header.arg0 = payloadBytes;
      header.arg1 = 0;
      header.arg2 = 0;
      header.arg3 = isRequest ? payloadBytes : 0;
      this.counts.framesReceived++;
      const destination = payloadBytes === 0 ? undefined : this.sink.destination(header);
      if (destination === undefined) this.sink.frame(header, bytes, at);
      else this.#deliverCopy(destination, at);
      if (i === more) break;
      const item = at + paddedBytes(payloadBytes);
      payloadBytes = view.getUint32(item, true);
      header.priority = view.getInt32(item + 4, true);
      header.command = view.getInt32(item + 8, true);
      header.arg0 = view.getUint32(item + 12, true);
      mark = view.getInt32(item + 16, true);
      at = item + ITEM_BYTES;
    }
    header.payloadBytes = wholeBytes; // FrameReader.R8
  }

  #deliverCopy(destination: Uint8Array, at: number): void {
    const { payloadBytes } = this.#header;
    this.#copyTo = undefined;
    if (destination.length !== payloadBytes) {
      this.sink.frame(this.#header, this.#bytes, at); // FrameReader.R9
      return;
    }
    destination.set(this.#bytes.subarray(at, at + payloadBytes));
    this.sink.frame(this.#header, destination, 0);
  }

  /** Moves what already arrived of the payload to its destination; true when it was all there. */
  #land(destination: Uint8Array, at: number, end: number): boolean {
    const { payloadBytes } = this.#header;
    assert(destination.length === payloadBytes, "a destination is exactly as long as the payload");
    this.#bulk = true;
    this.counts.framesReceived++;
    if (this.#fill >= end) {
      destination.set(this.#bytes.subarray(at, at + payloadBytes));
      this.#start = end;
      this.sink.frame(this.#header, destination, 0);
      return true;
    }
    const early = Math.min(this.#fill - at, payloadBytes);
    destination.set(this.#bytes.subarray(at, at + early));
    if (early === payloadBytes) {
      // Only padding is missing: it arrives in the buffer, and the frame is handled now.
      const padding = end - this.#fill;
      this.#resetBefore(padding);
      this.sink.frame(this.#header, destination, 0);
      return false;
    }
    this.#direct = destination;
    this.#directFill = early;
    return false;
  }

  #finishDirect(destination: Uint8Array): void {
    const { payloadBytes } = this.#header;
    this.#direct = undefined;
    this.#resetBefore(paddedBytes(payloadBytes) - payloadBytes);
    this.sink.frame(this.#header, destination, 0);
  }

  /** The buffer is empty, but `padding` bytes come before the next header: aligns that (FrameReader.R2). */
  #resetBefore(padding: number): void {
    this.#start = padding === 0 ? 0 : FRAME_ALIGN;
    this.#fill = this.#start - padding;
  }

  /** Whether more input fits behind what waits, after moving it to the front if need be. */
  #hasRoom(): boolean {
    if (this.#fill < this.#bytes.length) return true;
    if (this.#start === 0) return false;
    this.#bytes.copyWithin(0, this.#start, this.#fill);
    this.#fill -= this.#start;
    this.#start = 0;
    return true;
  }

  #makeRoom(): void {
    const { length } = this.#bytes;
    const start = this.#start;
    if (start === this.#fill) {
      this.#start = 0;
      this.#fill = 0;
      return;
    }
    const { payloadBytes, more } = this.#header;
    const needed = this.#inPlace ? HEADER_BYTES + paddedBytes(payloadBytes) * (1 + more) : HEADER_BYTES;
    if (start + needed <= length) return;
    this.#bytes.copyWithin(0, start, this.#fill);
    this.#fill -= start;
    this.#start = 0;
  }
}

function wordsOf(buffer: Uint8Array): Uint32Array {
  assert(buffer.byteOffset % FRAME_ALIGN === 0, "frames are aligned to 8 bytes");
  return new Uint32Array(buffer.buffer, buffer.byteOffset, buffer.byteLength >> 2);
}

/** Reads the header at word index `at` into `header`. Throws BAD_FRAME when it is none of ours. */
export function decodeHeader(words: Uint32Array, at: number, header: FrameHeader): void {
  const opening = words[at] as number;
  if ((opening & 0xffff) !== MAGIC) throw malformed(strangeOpening(opening));
  const version = (opening >>> 16) & 0xff;
  if (version !== PROTOCOL_VERSION) throw malformed(`it has version ${version}; this node speaks ${PROTOCOL_VERSION}`);
  header.kind = opening >>> 24;
  if (header.kind < Kind.HELLO || header.kind > Kind.NOTICE) throw malformed(`there is no kind ${header.kind}`);
  const second = words[at + 1] as number;
  header.functionId = second & 0xffff;
  header.flags = second >>> 16;
  header.payloadBytes = words[at + 2] as number;
  if (header.payloadBytes > PAYLOAD_BYTES_MAX)
    throw malformed(`a payload of ${header.payloadBytes} bytes is over the limit of ${PAYLOAD_BYTES_MAX}`);
  header.priority = (words[at + 3] as number) | 0;
  const stampHigh = words[at + 7] as number;
  const settledHigh = words[at + 9] as number;
  header.stamp = words[at + 6] as number;
  header.settled = words[at + 8] as number;
  header.epoch = (stampHigh >>> EPOCH_SHIFT) | ((settledHigh >>> EPOCH_SHIFT) << EPOCH_HALF_BITS);
  if (((stampHigh | settledHigh) & HIGH_MASK) !== 0) {
    header.stamp += (stampHigh & HIGH_MASK) * TWO_32;
    header.settled += (settledHigh & HIGH_MASK) * TWO_32;
  }
  const requestHigh = words[at + 5] as number;
  header.request = words[at + 4] as number;
  header.more = 0;
  if (requestHigh !== 0) addRequestHigh(header, requestHigh);
  const apps = words[at + 10] as number;
  header.app = apps & 0xffff;
  header.customer = apps >>> 16;
  header.command = (words[at + 11] as number) | 0;
  header.arg0 = words[at + 12] as number;
  header.arg1 = words[at + 13] as number;
  header.arg2 = words[at + 14] as number;
  header.arg3 = words[at + 15] as number;
}

/** The upper half of `request`, which is 0 but for runs and for very old channels. */
function addRequestHigh(header: FrameHeader, high: number): void {
  header.request += (high & HIGH_MASK) * TWO_32;
  header.more = high >>> MORE_SHIFT;
  const { kind, more, payloadBytes, request, stamp } = header;
  if (more === 0) return;
  if (kind !== Kind.REQUEST && kind !== Kind.REPLY) throw malformed(`a run of frames of kind ${kind}`);
  // Frame.F2
  if (payloadBytes > RUN_PAYLOAD_BYTES_MAX) throw malformed(`a run of payloads of ${payloadBytes} bytes, over ${RUN_PAYLOAD_BYTES_MAX}`);
  // Frame.F1
  if (Math.max(request, stamp) + more > Number.MAX_SAFE_INTEGER) throw malformed("a run reaches beyond 2^53");
}

/** Throws BAD_FRAME for a bundle, with its payload from `at` on, that is none. */
function checkBundle(header: FrameHeader, view: DataView, at: number): void {
  const { kind, payloadBytes, more, arg1: itemCount, arg2: firstBytes, arg3: firstMark } = header;
  if ((kind !== Kind.REQUEST && kind !== Kind.REPLY) || more > 0) throw malformed(`a bundle of frames of kind ${kind}, ${more} more`);
  const end = at + payloadBytes;
  checkMark(header, firstMark);
  let next = at + paddedBytes(Math.min(firstBytes, payloadBytes + 1));
  let i = 0;
  for (; i < itemCount && next + ITEM_BYTES <= end; i++) {
    checkMark(header, view.getInt32(next + 16, true));
    next += ITEM_BYTES + paddedBytes(Math.min(view.getUint32(next, true), payloadBytes + 1));
  }
  if (i < itemCount || next !== end) throw malformed(`a bundle of ${payloadBytes} bytes that its ${itemCount + 1} frames do not fill`);
}

/** What one of its frames says of its stamp, or of its number. */
function checkMark({ kind, request, stamp, arg1: itemCount }: FrameHeader, mark: number): void {
  const isLegal = kind === Kind.REPLY ? request + mark > 0 : mark === 0 || (mark > 0 && stamp > 0);
  if (!isLegal || Math.max(request + itemCount, request + mark, stamp + mark) > Number.MAX_SAFE_INTEGER)
    throw malformed(`a bundle with the mark ${mark}`);
}

export function malformed(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", `a peer sent a frame that cannot be read: ${what}`);
}
