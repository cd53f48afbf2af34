// ps-meta — ps-lite's PBMeta: the first part of every message, a protobuf (proto2) of numbers and a few nodes, encoded
// and decoded by hand.
//
//   PBMeta     1 head   2 body   3 control   4 request   5 push   6 simple_app   7 app_id   8 timestamp
//              9 data_type (packed)   10 customer_id   12 pull   13 priority
//   PBControl  1 cmd   2 node (repeated)   3 barrier_group   4 msg_sig (u64)
//   PBNode     1 role   2 id   3 hostname   4 port   5 is_recovery   10 customer_id
//
// Invariants:
//   PsMeta.P1. We write what ps-lite's own writer would: ascending field numbers, the same fields left out, EMPTY for a
//       number that it does not set.
//   PsMeta.P2. We read whatever protobuf allows: any order, unknown fields, negative numbers of ten bytes. Fields that
//       ps-lite sends uninitialised (barrier_group of a reply, customer_id of the scheduler's node) are read and
//       ignored.
//   PsMeta.P3. An invalid message throws BAD_FRAME and costs nothing.

import { WeighbridgeError } from "../../base/errors.ts";
import type { Role } from "../../wire/node-id.ts";

/** What ps-lite writes for a number that is not set. */
export const EMPTY = 0x7fffffff;

export const PsCommand = { NONE: 0, TERMINATE: 1, ADD_NODE: 2, BARRIER: 3, ACK: 4, HEARTBEAT: 5 } as const;
export const PsRole = { SERVER: 0, WORKER: 1, SCHEDULER: 2 } as const;

export type PsNode = {
  readonly role: number;
  /** EMPTY before the scheduler has assigned one. */
  readonly id: number;
  readonly hostname: string;
  readonly port: number;
  readonly isRecovery: boolean;
  readonly customerId: number;
};

/** Of a node that is no scheduler. */
export function roleOf({ role }: PsNode): "server" | "worker" {
  return role === PsRole.SERVER ? "server" : "worker";
}

export function psRoleOf(role: Role): number {
  return role === "scheduler" ? PsRole.SCHEDULER : role === "server" ? PsRole.SERVER : PsRole.WORKER;
}

/** As long as a part of a message can be: ps-lite counts its bytes in an int. */
export const PART_BYTES_MAX: number = 2 ** 31 - 1;

/** A 64-bit signature as two unsigned halves. */
export type Signature = { readonly high: number; readonly low: number };

const NOTHING = new Uint8Array(0);
const NO_NODES: readonly PsNode[] = [];
const NO_SIGNATURE: Signature = { high: 0, low: 0 };
/** More nodes than a cluster has, and more types than a message has parts. */
const NODES_MAX = 65_536;
const DATA_TYPES_MAX = 16;
const VARINT = 0;
const FIXED64 = 1;
const BYTES = 2;
const FIXED32 = 5;

/** One message's meta. Mutable and reused: a reader owns one and overwrites it with every message. */
export class PsMeta {
  head: number = EMPTY;
  body: Uint8Array = NOTHING;
  /** Bytes of a body that was too long to be kept; 0 for all others. */
  skippedBytes = 0;
  /** NONE for data messages. */
  command = 0;
  nodes: readonly PsNode[] = NO_NODES;
  barrierGroup = 0;
  signature: Signature = NO_SIGNATURE;
  request = false;
  push = false;
  pull = false;
  simpleApp = false;
  appId: number = EMPTY;
  timestamp: number = EMPTY;
  readonly dataTypes: number[] = [];
  customerId: number = EMPTY;
  priority = 0;

  reset(): this {
    this.head = EMPTY;
    this.body = NOTHING;
    this.skippedBytes = 0;
    this.command = PsCommand.NONE;
    this.nodes = NO_NODES;
    this.barrierGroup = 0;
    this.signature = NO_SIGNATURE;
    this.request = false;
    this.push = false;
    this.pull = false;
    this.simpleApp = false;
    this.appId = EMPTY;
    this.timestamp = EMPTY;
    this.dataTypes.length = 0;
    this.customerId = EMPTY;
    this.priority = 0;
    return this;
  }

  /** The message as one line, for log lines and failing tests. */
  toString(): string {
    const command = Object.entries(PsCommand).find(([, value]) => value === this.command)?.[0] ?? `command ${this.command}`;
    const what =
      this.command === PsCommand.NONE ? `${this.push ? "push " : ""}${this.pull ? "pull " : ""}${this.simpleApp ? "simple" : ""}` : command;
    const nodes = this.nodes.map((node) => `${node.id}@${node.hostname}:${node.port}`).join(" ");
    return (
      `${what.trim()} ${this.request ? "request" : "response"} app=${this.appId}/${this.customerId} timestamp=${this.timestamp} head=${this.head} ` +
      `types=${this.dataTypes.join(",")} body=${this.body.length} nodes=[${nodes}]`
    );
  }
}

// Writing.

/** More than the longest meta without body and nodes. */
const PLAIN_BYTES_MAX = 96;
const NODE_BYTES_MAX = 64;

