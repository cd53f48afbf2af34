// frame-fuzzer — frames that a broken or hostile peer might send, from a seed: legal ones of every function, and what
// is left of them after bits flipped, fields took extreme values, and bytes went missing or came in addition.

import { joinBytes } from "../../src/base/bytes.ts";
import type { Random } from "../../src/base/random.ts";
import { clockAdvance } from "../../src/contracts/clocks.ts";
import { parameterState } from "../../src/contracts/parameters.ts";
import { rowsPull, rowsPush } from "../../src/contracts/rows.ts";
import { tensorPull, tensorPush, tensorPushPull } from "../../src/contracts/tensors.ts";
import {
  FrameHeader,
  HEADER_BYTES,
  Kind,
  PAYLOAD_BYTES_MAX,
  PROTOCOL_VERSION,
  RUN_MORE_MAX,
  RUN_PAYLOAD_BYTES_MAX,
} from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { encodeJson } from "../../src/wire/json-body.ts";
import { dtypeBits, KvFlag } from "../../src/wire/kv-message.ts";
import { frameBytes, type HeaderFields, kvPayload } from "./raw-frame.ts";
import { registration } from "./target-cluster.ts";

const U32_EXTREMES = [0, 1, 2, 7, 8, 9, 255, 4095, 4096, 65_535, 131_071, 131_072, 2 ** 20, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const U64_EXTREMES = [0, 1, 2, 2 ** 20, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 52, 2 ** 53 - 1];
const FUNCTION_IDS: readonly number[] = [...Object.values(FunctionId), 0, 6, 7, 10, 15, 17, 31, 35, 1023, 1024, 65_535];
/**
 * Where a header's u32 fields lie, but for the opening word; 20 is the upper half of the request number, which says
 * whether it is a run.
 */
const U32_OFFSETS = [4, 8, 12, 20, 40, 44, 48, 52, 56, 60];
const U64_OFFSETS = [16, 24, 32];
const MUTATION_PERCENT = 45;
/** What stands in a bundle before every payload but the first. */
const ITEM_BYTES = 24;
const FUNCTIONS = [clockAdvance, parameterState, rowsPull, rowsPush, tensorPull, tensorPush, tensorPushPull];

export class FrameFuzzer {
  readonly #random: Random;
  /** One more than the last stamp that was used. */
  #stamp = 1;
  #timestamp = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Up to a few hundred random bytes, sometimes behind a proper opening word. */
  garbage(): Uint8Array {
    const bytes = this.#bytes(1 + this.#random.below(this.#random.chance(0.1) ? 5000 : 300));
    if (bytes.length >= 4 && this.#random.chance(0.5)) bytes.set([0x57, 0x42, PROTOCOL_VERSION, 1 + this.#random.below(5)]);
    return bytes;
  }

  /** A hello, more or less. */
  hello(identity: object): Uint8Array {
    const fields: Record<string, unknown> = {
      job: "",
      kind: "worker",
      node: 0,
      incarnation: 0,
      expects: 1,
      ...(this.#random.chance(0.5) ? identity : {}),
    };
    if (this.#random.chance(0.7)) fields[this.#pick(Object.keys(fields))] = this.#jsonValue(2);
    return this.#mutatedSometimes(frameBytes(Kind.HELLO, {}, encodeJson(fields)));
  }

  /** A request to a server, by the number that it expects next. */
  serverRequest(request: number): Uint8Array {
    const build = this.#pick([
      () => this.#kvRequest(request),
      () => this.#kvRequest(request),
      () => this.#kvRequest(request),
      () => this.#run(this.#kvRequest(request)),
      () => this.#bundle(request),
      () => this.#simple(request),
      () => this.#control(request),
      () => this.#stray(request),
    ]);
    return this.#mutatedSometimes(build());
  }

  schedulerRequest(request: number): Uint8Array {
    const build = this.#pick([
      () => this.#control(request),
      () => this.#control(request),
      () => this.#simple(request),
      () => this.#stray(request),
    ]);
    return this.#mutatedSometimes(build());
  }

  #kvRequest(request: number): Uint8Array {
    const random = this.#random;
    const functionId = this.#pick([FunctionId.KV_PUSH, FunctionId.KV_PULL, FunctionId.KV_PUSH_PULL]);
    const sends = functionId !== FunctionId.KV_PULL;
    const keyCount = 1 + random.below(random.chance(0.05) ? 500 : 8);
    const keys = Array.from({ length: keyCount }, () => this.#key()).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    if (random.chance(0.05)) keys.reverse();
    const common = {
      request,
      settled: random.chance(0.9) ? request : Math.max(0, request - random.below(100)),
      stamp: sends ? this.#stamp++ : 0,
      functionId,
      app: random.below(3) === 0 ? 1 : 0,
      customer: random.below(2),
      command: random.uint32() | 0,
      priority: random.chance(0.8) ? 0 : random.uint32() | 0,
      arg3: random.chance(0.7) ? ++this.#timestamp : this.#timestamp,
    };
    const flags = dtypeBits(random.chance(0.9) ? 0 : random.below(12)) | this.#framing();
    if (random.chance(0.05)) return this.#piece(common, flags, keys.slice(0, 1), sends);
    if (sends && random.chance(0.3)) {
      const lens = keys.map(() => random.below(6));
      const values = this.#values(lens.reduce((sum, length) => sum + length, 0));
      const fields = { ...common, arg0: keyCount, arg1: 0, flags: flags | KvFlag.LENS | KvFlag.VARIABLE };
      return frameBytes(Kind.REQUEST, fields, kvPayload(keys, values, lens));
    }
    const width = 1 + random.below(random.chance(0.02) ? 3000 : 4);
    const fields = { ...common, arg0: keyCount, arg1: width, flags: random.chance(0.2) ? flags | KvFlag.WANT_LENS : flags };
    const payload = kvPayload(keys, this.#values(sends ? keyCount * width : 0));
    return payload.length > PAYLOAD_BYTES_MAX ? this.garbage() : frameBytes(Kind.REQUEST, fields, payload);
  }

  /** The same request several times, in a run, if it is short enough for one. */
  #run(bytes: Uint8Array): Uint8Array {
    if (legalityOf(bytes) !== "legal" || bytes.length > HEADER_BYTES + RUN_PAYLOAD_BYTES_MAX) return bytes;
    const more = 1 + this.#random.below(this.#random.chance(0.05) ? RUN_MORE_MAX : 8);
    const payload = bytes.subarray(HEADER_BYTES);
    const run = joinBytes([bytes, ...Array.from({ length: more }, () => payload)]);
    new DataView(run.buffer).setUint16(22, more << 5, true);
    this.#stamp += more;
    this.#timestamp += more;
    return run;
  }

  /** Requests of functions by name, in one frame. */
  #bundle(request: number): Uint8Array {
    const random = this.#random;
    const firstStamp = this.#stamp;
    const requests = Array.from({ length: 1 + random.below(random.chance(0.05) ? 300 : 8) }, () => {
      const { isUpdate, nameHash, signatureHash } = this.#pick(FUNCTIONS);
      const mark = isUpdate ? 1 + this.#stamp++ - firstStamp : 0;
      const payload = this.#bytes(random.chance(0.7) ? 8 * random.below(9) : random.below(100));
      return { nameHash, signatureHash, mark, payload };
    });
    const [first, ...others] = requests;
    const items = others.map(({ nameHash, signatureHash, mark, payload }) => {
      const item = new Uint8Array(ITEM_BYTES + Math.ceil(payload.length / 8) * 8);
      const view = new DataView(item.buffer);
      for (const [i, value] of [payload.length, random.below(9), nameHash, signatureHash, mark].entries())
        view.setUint32(4 * i, value, true);
      item.set(payload, ITEM_BYTES);
      return item;
    });
    const { nameHash = 0, signatureHash = 0, mark = 0, payload = this.#bytes(0) } = first ?? {};
    const head = new Uint8Array(Math.ceil(payload.length / 8) * 8);
    head.set(payload);
    const stamp = this.#stamp === firstStamp ? 0 : firstStamp;
    const args = { command: nameHash, arg0: signatureHash, arg1: items.length, arg2: payload.length, arg3: mark };
    const fields = { request, settled: request, stamp, epoch: random.below(2), functionId: FunctionId.BUNDLE, ...args };
    return frameBytes(Kind.REQUEST, fields, joinBytes([head, ...items]));
  }

  /** One block of a long value: a whole one, or the last and short one of a value of up to 16 GiB. */
  #piece(common: HeaderFields, flags: number, keys: readonly bigint[], sends: boolean): Uint8Array {
    const random = this.#random;
    const blockIndex = random.below(random.chance(0.5) ? 4 : 30_000);
    const rest = random.chance(0.95) ? 1 + random.below(100) : 131_072;
    const width = Math.max(4096, blockIndex * 131_072 + rest);
    const offset = Math.floor((width - 1) / 131_072) * 131_072;
    const values = this.#values(sends ? width - offset : 0);
    return frameBytes(
      Kind.REQUEST,
      { ...common, flags: flags | KvFlag.PIECE, arg0: 1, arg1: width, arg2: offset },
      kvPayload(keys, values),
    );
  }

  #simple(request: number): Uint8Array {
    const fields = {
      request,
      settled: request,
      stamp: this.#stamp++,
      functionId: FunctionId.SIMPLE,
      app: this.#random.below(3),
      customer: this.#random.below(3),
    };
    return frameBytes(Kind.REQUEST, fields, this.#bytes(this.#random.below(200)));
  }

  #control(request: number): Uint8Array {
    const random = this.#random;
    const functionId = this.#pick([
      FunctionId.REGISTER,
      FunctionId.HEARTBEAT,
      FunctionId.BARRIER,
      FunctionId.STATUS,
      FunctionId.ROSTER,
      FunctionId.ABORT,
    ]);
    const entry = { node: 8, role: "server", rank: 0, address: "memory://x", incarnation: 1, state: "alive", label: "x" };
    const roster = { version: random.below(5), nodes: [entry] };
    const bodies: Record<number, Record<string, unknown>> = {
      [FunctionId.REGISTER]: registration({
        rank: random.below(3),
        token: String(random.uint32()),
        ...(random.chance(0.3) ? { resume: { job: "job", node: 11, incarnation: 1, roster, passed: [] } } : {}),
      }),
      [FunctionId.BARRIER]: { group: random.below(9), customer: random.below(3), round: random.below(3) },
      [FunctionId.ROSTER]: roster,
      [FunctionId.ABORT]: { code: "ABORTED", message: "by a fuzzer" },
    };
    const body = bodies[functionId] ?? {};
    if (random.chance(0.4)) body[this.#pick([...Object.keys(body), "extra"])] = this.#jsonValue(3);
    const text = random.chance(0.005) ? this.#deepJson() : encodeJson(random.chance(0.05) ? this.#jsonValue(3) : body);
    return frameBytes(Kind.REQUEST, { request, settled: request, functionId }, text);
  }

  /** What nobody waits for: answers, failures and notices, and requests out of turn. */
  #stray(request: number): Uint8Array {
    const random = this.#random;
    const functionId = this.#pick(FUNCTION_IDS);
    if (random.chance(0.6)) {
      const other = random.chance(0.6) ? Math.max(1, request - 1 - random.below(20)) : request + 1 + random.below(3);
      return frameBytes(Kind.REQUEST, { request: other, settled: Math.max(0, request - 20), functionId }, this.#bytes(random.below(50)));
    }
    const kind = this.#pick([Kind.REPLY, Kind.FAILURE, Kind.NOTICE, Kind.HELLO]);
    const payload = kind === Kind.FAILURE && random.chance(0.5) ? encodeJson(this.#jsonValue(2)) : this.#bytes(random.below(100));
    return frameBytes(kind, { request: this.#pick([...U64_EXTREMES, request]), settled: request, functionId }, payload);
  }

  #mutatedSometimes(bytes: Uint8Array): Uint8Array {
    return this.#random.below(100) < MUTATION_PERCENT ? this.#mutated(bytes) : bytes;
  }

  #mutated(bytes: Uint8Array): Uint8Array {
    const random = this.#random;
    if (bytes.length < HEADER_BYTES) return bytes;
    const view = new DataView(bytes.buffer);
    switch (random.below(10)) {
      case 0: // any bit of the header, usually not one that closes the link
        flipBit(bytes, (random.chance(0.1) ? 0 : 32) + random.below(HEADER_BYTES * 8 - 32));
        break;
      case 1:
      case 2: // any bits of the payload
        for (let i = random.below(4); bytes.length > HEADER_BYTES && i >= 0; i--)
          flipBit(bytes, HEADER_BYTES * 8 + random.below((bytes.length - HEADER_BYTES) * 8));
        break;
      case 3:
      case 4: // a field with an extreme value; the length of the payload rarely, since that ends the conversation
        view.setUint32(this.#pick(U32_OFFSETS.filter((offset) => offset !== 8 || random.chance(0.05))), this.#pick(U32_EXTREMES), true);
        break;
      case 5:
        view.setBigUint64(this.#pick(U64_OFFSETS), BigInt(this.#pick(U64_EXTREMES)), true);
        break;
      case 6:
        view.setUint16(4, this.#pick(FUNCTION_IDS), true);
        break;
      case 7:
        view.setUint16(6, random.uint32() & 0xffff, true);
        break;
      case 8: // counts, widths and offsets that do not fit the payload
        view.setUint32(this.#pick([48, 52, 56]), random.chance(0.5) ? random.below(100) : random.uint32(), true);
        break;
      default: // a payload that is shorter or longer than its header says it should be, but honest about its length
        return this.#resized(bytes);
    }
    return bytes;
  }

  #resized(bytes: Uint8Array): Uint8Array {
    const oldBytes = bytes.length - HEADER_BYTES;
    const newBytes = this.#random.chance(0.5) ? this.#random.below(oldBytes + 1) : oldBytes + this.#random.below(64);
    const padded = new Uint8Array(HEADER_BYTES + Math.ceil(newBytes / 8) * 8);
    padded.set(bytes.subarray(0, Math.min(bytes.length, padded.length)));
    new DataView(padded.buffer).setUint32(8, newBytes, true);
    return padded;
  }

  /** Mostly whole requests in one frame, as clients send them; sometimes parts. */
  #framing(): number {
    if (this.#random.chance(0.8)) return KvFlag.FIRST | KvFlag.LAST;
    return (this.#random.chance(0.5) ? KvFlag.FIRST : 0) | (this.#random.chance(0.5) ? KvFlag.LAST : 0);
  }

  /** From a small set, so that keys meet again, or any u64. */
  #key(): bigint {
    if (this.#random.chance(0.7)) return BigInt(this.#random.below(2000));
    return (BigInt(this.#random.uint32()) << 32n) | BigInt(this.#random.uint32());
  }

  /** Small numbers, and now and then one that is none. */
  #values(count: number): Float32Array {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = this.#random.uint32() & 15;
    if (count > 0 && this.#random.chance(0.1)) values[this.#random.below(count)] = this.#pick([NaN, Infinity, -Infinity, 1e38]);
    return values;
  }

  #jsonValue(depth: number): unknown {
    const random = this.#random;
    const scalars = [
      null,
      true,
      "",
      "x".repeat(random.below(3000)),
      "NaN",
      -1,
      0.5,
      1e300,
      2 ** 53,
      9_007_199_254_740_991,
      random.uint32(),
    ];
    if (depth === 0 || random.chance(0.7)) return this.#pick(scalars);
    if (random.chance(0.5)) return Array.from({ length: random.below(4) }, () => this.#jsonValue(depth - 1));
    return Object.fromEntries(
      Array.from({ length: random.below(4) }, () => [this.#pick(["__proto__", "node", "x", "constructor"]), this.#jsonValue(depth - 1)]),
    );
  }

  /** Deeper than a stack of calls could be. */
  #deepJson(): Uint8Array {
    const depth = 1 + this.#random.below(100_000);
    return new TextEncoder().encode(
      this.#random.chance(0.5) ? "[".repeat(depth) + "]".repeat(depth) : `${'{"x":'.repeat(depth)}1${"}".repeat(depth)}`,
    );
  }

  #bytes(count: number): Uint8Array {
    const bytes = new Uint8Array(count);
    for (let i = 0; i < count; i++) bytes[i] = this.#random.uint32();
    return bytes;
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#random.below(items.length)] as T;
  }
}

/** How many numbers these bytes take, from this one on: 0 unless a node would take them for that request. */
export function numbersTaken(bytes: Uint8Array, request: number): number {
  if (bytes.length < HEADER_BYTES) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const { number, more } = requestField(view);
  const isRequest = view.getUint32(0, true) === (0x4257 | (PROTOCOL_VERSION << 16) | (Kind.REQUEST << 24));
  if (!isRequest || number !== BigInt(request)) return 0;
  return view.getUint16(4, true) === FunctionId.BUNDLE ? 1 + view.getUint32(52, true) : 1 + Number(more);
}

/** Whether the frames of a bundle fill it, and their stamps and numbers can be (spec/protocol.md, A17); a request's. */
function isBundle(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const end = HEADER_BYTES + view.getUint32(8, true);
  const stamp = view.getBigUint64(24, true) % 2n ** 53n;
  const isMark = (mark: number): boolean => mark === 0 || (mark > 0 && stamp > 0n && stamp + BigInt(mark) < 2n ** 53n);
  let at = HEADER_BYTES + Math.ceil(view.getUint32(56, true) / 8) * 8;
  if (!isMark(view.getUint32(60, true))) return false;
  for (let left = view.getUint32(52, true); left > 0; left--) {
    if (at + ITEM_BYTES > end || !isMark(view.getInt32(at + 16, true))) return false;
    at += ITEM_BYTES + Math.ceil(view.getUint32(at, true) / 8) * 8;
  }
  return at === end;
}

function requestField(view: DataView): { readonly number: bigint; readonly more: bigint } {
  const field = view.getBigUint64(16, true);
  return { number: field % 2n ** 53n, more: field / 2n ** 53n };
}

/**
 * legal: answered or ignored. illegal: costs its sender the link. missized: what follows is taken for its payload, so
 * nobody can tell. early: of an epoch that no placement has yet, so what follows waits.
 */
export type Legality = "legal" | "illegal" | "missized" | "early";

/**
 * What a server must make of these bytes from a worker that it has asked nothing; an oracle of its own
 * (spec/protocol.md, X rules).
 */
export function legalityOf(bytes: Uint8Array): Legality {
  if (bytes.length < HEADER_BYTES) return "missized";
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const payloadBytes = view.getUint32(8, true);
  const { number, more } = requestField(view);
  const [stamp, settled] = [view.getBigUint64(24, true) % 2n ** 53n, view.getBigUint64(32, true) % 2n ** 53n];
  const kind = view.getUint8(3);
  const isRunReadable =
    (kind === Kind.REQUEST || kind === Kind.REPLY) && payloadBytes <= 128 && number + more < 2n ** 53n && stamp + more < 2n ** 53n;
  const isReadable =
    view.getUint16(0, true) === 0x4257 &&
    view.getUint8(2) === PROTOCOL_VERSION &&
    kind >= Kind.HELLO &&
    kind <= Kind.NOTICE &&
    payloadBytes <= PAYLOAD_BYTES_MAX &&
    (more === 0n || isRunReadable);
  if (!isReadable) return "illegal";
  if (bytes.length !== HEADER_BYTES + Math.ceil(payloadBytes / 8) * 8 * (1 + Number(more))) return "missized";
  const functionId = view.getUint16(4, true);
  const isOfBundle = functionId === FunctionId.BUNDLE;
  if (isOfBundle && (kind !== Kind.REQUEST || more > 0n || !isBundle(bytes))) return "illegal";
  const last = number + (isOfBundle ? BigInt(view.getUint32(52, true)) : more);
  const epoch = Number(view.getBigUint64(24, true) / 2n ** 53n + (view.getBigUint64(32, true) / 2n ** 53n) * 2n ** 11n);
  const isServed =
    isOfBundle || functionId === FunctionId.FUNCTION || (functionId >= FunctionId.KV_PUSH && functionId <= FunctionId.KV_PUSH_PULL);
  if (kind === Kind.REQUEST && isServed && epoch > 1) return "early";
  return kind === Kind.REQUEST && number > 0n && last < 2n ** 53n && last - settled <= 2n ** 20n ? "legal" : "illegal";
}

function flipBit(bytes: Uint8Array, bit: number): void {
  bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
}

/** For messages: the header of these bytes, whatever it says. */
export function headerText(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  if (bytes.length < HEADER_BYTES) return `${bytes.length} bytes`;
  const header = new FrameHeader();
  header.kind = view.getUint8(3);
  header.functionId = view.getUint16(4, true);
  header.flags = view.getUint16(6, true);
  header.payloadBytes = view.getUint32(8, true);
  header.request = Number(requestField(view).number);
  header.more = Number(requestField(view).more);
  header.app = view.getUint16(40, true);
  [header.arg0, header.arg1, header.arg2, header.arg3] = [48, 52, 56, 60].map((at) => view.getUint32(at, true)) as [
    number,
    number,
    number,
    number,
  ];
  return String(header);
}
