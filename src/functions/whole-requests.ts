// whole-requests — puts the frames of a kv request together again for a handle that wants all of it at once, and cuts its answer.
//
// Invariants:
//   Q1. `serve` is called once per request, after its last frame, with arrays that are the handle's to keep.
//   Q2. Frames of one request come in order (the session sees to that); those of different requests may interleave.
//   Q3. What is put together is bounded by `gatheredBytesMax` per node; beyond it requests are refused.

import { WeighbridgeError } from "../base/errors.ts";
import { Answer, labelOf, type RequestLabel } from "../peer/answer.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { BLOCK_BYTES, type FrameHeader } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { dtypeConstructor, dtypeOfFlags, KEY_BYTES, KvFlag, LEN_BYTES, type Values } from "../wire/kv-message.ts";

export type WholeRequest = {
  readonly channel: Channel;
  readonly label: RequestLabel;
  readonly isPush: boolean;
  readonly isPull: boolean;
  readonly timestamp: number;
  readonly keys: BigUint64Array;
  /** Empty for a pull. */
  readonly values: Values;
  /** Values per key, when they differ. */
  readonly lens: Int32Array | undefined;
  readonly wantsLens: boolean;
};

/** The frames so far. */
type Gathering = {
  readonly channel: Channel;
  readonly incarnation: number;
  readonly keys: Uint8Array[];
  readonly values: Uint8Array[];
  readonly lens: Uint8Array[];
  byteCount: number;
};

const OWN_BUFFER_BYTES = 4096;
const GATHERED_BYTES_MAX = 2 ** 32;

export class WholeRequests implements FunctionHandler {
  readonly #serve: (request: WholeRequest) => void;
  readonly #gatherings = new Map<string, Gathering>();
  readonly #gatheredBytesMax: number;
  #gatheredBytes = 0;

  constructor(serve: (request: WholeRequest) => void, gatheredBytesMax: number = GATHERED_BYTES_MAX) {
    this.#serve = serve;
    this.#gatheredBytesMax = gatheredBytesMax;
  }

  /** Large payloads land in memory of their own, so that the handle can keep them without a copy. */
  destination(_channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return header.payloadBytes > OWN_BUFFER_BYTES ? new Uint8Array(header.payloadBytes) : undefined;
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const name = `${channel.id}/${channel.incarnation}/${header.customer}/${header.arg3}`;
    const isLast = (header.flags & KvFlag.LAST) !== 0;
    if (fresh) this.#gather(name, channel, header, ownPayload(header, bytes, at));
    if (!isLast) {
      channel.answer(new Answer(labelOf(header), { flags: KvFlag.GATHERED }));
      return;
    }
    const gathering = this.#gatherings.get(name);
    this.#gatherings.delete(name);
    if (gathering === undefined) throw new WeighbridgeError("BAD_REQUEST", "the end of a request that is not, or no longer, known here");
    this.#gatheredBytes -= gathering.byteCount;
    channel.park(header.request);
    this.#serve(wholeOf(channel, header, gathering));
  }

  #gather(name: string, channel: Channel, header: FrameHeader, payload: Uint8Array): void {
    const { arg0: keyCount, arg2: offset, flags } = header;
    const element = dtypeConstructor(dtypeOfFlags(flags));
    if (element === undefined) throw new WeighbridgeError("BAD_REQUEST", `there is no value type ${dtypeOfFlags(flags)}`);
    const keyBytes = keyCount * KEY_BYTES;
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
    const valueBytes = payload.length - keyBytes - lensBytes;
    if (keyCount === 0 || valueBytes < 0 || valueBytes % element.BYTES_PER_ELEMENT !== 0) {
      throw new WeighbridgeError("BAD_REQUEST", `lengths do not add up: ${payload.length} bytes for ${keyCount} keys`);
    }
    let gathering = this.#gatherings.get(name);
    if (gathering === undefined) {
      this.#forgetReplaced(channel);
      gathering = { channel, incarnation: channel.incarnation, keys: [], values: [], lens: [], byteCount: 0 };
    }
    if (this.#gatheredBytes + payload.length > this.#gatheredBytesMax) {
      throw new WeighbridgeError("QUEUE_FULL", `${this.#gatheredBytes} bytes of unfinished requests are waiting already`, {
        retryable: true,
      });
    }
    this.#gatherings.set(name, gathering);
    gathering.byteCount += payload.length;
    this.#gatheredBytes += payload.length;
    if (offset === 0) {
      gathering.keys.push(payload.subarray(0, keyBytes));
      if (lensBytes > 0) gathering.lens.push(payload.subarray(keyBytes + valueBytes));
      else if ((flags & KvFlag.VARIABLE) !== 0) gathering.lens.push(new Uint8Array(Int32Array.of(header.arg1).buffer));
    }
    if (valueBytes > 0) gathering.values.push(payload.subarray(keyBytes, keyBytes + valueBytes));
  }

  /** Drops what a worker left unfinished when it died and came back. */
  #forgetReplaced(channel: Channel): void {
    for (const [name, gathering] of this.#gatherings) {
      if (gathering.channel.id !== channel.id || gathering.incarnation === channel.incarnation) continue;
      this.#gatherings.delete(name);
      this.#gatheredBytes -= gathering.byteCount;
    }
  }
}