/** An upper bound of what `encodeMeta` writes. */
export function metaBytesMax(meta: PsMeta): number {
  let byteCount = PLAIN_BYTES_MAX + meta.body.length + meta.dataTypes.length;
  for (const { hostname } of meta.nodes) byteCount += NODE_BYTES_MAX + 3 * hostname.length;
  return byteCount;
}

/** Writes the meta at `at`, where there must be room for `metaBytesMax`; returns its end (PsMeta.P1). */
export function encodeMeta(meta: PsMeta, bytes: Uint8Array, at: number): number {
  const isBarrier = meta.command === PsCommand.BARRIER;
  at = writeInt(bytes, at, 0x08, meta.head);
  if (meta.body.length > 0) {
    at = writeVarint(bytes, writeByte(bytes, at, 0x12), meta.body.length);
    bytes.set(meta.body, at);
    at += meta.body.length;
  }
  if (meta.command !== PsCommand.NONE) {
    const control = encodeControl(meta, isBarrier);
    at = writeVarint(bytes, writeByte(bytes, at, 0x1a), control.length);
    for (let i = 0; i < control.length; i++) bytes[at++] = control[i] as number;
  }
  at = writeFlag(bytes, at, 0x20, meta.request);
  at = writeFlag(bytes, at, 0x28, meta.push);
  at = writeFlag(bytes, at, 0x30, meta.simpleApp);
  if (meta.appId !== EMPTY) at = writeInt(bytes, at, 0x38, meta.appId);
  if (meta.timestamp !== EMPTY) at = writeInt(bytes, at, 0x40, meta.timestamp);
  if (meta.dataTypes.length > 0) {
    at = writeVarint(bytes, writeByte(bytes, at, 0x4a), meta.dataTypes.length); // each is one byte
    for (let i = 0; i < meta.dataTypes.length; i++) bytes[at++] = meta.dataTypes[i] as number;
  }
  at = writeInt(bytes, at, 0x50, meta.customerId);
  at = writeFlag(bytes, at, 0x60, meta.pull);
  return writeInt(bytes, at, 0x68, meta.priority);
}

function encodeControl(meta: PsMeta, isBarrier: boolean): number[] {
  const out: number[] = [];
  pushInt(out, 0x08, meta.command);
  for (const node of meta.nodes) {
    const body: number[] = [];
    const hostname = new TextEncoder().encode(node.hostname);
    pushInt(body, 0x08, node.role);
    pushInt(body, 0x10, node.id);
    body.push(0x1a);
    pushVarint(body, hostname.length, 0);
    body.push(...hostname);
    pushInt(body, 0x20, node.port);
    body.push(0x28, node.isRecovery ? 1 : 0);
    pushInt(body, 0x50, node.customerId);
    out.push(0x12);
    pushVarint(out, body.length, 0);
    out.push(...body);
  }
  if (isBarrier) pushInt(out, 0x18, meta.barrierGroup);
  if (meta.command === PsCommand.ACK) {
    out.push(0x20);
    pushVarint(out, meta.signature.low, meta.signature.high);
  }
  return out;
}

function writeByte(bytes: Uint8Array, at: number, byte: number): number {
  bytes[at] = byte;
  return at + 1;
}

function writeFlag(bytes: Uint8Array, at: number, tag: number, value: boolean): number {
  bytes[at] = tag;
  bytes[at + 1] = value ? 1 : 0;
  return at + 2;
}

/** An int32: negative ones take ten bytes. */
function writeInt(bytes: Uint8Array, at: number, tag: number, value: number): number {
  bytes[at++] = tag;
  if (value >= 0) return writeVarint(bytes, at, value);
  let rest = value | 0;
  for (let i = 0; i < 4; i++) {
    bytes[at++] = (rest & 0x7f) | 0x80;
    rest >>= 7;
  }
  bytes[at++] = (rest & 0x0f) | 0xf0;
  for (let i = 0; i < 4; i++) bytes[at++] = 0xff;
  bytes[at++] = 0x01;
  return at;
}

