// zmtp — the ZeroMQ transport protocol 3.1 as far as ps-lite uses it: greeting, READY, frame headers, identities. Bytes
// only; the reader of a whole stream is zmtp-reader.ts.
//
//   greeting   ff, 8 bytes of no meaning, 7f │ 03 01 │ "NULL" and zeros up to 20 bytes │ as-server 0 │ 31 zeros
//   frame      flags │ length: u8, or u64 big-endian with LONG │ body
//   READY      a COMMAND frame: 05 "READY", then properties: u8 length, name, u32 big-endian length, value
//
// A message is the frames up to the first one without MORE. The name of the sender is the Identity of its READY: "ps"
// and its node id. A scheduler of ours adds one property, its incarnation, so that nodes of ours notice a restart.
// libzmq accepts any property that begins with "X-", and ps-lite reads none.

import { WeighbridgeError } from "../../base/errors.ts";

export const GREETING_BYTES = 64;
export const ZmtpFlag = { MORE: 1, LONG: 2, COMMAND: 4 } as const;
/** The longest frame header. */
export const FRAME_HEADER_BYTES_MAX = 9;

export type SocketType = "ROUTER" | "DEALER";

const INCARNATION = "X-Weighbridge-Life";
const SIGNATURE_FIRST = 0xff;
const SIGNATURE_LAST = 0x7f;
const SIGNATURE_BYTES = 10;
const VERSION_MAJOR = 3;
const VERSION_MINOR = 1;
const MECHANISM_BYTES = 20;
const SHORT_BYTES_MAX = 255;
const TWO_32 = 2 ** 32;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** `identity` only for its length, which old peers expect in the signature. */
export function encodeGreeting(identity: string): Uint8Array {
  const bytes = new Uint8Array(GREETING_BYTES);
  bytes[0] = SIGNATURE_FIRST;
  bytes[SIGNATURE_BYTES - 2] = 1 + identity.length;
  bytes[SIGNATURE_BYTES - 1] = SIGNATURE_LAST;
  bytes[SIGNATURE_BYTES] = VERSION_MAJOR;
  bytes[SIGNATURE_BYTES + 1] = VERSION_MINOR;
  bytes.set(encoder.encode("NULL"), SIGNATURE_BYTES + 2);
  return bytes;
}

/** Throws BAD_FRAME if these 64 bytes do not open a connection of ours. */
export function checkGreeting(bytes: Uint8Array): void {
  if (bytes[0] !== SIGNATURE_FIRST || ((bytes[SIGNATURE_BYTES - 1] as number) & 1) !== 1)
    throw badZmtp("the connection does not begin with ZeroMQ's signature: is this a node of another kind?");
  const major = bytes[SIGNATURE_BYTES] as number;
  if (major < VERSION_MAJOR) throw badZmtp(`the peer speaks ZMTP ${major}; version 3 is needed (libzmq 4.0 and later)`);
  const name = bytes.subarray(SIGNATURE_BYTES + 2, SIGNATURE_BYTES + 2 + MECHANISM_BYTES);
  const mechanism = decoder.decode(name).replace(/\0+$/, "");
  if (mechanism !== "NULL") throw badZmtp(`the peer requires the security mechanism "${mechanism}"; ps-lite has NULL only`);
}

/** Whether a stream that begins with this byte can be ZMTP at all. */
export function looksLikeZmtp(firstByte: number): boolean {
  return firstByte === SIGNATURE_FIRST;
}

export type Ready = {
  readonly socketType: string;
  readonly identity: Uint8Array;
  /** Of a scheduler of ours; undefined for all other nodes. */
  readonly incarnation: number | undefined;
};

/** The READY command, as a whole frame. */
export function encodeReady(socketType: SocketType, identity: string, incarnation?: number): Uint8Array {
  const body: number[] = [];
  const property = (name: string, value: string): void => {
    body.push(name.length, ...encoder.encode(name), 0, 0, 0, value.length, ...encoder.encode(value));
  };
  body.push(5, ...encoder.encode("READY"));
  property("Socket-Type", socketType);
  property("Identity", identity);
  if (incarnation !== undefined) property(INCARNATION, String(incarnation));
  return Uint8Array.of(ZmtpFlag.COMMAND, body.length, ...body);
}

