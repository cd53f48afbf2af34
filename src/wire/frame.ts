// frame — the bytes of a frame: its 64-byte header, and the fields of a typed function's payload. Not the reader
// (frame-reader.ts), not what a contract says about its fields (function-schema.ts).
//
//   offset  type  field          little-endian; frames start 8-byte aligned, payloads are padded with zeros to 8 bytes
//        0  u16   magic          0x4257, the bytes "WB"
//        2  u8    version        2
//        3  u8    kind           HELLO, REQUEST, REPLY, FAILURE or NOTICE
//        4  u16   functionId     the requested function; a reply repeats it
//        6  u16   flags          by function, but for the highest: APP_CUT
//        8  u32   payloadBytes   without the padding, at most PAYLOAD_BYTES_MAX
//       12  i32   priority       higher overtakes lower between frames; a reply repeats it
//       16  u53   request        number of the request on this channel, 1, 2, 3 …; a reply repeats it
//           u11   more           a run: so many further frames of this kind follow as payloads alone
//       24  u53   stamp          number of the update in the sender's own sequence; 0: not an update
//           u11   epochLow       the lower half of `epoch`: the placement by which the request was cut; 0: by none
//       32  u53   settled        every request below this number has its answer at the sender
//           u11   epochHigh      the upper half of it
//       40  u16   app
//       42  u16   customer
//       44  i32   command        the application's own number (ps-lite: head)
//       48  u32   × 4            args, by function
//
// A run: small frames that are alike and follow each other share one header. 64 pushes of one float take 1 KB instead
// of 5, with one header for all of them. A run means exactly the frames that it stands for.
//
//   header, more = 2 │ payload of request n │ payload of request n + 1 │ payload of request n + 2      each padded to 8
//
// From one frame to the next, `request` rises by one, and so do `stamp` unless it is 0, and `arg3` of requests (the kv
// functions have the request's timestamp there). Everything else is the same. `settled` is that of the first.
//
// A bundle: several requests of functions by name, or several answers to such requests, in one frame: what a node has
// for another one in one turn of its loop, and what comes back for it (docs/decisions/0097). A bundle means exactly the
// frames that it stands for: each keeps its number, its stamp and its own answer.
//
//   header    of the first, with function BUNDLE; payloadBytes: of all that follows
//             stamp: of the first update in it, 0 without any
//             arg1 how many items follow │ arg2 bytes of the first payload │ arg3 mark of the first
//   payload   payload of the first │ item │ payload │ item │ payload …        each padded to 8
//   item      u32 payloadBytes │ i32 priority │ i32 command │ u32 arg0, 0 in answers │ i32 mark │ u32 0
//   mark      of a request: 0, or of an update 1 and its stamp less that of the header
//             of an answer: the number of its request less that of the first
//
// The payload of a typed function:
//   8 bytes for each field, in order   u32 i32 f32 f64 u64 bool: the value │ string, json, arrays: how many bytes, as
//   u64 the bytes of strings, JSON texts and arrays in that order, each padded with zeros to 8 bytes
// Fields that are one array and nothing else are that array's bytes alone: an answer of that kind lands in the caller's
// array as it comes. One json field and nothing else is that text alone.
//
// Invariants:
//   Frame.F1. Numbers of requests and updates stay below 2^53, exact as JavaScript numbers. A run beyond is illegal.
//   Frame.F2. Only requests and replies of at most RUN_PAYLOAD_BYTES_MAX come in runs: whole runs fit every read
//       buffer.
//   Frame.B1. All requests of a bundle have one epoch: they were cut by one placement, and a server that has another
//       one applies none of them. Their numbers follow each other, and the stamps of its updates rise.
//   Frame.B2. Only whole requests and whole answers, of at most BUNDLED_BYTES_MAX, come in bundles, and a bundle
//       has at most BUNDLE_BYTES_MAX: what is larger goes on its own, and lands as it comes.
//   FieldCodec.F3. Arrays are not copied: encoding refers to them, decoding returns views of the payload.
//   FieldCodec.F4. Bytes that do not add up are refused before a handler sees any of them.
//   FieldCodec.F5. The parameter decides what the bytes of keys and values mean, not the fields: u64 and f32 as they
//       are, another element type, or what the parameter's link makes of them (codecs.md). Encoding takes any array,
//       decoding returns a view of u64 or f32 where the length allows it, and of bytes otherwise.

