// whole-requests — assembles the frames of a kv request for a handle that wants all of it at once, and cuts its answer.
//
// Invariants:
//   WholeRequests.Q1. `serve` is called once per request, after its last frame, with arrays that the handle owns.
//   WholeRequests.Q2. Frames of one request come in order (the channel's duty); those of different requests may
//       interleave.
//   WholeRequests.Q3. Incomplete requests are bounded, per node and per worker, and go with their worker
//       (partial-requests.ts); beyond the bound requests are refused.
//   WholeRequests.Q4. A request is served whole or not at all: after a refused frame, here or earlier, the rest is
//       refused.
//   WholeRequests.Q5. Served requests are valid: keys ascend, and there are as many values as widths or lens say.

import { bytesOf, joinBytes } from "../../base/bytes.ts";
import { badArgument, badRequest, WeighbridgeError } from "../../base/errors.ts";
import { kvPull, kvPush } from "../../contracts/kv.ts";
import { elementArrayOf, elementTypeOf, KEY_BYTES } from "../../kernel/elements.ts";
import { requireKeys } from "../../keys/key-list.ts";
import { Answer, answerFrames, labelOf } from "../../peer/answer.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import type { PartialRequests } from "../../peer/partial-requests.ts";
import type { FrameHeader, RequestLabel } from "../../wire/frame.ts";
import { checkKvFrame, dtypeOfFlags, KvAssembly, KvFlag, LEN_BYTES, problemWithLens, type Values } from "../../wire/kv-message.ts";

export type WholeKvRequest = {
  readonly channel: Channel;
  readonly label: RequestLabel;
  readonly isPush: boolean;
  readonly isPull: boolean;
  readonly timestamp: number;
  readonly keys: BigUint64Array;
  /** Empty for a pull, but of the requested type. */
  readonly values: Values;
  /** Values per key, when they differ. */
  readonly lens: Int32Array | undefined;
  readonly wantsLens: boolean;
  /** Values per key that a pull expects, with lens those of an unknown key; 0 if the request does not name it. */
  readonly width: number;
};

/** The frames so far. */
export type PartialRequest = {
  readonly functionId: number;
  readonly dtype: number;
  readonly assembly: KvAssembly;
  byteCount: number;
};

const OWN_BUFFER_BYTES = 4096;
/** An upper bound of the cost of a kept frame beside its payload. */
const FRAME_COST_BYTES = 2048;

export class WholeRequests implements FunctionHandler {
  readonly #serve: (request: WholeKvRequest) => void;
  /** Incomplete requests of all handles of a node, by handle, application, customer and timestamp. */
  readonly #unfinished: PartialRequests<PartialRequest>;
  readonly #owner: number;

  constructor(unfinished: PartialRequests<PartialRequest>, serve: (request: WholeKvRequest) => void) {
    this.#unfinished = unfinished;
    this.#owner = unfinished.newOwner();
    this.#serve = serve;
  }

  /** Large payloads land in memory of their own, so that the handle can keep them without a copy. */
  destination(_channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return header.payloadBytes > OWN_BUFFER_BYTES ? new Uint8Array(header.payloadBytes) : undefined;
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const isLast = (header.flags & KvFlag.LAST) !== 0;
    if (isLast && !fresh) throw badRequest("the end of a request that was served before, and whose answer is not known any more");
    if (fresh) {
      const partial = this.#take(channel, header, ownPayload(header, bytes, at));
      if (partial !== undefined) {
        const whole = wholeOf(channel, header, partial);
        channel.park(header.request);
        this.#serve(whole);
        return;
      }
    }
    channel.answer(new Answer(labelOf(header), { flags: KvFlag.GATHERED }));
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#unfinished.refuse(channel, this.#nameOf(header));
  }

  #nameOf({ app, customer, arg3: timestamp }: FrameHeader): string {
    return `${this.#owner}/${app}/${customer}/${timestamp}`;
  }

  /**
   * Adds a frame to its request; returns the request with its last one. Throws, and drops the request
   * (WholeRequests.Q4).
   */
  #take(channel: Channel, header: FrameHeader, payload: Uint8Array): PartialRequest | undefined {
    const isFirst = (header.flags & KvFlag.FIRST) !== 0;
    const isLast = (header.flags & KvFlag.LAST) !== 0;
    if (isFirst && isLast) return addFrame(newPartial(header), header, payload);
    return this.#unfinished.take(channel, this.#nameOf(header), {
      isFirst,
      isLast,
      begin: () => newPartial(header),
      add: (partial) => addFrame(partial, header, payload),
      byteCountOf: ({ byteCount }) => byteCount, // WholeRequests.Q3
    });
  }
}

function newPartial({ functionId, flags }: FrameHeader): PartialRequest {
  return {
    functionId,
    dtype: dtypeOfFlags(flags),
    assembly: new KvAssembly(),
    byteCount: 0,
  };
}