export type Command = { readonly name: string; readonly body: Uint8Array };

/** Parses the body of a COMMAND frame. Throws BAD_FRAME. */
export function decodeCommand(frame: Uint8Array): Command {
  const nameBytes = frame[0] ?? 0;
  if (frame.length < 1 + nameBytes) throw badZmtp("a command ends inside its name");
  return { name: decoder.decode(frame.subarray(1, 1 + nameBytes)), body: frame.subarray(1 + nameBytes) };
}

/** The properties of a READY command. Throws BAD_FRAME. */
export function decodeReady(body: Uint8Array): Ready {
  let socketType = "";
  let identity: Uint8Array = new Uint8Array(0);
  let incarnation: number | undefined;
  for (let at = 0; at < body.length; ) {
    const nameBytes = body[at] as number;
    const lengthAt = at + 1 + nameBytes;
    const valueAt = lengthAt + 4;
    if (valueAt > body.length) throw badZmtp("READY ends inside a property");
    const valueBytes = new DataView(body.buffer, body.byteOffset + lengthAt, 4).getUint32(0);
    if (valueAt + valueBytes > body.length) throw badZmtp("READY ends inside a property");
    const name = decoder.decode(body.subarray(at + 1, lengthAt)).toLowerCase();
    const value = body.subarray(valueAt, valueAt + valueBytes);
    if (name === "socket-type") socketType = decoder.decode(value);
    if (name === "identity") identity = value.slice();
    if (name === INCARNATION.toLowerCase()) incarnation = incarnationOf(decoder.decode(value));
    at = valueAt + valueBytes;
  }
  return { socketType, identity, incarnation };
}

/** Undefined for what no scheduler of ours sends. */
function incarnationOf(digits: string): number | undefined {
  const incarnation = /^\d{1,16}$/.test(digits) ? Number(digits) : 0;
  return incarnation > 0 && Number.isSafeInteger(incarnation) ? incarnation : undefined;
}

/** A PONG to the context of a PING, as a whole frame (ZMTP 3.1 heartbeats; ps-lite sends none, other peers may). */
export function encodePong(pingBody: Uint8Array): Uint8Array {
  const context = pingBody.subarray(2, 18); // behind the time to live
  return Uint8Array.of(ZmtpFlag.COMMAND, 5 + context.length, 4, ...encoder.encode("PONG"), ...context);
}

export function frameHeaderBytes(bodyBytes: number): number {
  return bodyBytes > SHORT_BYTES_MAX ? FRAME_HEADER_BYTES_MAX : 2;
}

/** Writes the header of a message frame; returns where the body begins. */
export function writeFrameHeader(bytes: Uint8Array, at: number, bodyBytes: number, isLast: boolean): number {
  const more = isLast ? 0 : ZmtpFlag.MORE;
  if (bodyBytes <= SHORT_BYTES_MAX) {
    bytes[at] = more;
    bytes[at + 1] = bodyBytes;
    return at + 2;
  }
  bytes[at] = more | ZmtpFlag.LONG;
  writeU32(bytes, at + 1, Math.floor(bodyBytes / TWO_32));
  writeU32(bytes, at + 5, bodyBytes >>> 0);
  return at + FRAME_HEADER_BYTES_MAX;
}

/** The length in a LONG frame's header. Throws BAD_FRAME if no number holds it. */
export function readLongLength(bytes: Uint8Array, at: number): number {
  const high = readU32(bytes, at);
  if (high >= 2 ** 21) throw badZmtp("a frame of more than 2^53 bytes");
  return high * TWO_32 + readU32(bytes, at + 4);
}

/** The identity of a node with this id; a node without an id (0) has none. */
export function identityOf(node: number): string {
  return node === 0 ? "" : `ps${node}`;
}

/** The node id in an identity; 0 if it is not one of ps-lite's. */
export function nodeOfIdentity(identity: Uint8Array): number {
  const digits = /^ps(\d{1,9})$/.exec(decoder.decode(identity))?.[1];
  return digits === undefined ? 0 : Number(digits);
}

export function badZmtp(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", what);
}

function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

function readU32(bytes: Uint8Array, at: number): number {
  const [a = 0, b = 0, c = 0, d = 0] = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
  return ((a << 24) | (b << 16) | (c << 8) | d) >>> 0;
}
