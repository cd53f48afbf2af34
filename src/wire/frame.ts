// frame — the 64-byte header that opens every frame, as numbers in and out of a Uint32Array. Not the reader (frame-reader.ts).
//
//   offset  type  field          little-endian; a frame starts 8-byte aligned in its stream, its payload is padded with zeros to 8 bytes
//        0  u16   magic          0x4257, the bytes "WB"
//        2  u8    version        2
//        3  u8    kind           HELLO, REQUEST, REPLY, FAILURE or NOTICE
//        4  u16   functionId     which function a request asks for; a reply repeats it
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
// A run: small frames that are alike and follow each other share one header. 64 pushes of one float are 1 KB instead of 5, and a header is made and read once for
// all of them. Whoever receives a run has received the frames it stands for, no more and no less.
//
//   header, more = 2 │ payload of request n │ payload of request n + 1 │ payload of request n + 2        each padded to 8 bytes
//
// From one frame to the next, `request` rises by one, and so do `stamp` unless it is 0, and `arg3` of requests (the kv functions have the
// request's timestamp there). Everything else is the same. `settled` is that of the first.
//
// Invariants:
//   F1. Numbers of requests and updates stay below 2^53, so that they are exact as JavaScript numbers. A run that reaches beyond breaks the protocol.
//   F2. Only requests and replies come in runs, and only those of at most RUN_PAYLOAD_BYTES_MAX: whole runs fit every read buffer.

import { AssertionError } from "../base/assert.ts";
import { WeighbridgeError } from "../base/errors.ts";

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

/** How many requests a node may have open on a channel, from the first unsettled one on: what the other side may have to remember of it. */
export const REQUESTS_OPEN_MAX: number = 1 << 20;

export const MAGIC = 0x4257;
export const PROTOCOL_VERSION = 2;
/** What a greeting of ZeroMQ begins with. */
const ZMTP_OPENING = 0x000000ff;
const TWO_32 = 2 ** 32;
const HIGH_MASK = 2 ** 21 - 1;
const MORE_SHIFT = 21;
const EPOCH_SHIFT = 21;
const EPOCH_HALF_BITS = 11;
/** The most a header can say. */
export const EPOCH_MAX: number = 2 ** (2 * EPOCH_HALF_BITS) - 1;

/** The application chose the server of this request itself: no placement says whether that is right, and `epoch` is 0. */
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
};

/** Makes `header` that of an answer to the request that `label` is of; without a payload so far. */
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

export function strangeOpening(opening: number): string {
  return `it starts with 0x${(opening & 0xffff).toString(16)}, not with the magic bytes "WB"${psliteHint(opening)}`;
}

/** Says whose protocol it may be: a node that forgot its van is the likeliest stranger. */
export function psliteHint(opening: number): string {
  if (opening !== ZMTP_OPENING) return "";
  return ", as ps-lite's programs do: for those start every node of ours with --van zmq (DMLC_PS_VAN_TYPE=zmq)";
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
  if (payloadBytes > RUN_PAYLOAD_BYTES_MAX) throw malformed(`a run of payloads of ${payloadBytes} bytes, over ${RUN_PAYLOAD_BYTES_MAX}`); // F2
  if (Math.max(request, stamp) + more > Number.MAX_SAFE_INTEGER) throw malformed("a run reaches beyond 2^53"); // F1
}

/** A division costs as much as a small frame's other words together, and almost all numbers are small. */
function highOf(value: number): number {
  return value < TWO_32 ? 0 : value / TWO_32;
}

export function malformed(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", `a peer sent a frame that cannot be read: ${what}`);
}