import { AssertionError } from "../base/assert.ts";
import { badArgument, badRequest, showValue, type WeighbridgeError } from "../base/errors.ts";
import { FunctionId } from "./function-id.ts";

export const HEADER_BYTES = 64;
export const FRAME_ALIGN = 8;
/** Values per frame are cut at this size, so that urgent frames can pass between the blocks of a large tensor. */
export const BLOCK_BYTES: number = 512 * 1024;
/** A block with its keys fits, with room to spare; nothing legal is larger. */
export const PAYLOAD_BYTES_MAX: number = 1024 * 1024;

/** Payloads of frames in a run are at most this long, each padded to 8 bytes; what is larger gains nothing by it. */
export const RUN_PAYLOAD_BYTES_MAX = 128;
/** The most a header can say. */
export const RUN_MORE_MAX: number = 2 ** 11 - 1;

/** What stands in a bundle before every payload but the first. */
export const ITEM_BYTES = 24;
/** The longest payload in a bundle, and the longest bundle (Frame.B2). */
const BUNDLED_BYTES_MAX: number = 256 * 1024;
export const BUNDLE_BYTES_MAX: number = 512 * 1024;
/** How far the numbers and the stamps of a bundle lie apart at most. */
export const MARK_MAX: number = 2 ** 31 - 1;

/** How many requests a node may have open on a channel, from the first unsettled one: the other side remembers them. */
export const REQUESTS_OPEN_MAX: number = 1 << 20;

export const MAGIC = 0x4257;
export const PROTOCOL_VERSION = 2;
export const TWO_32: number = 2 ** 32;
export const HIGH_MASK: number = 2 ** 21 - 1;
export const MORE_SHIFT = 21;
export const EPOCH_SHIFT = 21;
export const EPOCH_HALF_BITS = 11;
const FIELD_BYTES = 8;
const NO_BYTES = new Uint8Array(0);
const PADDING = new Uint8Array(FRAME_ALIGN);
/** The most a header can say. */
export const EPOCH_MAX: number = 2 ** (2 * EPOCH_HALF_BITS) - 1;

/** The application chose the server of this request itself: no placement applies, and `epoch` is 0. */
export const APP_CUT = 0x8000;