function addFrame(partial: PartialRequest, header: FrameHeader, payload: Uint8Array): PartialRequest {
  const { flags, functionId } = header;
  const element = elementArrayOf(dtypeOfFlags(flags));
  if (element === undefined) throw badRequest(`there is no value type ${dtypeOfFlags(flags)}`);
  if (partial.dtype !== dtypeOfFlags(flags) || partial.functionId !== functionId) throw badRequest("two requests under one number");
  checkKvFrame(header, element.BYTES_PER_ELEMENT, functionId !== kvPull.id);
  partial.byteCount += payload.length + FRAME_COST_BYTES;
  partial.assembly.add(header, (list, from, to) => list.push(payload.subarray(from, to)));
  return partial;
}

/**
 * Answers a whole request: values, then lens if requested, in frames of a block. The answer owns the arrays. Throws
 * BAD_ARGUMENT or VALUE_LENGTH, nothing answered, if they do not fit the request.
 */
export function answerWhole(request: WholeKvRequest, values: Values | undefined, lens: Int32Array | undefined): void {
  const { channel, label } = request;
  if (!request.isPull) {
    channel.answerRemembered(label.request, [new Answer(label)]);
    return;
  }
  checkAnswer(request, values, lens);
  const parts = [bytesOf(values ?? new Float32Array(0))];
  if (request.wantsLens) parts.push(bytesOf(lens ?? uniformLens(request.keys.length, values?.length ?? 0)));
  channel.answerRemembered(label.request, answerFrames(label, parts, { flags: KvFlag.WHOLE }));
}

function checkAnswer(request: WholeKvRequest, values: Values | undefined, lens: Int32Array | undefined): void {
  const actual = values?.constructor.name ?? "nothing";
  const requested = request.values.constructor.name;
  if (values === undefined || elementTypeOf(values) !== elementTypeOf(request.values))
    throw badArgument(`a pull of ${requested} values is answered with ${requested}, not with ${actual}`);
  const problem = lens === undefined ? undefined : problemWithLens(lens, request.keys.length, values.length);
  if (problem !== undefined) throw new WeighbridgeError("VALUE_LENGTH", problem);
}

function uniformLens(keyCount: number, valueCount: number): Int32Array {
  if (valueCount % keyCount !== 0) {
    throw new WeighbridgeError("VALUE_LENGTH", `${valueCount} values cannot be shared evenly by ${keyCount} keys, and no lens were given`);
  }
  return new Int32Array(keyCount).fill(valueCount / keyCount);
}

function wholeOf(channel: Channel, header: FrameHeader, partial: PartialRequest): WholeKvRequest {
  const Element = elementArrayOf(partial.dtype) ?? Float32Array;
  const { assembly } = partial;
  const keyBytes = joined(assembly.keys, KEY_BYTES);
  const valueBytes = joined(assembly.values, Element.BYTES_PER_ELEMENT);
  const lensBytes = joined(assembly.lens, LEN_BYTES);
  const keys = new BigUint64Array(keyBytes.buffer, keyBytes.byteOffset, keyBytes.length / KEY_BYTES);
  const values = new Element(valueBytes.buffer, valueBytes.byteOffset, valueBytes.length / Element.BYTES_PER_ELEMENT);
  const hasLens = assembly.lens.length > 0;
  const lens = hasLens ? new Int32Array(lensBytes.buffer, lensBytes.byteOffset, lensBytes.length / LEN_BYTES) : undefined;
  const isPush = header.functionId !== kvPull.id;
  checkWhole(keys, values, lens, isPush);
  return {
    channel,
    label: labelOf(header),
    isPush,
    isPull: header.functionId !== kvPush.id,
    timestamp: header.arg3,
    keys,
    values,
    lens,
    wantsLens: (header.flags & KvFlag.WANT_LENS) !== 0,
    width: header.arg1,
  };
}

/** WholeRequests.Q5 */
function checkWhole(keys: BigUint64Array, values: Values, lens: Int32Array | undefined, isPush: boolean): void {
  if (keys.length === 0) throw badRequest("a request without keys");
  requireKeys(keys);
  if (lens !== undefined) {
    const problem = problemWithLens(lens, keys.length, values.length);
    if (problem !== undefined) throw badRequest(problem);
  } else if (isPush && (values.length === 0 || values.length % keys.length !== 0)) {
    throw badRequest(`${values.length} values for ${keys.length} keys: not the same number for each`);
  }
}

/** One array of all parts, aligned to `align` bytes; a single aligned part as it is. */
function joined(parts: readonly Uint8Array[], align: number): Uint8Array {
  const [first] = parts;
  if (first !== undefined && parts.length === 1 && first.byteOffset % align === 0) return first;
  return joinBytes(parts);
}

function ownPayload(header: FrameHeader, bytes: Uint8Array, at: number): Uint8Array {
  const isOwn = at === 0 && bytes.length === header.payloadBytes && header.payloadBytes > OWN_BUFFER_BYTES;
  return isOwn ? bytes : bytes.slice(at, at + header.payloadBytes);
}