/** The answer to a whole request: values, then lens if they were asked for, in frames of a block. The arrays are the answer's now. */
export function answerWhole(request: WholeRequest, values: Values | undefined, lens: Int32Array | undefined): void {
  const { channel, label } = request;
  if (!request.isPull) {
    channel.answerRemembered(label.request, [new Answer(label)]);
    return;
  }
  const parts = [bytesOf(values ?? new Float32Array(0))];
  if (request.wantsLens) parts.push(bytesOf(lens ?? uniformLens(request.keys.length, values?.length ?? 0)));
  const totalBytes = parts.reduce((sum, part) => sum + part.length, 0);
  const answers: Answer[] = [];
  let offsetBytes = 0;
  for (const part of parts) {
    for (let from = 0; from < part.length; from += BLOCK_BYTES) {
      const payload = part.subarray(from, Math.min(part.length, from + BLOCK_BYTES));
      answers.push(new Answer(label, { flags: KvFlag.WHOLE, payload, totalBytes, offsetBytes }));
      offsetBytes += payload.length;
    }
  }
  if (answers.length === 0) answers.push(new Answer(label, { flags: KvFlag.WHOLE }));
  channel.answerRemembered(label.request, answers);
}

function uniformLens(keyCount: number, valueCount: number): Int32Array {
  if (valueCount % keyCount !== 0) {
    throw new WeighbridgeError("VALUE_LENGTH", `${valueCount} values cannot be shared evenly by ${keyCount} keys, and no lens were given`);
  }
  return new Int32Array(keyCount).fill(valueCount / keyCount);
}

function wholeOf(channel: Channel, header: FrameHeader, { keys, values, lens }: Gathering): WholeRequest {
  const keyBytes = joined(keys, KEY_BYTES);
  const Element = dtypeConstructor(dtypeOfFlags(header.flags)) ?? Float32Array;
  const valueBytes = joined(values, Element.BYTES_PER_ELEMENT);
  const lensBytes = joined(lens, LEN_BYTES);
  return {
    channel,
    label: labelOf(header),
    isPush: header.functionId !== FunctionId.KV_PULL,
    isPull: header.functionId !== FunctionId.KV_PUSH,
    timestamp: header.arg3,
    keys: new BigUint64Array(keyBytes.buffer, keyBytes.byteOffset, keyBytes.length / KEY_BYTES),
    values: new Element(valueBytes.buffer, valueBytes.byteOffset, valueBytes.length / Element.BYTES_PER_ELEMENT),
    lens: lens.length === 0 ? undefined : new Int32Array(lensBytes.buffer, lensBytes.byteOffset, lensBytes.length / LEN_BYTES),
    wantsLens: (header.flags & KvFlag.WANT_LENS) !== 0,
  };
}

/** One array of all parts, aligned to `align` bytes; a single aligned part is taken as it is. */
function joined(parts: readonly Uint8Array[], align: number): Uint8Array {
  const [first] = parts;
  if (first !== undefined && parts.length === 1 && first.byteOffset % align === 0) return first;
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function ownPayload(header: FrameHeader, bytes: Uint8Array, at: number): Uint8Array {
  const isOwn = at === 0 && bytes.length === header.payloadBytes && header.payloadBytes > OWN_BUFFER_BYTES;
  return isOwn ? bytes : bytes.slice(at, at + header.payloadBytes);
}

function bytesOf(values: Values | Int32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