export const Kind = { HELLO: 1, REQUEST: 2, REPLY: 3, FAILURE: 4, NOTICE: 5 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/** One header, decoded. Mutable and reused: a reader owns one and overwrites it with every frame. */
export class FrameHeader {
  kind: number = Kind.REQUEST;
  functionId = 0;
  flags = 0;
  payloadBytes = 0;
  priority = 0;
  request = 0;
  more = 0;
  stamp = 0;
  settled = 0;
  epoch = 0;
  app = 0;
  customer = 0;
  command = 0;
  arg0 = 0;
  arg1 = 0;
  arg2 = 0;
  arg3 = 0;

  /** Back to an empty header of this kind. */
  reset(kind: Kind, functionId: number): this {
    this.begin(kind, functionId, 0, 0);
    this.stamp = 0;
    this.settled = 0;
    this.epoch = 0;
    this.clearRest();
    return this;
  }

  begin(kind: Kind, functionId: number, priority: number, request: number): void {
    this.kind = kind;
    this.functionId = functionId;
    this.priority = priority;
    this.request = request;
    this.more = 0;
  }

  /** What `begin` leaves, beside stamp, settled and epoch. */
  clearRest(): void {
    this.flags = 0;
    this.payloadBytes = 0;
    this.app = 0;
    this.customer = 0;
    this.command = 0;
    this.arg0 = 0;
    this.arg1 = 0;
    this.arg2 = 0;
    this.arg3 = 0;
  }

  copyFrom(other: FrameHeader): void {
    this.kind = other.kind;
    this.functionId = other.functionId;
    this.flags = other.flags;
    this.payloadBytes = other.payloadBytes;
    this.priority = other.priority;
    this.request = other.request;
    this.more = other.more;
    this.stamp = other.stamp;
    this.settled = other.settled;
    this.epoch = other.epoch;
    this.app = other.app;
    this.customer = other.customer;
    this.command = other.command;
    this.arg0 = other.arg0;
    this.arg1 = other.arg1;
    this.arg2 = other.arg2;
    this.arg3 = other.arg3;
  }

  /** The header as one line, for log lines and failing tests. */
  toString(): string {
    const kind = Object.entries(Kind).find(([, value]) => value === this.kind)?.[0] ?? `kind ${this.kind}`;
    return (
      `${kind} function=${this.functionId} flags=${this.flags} payload=${this.payloadBytes} priority=${this.priority} request=${this.request} more=${this.more} ` +
      `stamp=${this.stamp} settled=${this.settled} epoch=${this.epoch} app=${this.app}/${this.customer} command=${this.command} ` +
      `args=${this.arg0},${this.arg1},${this.arg2},${this.arg3}`
    );
  }
}

/** What an answer repeats of its request; kept when the answer is given later. */
export type RequestLabel = {
  readonly functionId: number;
  readonly priority: number;
  readonly request: number;
  readonly app: number;
  readonly customer: number;
  readonly command: number;
  /** Of an update: its number in its sender's sequence. */
  readonly stamp?: number | undefined;
};

/** Makes `header` that of an answer to the labelled request, without a payload so far. */
export function fillAnswerHeader(header: FrameHeader, label: RequestLabel, kind: typeof Kind.REPLY | typeof Kind.FAILURE): void {
  header.kind = kind;
  header.functionId = label.functionId;
  header.flags = 0;
  header.payloadBytes = 0;
  header.priority = label.priority;
  header.request = label.request;
  header.app = label.app;
  header.customer = label.customer;
  header.command = label.command;
  header.stamp = 0;
  header.settled = 0;
  header.epoch = 0;
  header.arg0 = 0;
  header.arg1 = 0;
  header.arg2 = 0;
  header.arg3 = 0;
}

/** An answer's args: bytes of the whole answer, and where this frame's payload begins in it. */
export function setExtent(header: FrameHeader, totalBytes: number, offsetBytes: number): void {
  header.arg0 = totalBytes >>> 0;
  header.arg1 = totalBytes < TWO_32 ? 0 : (totalBytes / TWO_32) | 0;
  header.arg2 = offsetBytes >>> 0;
  header.arg3 = offsetBytes < TWO_32 ? 0 : (offsetBytes / TWO_32) | 0;
}

export function totalBytesOf(header: FrameHeader): number {
  return header.arg1 === 0 ? header.arg0 : header.arg1 * TWO_32 + header.arg0;
}

export function offsetBytesOf(header: FrameHeader): number {
  return header.arg3 === 0 ? header.arg2 : header.arg3 * TWO_32 + header.arg2;
}

/** How many bytes a payload takes on the wire. */
export function paddedBytes(payloadBytes: number): number {
  return (payloadBytes + (FRAME_ALIGN - 1)) & ~(FRAME_ALIGN - 1);
}

/** Writes `header` at word index `at`. */
export function encodeHeader(header: FrameHeader, words: Uint32Array, at: number): void {
  if (header.payloadBytes > PAYLOAD_BYTES_MAX) throw new AssertionError("senders cut what is larger");
  words[at] = MAGIC | (PROTOCOL_VERSION << 16) | (header.kind << 24);
  words[at + 1] = header.functionId | (header.flags << 16);
  words[at + 2] = header.payloadBytes;
  words[at + 3] = header.priority;
  words[at + 4] = header.request;
  words[at + 5] = highOf(header.request) | (header.more << MORE_SHIFT);
  words[at + 6] = header.stamp;
  words[at + 7] = highOf(header.stamp) | (header.epoch << EPOCH_SHIFT);
  words[at + 8] = header.settled;
  words[at + 9] = highOf(header.settled) | ((header.epoch >>> EPOCH_HALF_BITS) << EPOCH_SHIFT);
  words[at + 10] = header.app | (header.customer << 16);
  words[at + 11] = header.command;
  words[at + 12] = header.arg0;
  words[at + 13] = header.arg1;
  words[at + 14] = header.arg2;
  words[at + 15] = header.arg3;
}

/** One more frame belongs to the header at word index `at`. */
export function lengthenRun(words: Uint32Array, at: number): void {
  (words[at + 5] as number) += 1 << MORE_SHIFT;
}

/** Makes of a frame's header that of the next one in its run. */
export function stepRun(header: FrameHeader): void {
  header.request++;
  if (header.stamp !== 0) header.stamp++;
  if (header.kind === Kind.REQUEST) header.arg3 = (header.arg3 + 1) >>> 0;
}

/** Whether `stepRun` would make the one header of the other, so that their frames may share it. */
export function continuesRun(last: FrameHeader, header: FrameHeader): boolean {
  return (
    header.request === last.request + 1 &&
    header.kind === last.kind &&
    header.payloadBytes === last.payloadBytes &&
    header.functionId === last.functionId &&
    header.flags === last.flags &&
    header.priority === last.priority &&
    header.epoch === last.epoch &&
    header.stamp === (last.stamp === 0 ? 0 : last.stamp + 1) &&
    header.app === last.app &&
    header.customer === last.customer &&
    header.command === last.command &&
    header.arg0 === last.arg0 &&
    header.arg1 === last.arg1 &&
    header.arg2 === last.arg2 &&
    header.arg3 === (last.kind === Kind.REQUEST ? (last.arg3 + 1) >>> 0 : last.arg3)
  );
}

/** Whether a frame is all of a request of a function by name, or of its answer, and short enough (Frame.B2). */
export function fitsBundle(header: FrameHeader): boolean {
  const { kind, payloadBytes } = header;
  if (header.functionId !== FunctionId.FUNCTION || header.flags !== 0 || payloadBytes > BUNDLED_BYTES_MAX) return false;
  if (header.app !== 0 || header.customer !== 0) return false;
  if (kind === Kind.REQUEST) return header.arg3 === payloadBytes;
  return kind === Kind.REPLY && totalBytesOf(header) === payloadBytes && offsetBytesOf(header) === 0;
}

/** Makes of the header of a frame, at word index `at`, that of a bundle. */
export function openBundle(words: Uint32Array, at: number, isRequest: boolean, stamp: number): void {
  words[at + 1] = FunctionId.BUNDLE;
  if (!isRequest) words[at + 12] = 0;
  words[at + 13] = 0;
  words[at + 14] = words[at + 2] as number;
  words[at + 15] = isRequest && stamp !== 0 ? 1 : 0;
}

/** Writes the item of a frame at word index `at`, into the bundle whose header is at `first`. */
export function addToBundle(words: Uint32Array, first: number, at: number, header: FrameHeader, mark: number, byteCount: number): void {
  words[at] = header.payloadBytes;
  words[at + 1] = header.priority;
  words[at + 2] = header.command;
  words[at + 3] = header.kind === Kind.REQUEST ? header.arg0 : 0;
  words[at + 4] = mark;
  words[at + 5] = 0;
  words[first + 2] = byteCount;
  (words[first + 13] as number)++;
}

/** The first update of a bundle is not its first request: its stamp is that of the header, at word index `at`. */
export function stampBundle(words: Uint32Array, at: number, { stamp, epoch }: FrameHeader): void {
  words[at + 6] = stamp;
  words[at + 7] = highOf(stamp) | (epoch << EPOCH_SHIFT);
}

/** A division costs as much as a small frame's other words together, and almost all numbers are small. */
function highOf(value: number): number {
  return value < TWO_32 ? 0 : value / TWO_32;
}

export type ScalarType = "u32" | "i32" | "f32" | "f64" | "u64" | "bool";

export type ArrayConstructor = {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (buffer: ArrayBufferLike, byteOffset: number, length: number): ArrayBufferView;
};

/** One field of a payload: a scalar, an array, or a text. */
export type Field = {
  readonly name: string;
  /** Its value is in its 8 bytes, and not behind them. */
  readonly scalar: ScalarType | undefined;
  readonly array: { readonly Elements: ArrayConstructor; readonly none: ArrayBufferView; readonly isPayload: boolean } | undefined;
  /** Of strings and JSON; `encode` returns undefined for a value of another type, `decode` throws for illegal bytes. */
  readonly text: { encode(value: unknown): Uint8Array | undefined; decode(bytes: Uint8Array): unknown } | undefined;
  /** What a value must be, for messages. */
  readonly expected: string;
};

/** The bytes of a request or response: chunks to be sent in order, multiples of 8 bytes but for the last. */
export type EncodedFields = { readonly chunks: readonly Uint8Array[]; readonly byteCount: number };

/** Writes and reads the fields of a payload; V is the object that carries their values. */
export class FieldCodec<V> {
  readonly #what: string;
  readonly #fields: readonly Field[];
  /** The one array, or text of JSON, that has the payload for itself. */
  readonly #only: Field | undefined;
  readonly isEmpty: boolean;
  /** Whether the bytes are those of one array, so that they can land in one. */
  readonly isOneArray: boolean;
  /** The size of an element of that array; 1 where there is none, and where a codec makes the bytes. */
  readonly elementBytes: number;

  /** `what` is "the request of push". */
  constructor(what: string, fields: readonly Field[], only: Field | undefined) {
    this.#what = what;
    this.#fields = fields;
    this.#only = only;
    this.isEmpty = fields.length === 0;
    this.isOneArray = only?.array !== undefined;
    this.elementBytes = only?.array === undefined || only.array.isPayload ? 1 : only.array.Elements.BYTES_PER_ELEMENT;
  }

  /**
   * Throws BAD_ARGUMENT for a field that is missing or of another type. The arrays are referred to, not copied
   * (FieldCodec.F3).
   */
  encode(values: V): EncodedFields {
    if (typeof values !== "object" || values === null)
      throw badArgument(`${this.#what}: an object with its fields is expected, not ${showValue(values)}`);
    const named = values as Readonly<Record<string, unknown>>;
    if (this.#only !== undefined) {
      const bytes = this.#bytesOf(this.#only, named[this.#only.name]);
      return { chunks: [bytes], byteCount: bytes.length };
    }
    const fields = this.#fields;
    const fixed = new DataView(new ArrayBuffer(fields.length * FIELD_BYTES));
    const chunks: Uint8Array[] = [new Uint8Array(fixed.buffer)];
    let byteCount = fixed.byteLength;
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i] as Field;
      if (field.scalar !== undefined) {
        if (!setScalar(field.scalar, fixed, i * FIELD_BYTES, named[field.name])) throw this.#wrong(field, named[field.name]);
        continue;
      }
      const bytes = this.#bytesOf(field, named[field.name]);
      const { length } = bytes;
      if (length === 0) continue;
      fixed.setUint32(i * FIELD_BYTES, length, true);
      if (length >= TWO_32) fixed.setUint32(i * FIELD_BYTES + 4, length / TWO_32, true);
      chunks.push(bytes);
      const padding = (FRAME_ALIGN - (length % FRAME_ALIGN)) % FRAME_ALIGN;
      if (padding > 0) chunks.push(PADDING.subarray(0, padding));
      byteCount += length + padding;
    }
    return { chunks, byteCount };
  }

  /**
   * Views of `byteCount` bytes at `at`, which is a multiple of 8 in its buffer (of the element's size, for one array).
   * Throws BAD_REQUEST when they do not add up (FieldCodec.F4).
   */
  decode(bytes: Uint8Array, at: number, byteCount: number): V {
    const values: Record<string, unknown> = {};
    if (this.#only !== undefined) {
      values[this.#only.name] = this.#read(this.#only, bytes, at, byteCount);
      return values as V;
    }
    if ((bytes.byteOffset + at) % FIELD_BYTES !== 0) throw new AssertionError("payloads are aligned to 8 bytes");
    const fields = this.#fields;
    const fixedBytes = fields.length * FIELD_BYTES;
    if (byteCount < fixedBytes) throw this.#bad(`${byteCount} bytes, fewer than the ${fixedBytes} of its ${fields.length} fields`);
    const fixed = new DataView(bytes.buffer, bytes.byteOffset + at, fixedBytes);
    const end = at + byteCount;
    let next = at + fixedBytes;
    for (let i = 0; i < fields.length; i++) {
      const field = fields[i] as Field;
      const slot = i * FIELD_BYTES;
      if (field.scalar !== undefined) {
        values[field.name] = scalarAt(field.scalar, fixed, slot);
        continue;
      }
      const length = fixed.getUint32(slot, true) + fixed.getUint32(slot + 4, true) * TWO_32;
      if (length > end - next) throw this.#bad(`${length} bytes of ${field.name}, but only ${end - next} are left`);
      values[field.name] = this.#read(field, bytes, next, length);
      next += Math.ceil(length / FRAME_ALIGN) * FRAME_ALIGN;
    }
    if (next !== end) throw this.#bad(`${byteCount} bytes, of which its fields take ${next - at}`);
    return values as V;
  }

  #bytesOf(field: Field, value: unknown): Uint8Array {
    const { array } = field;
    if (array !== undefined) {
      if (!(value instanceof array.Elements || (array.isPayload && ArrayBuffer.isView(value)))) throw this.#wrong(field, value);
      const { buffer, byteOffset, byteLength } = value;
      return byteLength === 0 ? NO_BYTES : new Uint8Array(buffer, byteOffset, byteLength);
    }
    const bytes = field.text?.encode(value);
    if (bytes === undefined) throw this.#wrong(field, value);
    return bytes;
  }

  #read({ name, array, text }: Field, bytes: Uint8Array, at: number, length: number): unknown {
    // a copy: shared memory cannot be decoded
    if (array === undefined) return text?.decode(bytes.slice(at, at + length));
    const { Elements } = array;
    if (length === 0) return array.none;
    if (length % Elements.BYTES_PER_ELEMENT === 0)
      return new Elements(bytes.buffer, bytes.byteOffset + at, length / Elements.BYTES_PER_ELEMENT);
    if (array.isPayload) return bytes.subarray(at, at + length); // FieldCodec.F5
    throw this.#bad(`${length} bytes of ${name}, which is no whole ${Elements.name}`);
  }

  #wrong({ name, expected }: Field, value: unknown): WeighbridgeError {
    const given = typeof value === "object" && value !== null ? showValue(value) : `${typeof value} ${showValue(value)}`;
    return badArgument(`${this.#what}: ${name} must be ${expected}, but is ${given}`);
  }

  #bad(what: string): WeighbridgeError {
    return badRequest(`${this.#what} came with ${what}`);
  }
}