function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  while (value > 0x7f) {
    bytes[at++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  bytes[at++] = value;
  return at;
}

function pushInt(out: number[], tag: number, value: number): void {
  out.push(tag);
  pushVarint(out, value >>> 0, value < 0 ? 0xffffffff : 0);
}

function pushVarint(out: number[], low: number, high: number): void {
  while (high !== 0 || low > 0x7f) {
    out.push((low & 0x7f) | 0x80);
    low = ((low >>> 7) | (high << 25)) >>> 0;
    high >>>= 7;
  }
  out.push(low);
}

// Reading.

/** Reads the meta in `bytes[at … end)` into `meta`; its body is a view of them. Throws BAD_FRAME (PsMeta.P3). */
export function decodeMeta(bytes: Uint8Array, at: number, end: number, meta: PsMeta): void {
  meta.reset();
  meta.head = 0; // protobuf's default, if it is left out
  meta.customerId = 0;
  const from = new Cursor(bytes, at, end);
  while (from.at < end) {
    const tag = from.varint();
    switch (tag) {
      case 0x08:
        meta.head = from.varint();
        break;
      case 0x12:
        meta.body = from.bytes();
        break;
      case 0x1a:
        decodeControl(from.inner(), meta);
        break;
      case 0x20:
        meta.request = from.varint() !== 0;
        break;
      case 0x28:
        meta.push = from.varint() !== 0;
        break;
      case 0x30:
        meta.simpleApp = from.varint() !== 0;
        break;
      case 0x38:
        meta.appId = from.varint();
        break;
      case 0x40:
        meta.timestamp = from.varint();
        break;
      case 0x4a:
        for (const inner = from.inner(); inner.at < inner.end; ) addDataType(meta, inner.varint());
        break;
      case 0x48:
        addDataType(meta, from.varint());
        break;
      case 0x50:
        meta.customerId = from.varint();
        break;
      case 0x60:
        meta.pull = from.varint() !== 0;
        break;
      case 0x68:
        meta.priority = from.varint();
        break;
      default:
        from.skip(tag);
    }
  }
}

function addDataType(meta: PsMeta, type: number): void {
  if (meta.dataTypes.length >= DATA_TYPES_MAX) throw unreadable("it names the types of too many parts");
  meta.dataTypes.push(type);
}

function decodeControl(from: Cursor, meta: PsMeta): void {
  const nodes: PsNode[] = [];
  let command = -1;
  while (from.at < from.end) {
    const tag = from.varint();
    if (tag === 0x08) command = from.varint();
    else if (tag === 0x12) {
      if (nodes.length >= NODES_MAX) throw unreadable(`it names more than ${NODES_MAX} nodes`);
      nodes.push(decodeNode(from.inner()));
    } else if (tag === 0x18) meta.barrierGroup = from.varint();
    else if (tag === 0x20) {
      const low = from.varint() >>> 0;
      meta.signature = { low, high: from.high };
    } else from.skip(tag);
  }
  if (command < 0) throw unreadable("its control has no command");
  meta.command = command;
  meta.nodes = nodes;
}

function decodeNode(from: Cursor): PsNode {
  let role = -1;
  let id = EMPTY;
  let hostname = "";
  let port = 0;
  let isRecovery = false;
  let customerId = 0;
  while (from.at < from.end) {
    const tag = from.varint();
    if (tag === 0x08) role = from.varint();
    else if (tag === 0x10) id = from.varint();
    else if (tag === 0x1a) hostname = new TextDecoder().decode(from.bytes());
    else if (tag === 0x20) port = from.varint();
    else if (tag === 0x28) isRecovery = from.varint() !== 0;
    else if (tag === 0x50) customerId = from.varint();
    else from.skip(tag);
  }
  if (role < PsRole.SERVER || role > PsRole.SCHEDULER) throw unreadable(`a node has the role ${role}`);
  return { role, id, hostname, port, isRecovery, customerId };
}

class Cursor {
  readonly #bytes: Uint8Array;
  at: number;
  readonly end: number;
  /** The upper 32 bits of the last varint. */
  high = 0;

  constructor(bytes: Uint8Array, at: number, end: number) {
    this.#bytes = bytes;
    this.at = at;
    this.end = end;
  }

  /** The lower 32 bits, as an int32. */
  varint(): number {
    const bytes = this.#bytes;
    let low = 0;
    this.high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.at >= this.end) throw unreadable("it ends inside a number");
      const byte = bytes[this.at++] as number;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        this.high = bits >>> 4;
      } else this.high = (this.high | (bits << (shift - 32))) >>> 0;
      if (byte < 0x80) return low | 0;
    }
    throw unreadable("a number has more than ten bytes");
  }

  /** A view of a field of bytes. */
  bytes(): Uint8Array {
    const { at, end } = this.inner();
    return this.#bytes.subarray(at, end);
  }

  inner(): Cursor {
    const byteCount = this.varint();
    const at = this.at;
    if (byteCount < 0 || at + byteCount > this.end) throw unreadable("it ends inside a field");
    this.at = at + byteCount;
    return new Cursor(this.#bytes, at, this.at);
  }

  skip(tag: number): void {
    const kind = tag & 7;
    if (tag >>> 3 === 0) throw unreadable("it has a field 0");
    if (kind === VARINT) this.varint();
    else if (kind === BYTES) this.inner();
    else if (kind === FIXED64 || kind === FIXED32) this.at += kind === FIXED64 ? 8 : 4;
    else throw unreadable(`it has a field of kind ${kind}`);
    if (this.at > this.end) throw unreadable("it ends inside a field");
  }
}

function unreadable(what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_FRAME", `a peer sent a message that is no PBMeta: ${what}`);
}

/** How an acknowledgement names a message (ps-lite's Resender). Ids are cut to 8 bits there, and customers left out. */
export function signatureOf(meta: PsMeta, sender: number, receiver: number): Signature {
  const high = (((meta.appId & 0xffff) << 16) | ((sender & 0xff) << 8) | (receiver & 0xff)) >>> 0;
  // `timestamp << 1` is an int there: its sign spreads over the upper half when the timestamp is 2^30 or more.
  const shifted = (meta.timestamp << 1) | (meta.request ? 1 : 0);
  return { high: shifted < 0 ? 0xffffffff : high, low: shifted >>> 0 };
}