/** False: the value is of another type. */
function setScalar(type: ScalarType, fixed: DataView, slot: number, value: unknown): boolean {
  if (type === "u64") {
    if (typeof value !== "bigint" || BigInt.asUintN(64, value) !== value) return false;
    fixed.setBigUint64(slot, value, true);
  } else if (type === "bool") {
    if (typeof value !== "boolean") return false;
    fixed.setUint8(slot, value ? 1 : 0);
  } else {
    if (typeof value !== "number") return false;
    if (type === "u32" && value >>> 0 === value) fixed.setUint32(slot, value, true);
    else if (type === "i32" && (value | 0) === value) fixed.setInt32(slot, value, true);
    else if (type === "f32") fixed.setFloat32(slot, value, true);
    else if (type === "f64") fixed.setFloat64(slot, value, true);
    else return false;
  }
  return true;
}

function scalarAt(type: ScalarType, fixed: DataView, slot: number): number | bigint | boolean {
  switch (type) {
    case "u32":
      return fixed.getUint32(slot, true);
    case "i32":
      return fixed.getInt32(slot, true);
    case "f32":
      return fixed.getFloat32(slot, true);
    case "f64":
      return fixed.getFloat64(slot, true);
    case "u64":
      return fixed.getBigUint64(slot, true);
    default:
      return fixed.getUint8(slot) !== 0;
  }
}
