// asks — what our node asks of a ps-lite node, and its responses. The frames of a kv request (spec/protocol.md, K7 to K9) become one
// message, as ps-lite wants it; its response is given back as the answer to all of them (K11: GATHERED, and WHOLE for the last).
//
// Invariants:
//   A1. The keys and values of a message are sent from where they lie: in the caller's arrays, which are the request's until it ends.
//       Only what lies in a page is copied.
//   A2. Every request ends: answered, failed by the node, or failed because the line broke. One that left is never sent again: when the
//       channel repeats it on a new link, it fails.
//   A3. A response that fits nothing that is open is left out.

import { WeighbridgeError } from "../base/errors.ts";
import { joinBytes } from "../base/join-bytes.ts";
import { type FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { dtypeConstructor, dtypeOfFlags, KEY_BYTES, KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import { bodyParts, bodyTooLong, SimpleFlag } from "../wire/simple-frame.ts";
import type { Envoy } from "./envoy.ts";
import { addPart, addRange, keepRange } from "./frame-ranges.ts";
import { type Ask, ResponseIntake } from "./response-intake.ts";
import { PsType, psTypeOfDtype } from "./wire/data-type.ts";
import { PsMeta } from "./wire/ps-meta.ts";
import type { PartSink } from "./wire/zmtp-reader.ts";
import type { WrittenFrame } from "./written-frames.ts";

/** The frames of a SimpleApp request so far. */
type SimpleGathering = { readonly ask: Ask; readonly parts: Uint8Array[] };
type Gathering = { readonly ask: Ask; readonly keys: Uint8Array[]; readonly values: Uint8Array[]; readonly lens: Uint8Array[] };

/** Timestamps of SimpleApp requests begin here, so that their signatures differ from those of pushes and pulls. */
const SIMPLE_TIMESTAMP = 2 ** 29;
const TIMESTAMP_MASK = 2 ** 31 - 1;
const SIMPLE_MASK = SIMPLE_TIMESTAMP - 1;
const CUSTOMERS_MAX = 2 ** 16;
const LOST_MAX = 2 ** 20;

export class Asks {
  readonly #envoy: Envoy;
  /** By application and customer, then by timestamp. SimpleApp's have places below 0. */
  readonly #open = new Map<number, Map<number, Ask>>();
  readonly #gathering = new Map<string, Gathering>();
  readonly #simpleGathering = new Map<string, SimpleGathering>();
  /** Numbers of requests that left and were not answered when the link ended (A2). */
  readonly #lost = new Set<number>();
  readonly #intake: ResponseIntake;

  constructor(envoy: Envoy) {
    this.#envoy = envoy;
    this.#intake = new ResponseIntake(envoy);
  }

  /** A request of ours. */
  take(frame: WrittenFrame, isNew: boolean): void {
    const { header } = frame;
    if (!isNew && this.#lost.delete(header.request)) {
      this.#envoy.failRequest(header, this.#lostError());
      return;
    }
    switch (header.functionId) {
      case FunctionId.SIMPLE:
        this.#sendSimple(frame);
        break;
      case FunctionId.KV_PUSH:
      case FunctionId.KV_PULL:
      case FunctionId.KV_PUSH_PULL:
        if (header.arg0 === 0) this.#withdraw(header);
        else if (isWholeRequest(header.flags)) this.#sendFrame(frame);
        else this.#gather(frame);
        break;
      default: {
        const message = `function ${header.functionId} cannot be asked of ${this.#envoy.name}: ps-lite's protocol has pushes, pulls and SimpleApp; parameters need our own: leave --van (DMLC_PS_VAN_TYPE) out`;
        this.#envoy.failRequest(header, new WeighbridgeError("UNSUPPORTED", message));
      }
    }
  }

  /** Everything that is open fails, and what was being gathered: the rest of it would find no beginning. */
  fail(error: WeighbridgeError): void {
    for (const asks of this.#open.values()) for (const ask of asks.values()) this.#failAsk(ask, error);
    for (const { ask } of [...this.#gathering.values(), ...this.#simpleGathering.values()]) this.#failAsk(ask, error);
    this.#open.clear();
    this.#gathering.clear();
    this.#simpleGathering.clear();
  }

  /** The link is gone, and whoever asked may ask again over the next one (A2). */
  forget(): void {
    for (const asks of this.#open.values()) for (const { requests } of asks.values()) for (const request of requests) this.#lose(request);
    for (const request of this.#intake.abandon()?.requests ?? []) this.#lose(request);
    this.#open.clear();
    this.#gathering.clear();
    this.#simpleGathering.clear();
  }

  /** A response broke off before any of it was handed over: what it answered fails, or, where it is sent again, waits for that. */
  interrupted(): void {
    const ask = this.#intake.abandon();
    if (ask === undefined) return;
    if (this.#envoy.host.resender !== undefined) this.#remember(ask);
    else this.#failAsk(ask, this.#lostError());
  }

  #failAsk({ functionId, requests }: Ask, error: WeighbridgeError): void {
    for (const request of requests) this.#envoy.failRequest({ functionId, request }, error);
  }

  #lose(request: number): void {
    if (this.#lost.size >= LOST_MAX) this.#lost.clear();
    this.#lost.add(request);
  }

  #lostError(): WeighbridgeError {
    const message = `the connection with ${this.#envoy.name} broke; whether what it had not answered was applied is not known`;
    return new WeighbridgeError("NODE_DEAD", message, { retryable: true });
  }

  // Requests.

  /** A body in several frames leaves with the last of them. */
  #sendSimple(frame: WrittenFrame): void {
    const { header } = frame;
    const { flags, arg1, arg2, arg3 } = header;
    const name = `${header.app}/${header.customer}/${arg1}`;
    let gathering = arg3 === 0 || arg2 === 0 ? undefined : this.#simpleGathering.get(name);
    if (gathering === undefined && arg2 > 0) {
      this.#envoy.failRequest(header, this.#lostError()); // its beginning was lost with the link before
      return;
    }
    if (gathering === undefined) {
      const timestamp = SIMPLE_TIMESTAMP + (header.request & SIMPLE_MASK);
      gathering = { ask: this.#askOf(header, -1 - placeOf(header.app, header.customer), timestamp), parts: [] };
    } else gathering.ask.requests.push(header.request);
    gathering.parts.push(frame.payload());
    if ((flags & SimpleFlag.PART) !== 0) this.#simpleGathering.set(name, gathering);
    else {
      this.#simpleGathering.delete(name);
      this.#sendBody(header, gathering);
    }
  }

  #sendBody(header: FrameHeader, { ask, parts }: SimpleGathering): void {
    this.#remember(ask);
    const meta = new PsMeta();
    meta.head = header.command;
    meta.body = parts.length === 1 ? (parts[0] as Uint8Array) : joinBytes(parts);
    meta.request = true;
    meta.simpleApp = true;
    meta.appId = header.app;
    meta.customerId = header.customer;
    meta.timestamp = ask.timestamp;
    this.#envoy.host.whenReady(this.#envoy, () => {
      const asks = this.#open.get(ask.place);
      if (asks?.get(ask.timestamp) !== ask) return; // it failed meanwhile
      if (this.#envoy.line === undefined) {
        asks.delete(ask.timestamp);
        this.#failAsk(ask, this.#lostError());
        return;
      }
      this.#envoy.serves.whenFree(() => this.#envoy.send(meta)); // a long response may be under way on the same line
    });
  }

  /** A request of one frame: nothing needs to be put together. */
  #sendFrame(frame: WrittenFrame): void {
    const { line } = this.#envoy;
    const { header } = frame;
    if (line === undefined) {
      this.#envoy.failRequest(header, this.#lostError());
      return;
    }
    const ask = this.#askOf(header, placeOf(header.app, header.customer), this.#timestampOf(header));
    ask.keyCount = header.arg0;
    this.#remember(ask);
    const keyBytes = header.arg0 * KEY_BYTES;
    const lensBytes = (header.flags & KvFlag.LENS) === 0 ? 0 : header.arg0 * LEN_BYTES;
    const valueEnd = header.payloadBytes - lensBytes;
    const meta = this.#kvMeta(header, ask.timestamp, lensBytes > 0);
    const { batch } = line;
    batch.meta(meta, false);
    batch.part(keyBytes, false);
    addRange(batch, frame, 0, keyBytes);
    batch.part(valueEnd - keyBytes, lensBytes === 0);
    addRange(batch, frame, keyBytes, valueEnd);
    if (lensBytes > 0) {
      batch.part(lensBytes, true);
      addRange(batch, frame, valueEnd, header.payloadBytes);
    }
    this.#envoy.endMessage(meta);
  }

  /** A frame without keys: its sender has given the request up. Nothing of it was sent before its last frame. */
  #withdraw(header: FrameHeader): void {
    const error = new WeighbridgeError("BAD_REQUEST", "its sender withdrew the request: memory that it was to be sent from is gone");
    const gathering = this.#gathering.get(gatheringName(header));
    this.#gathering.delete(gatheringName(header));
    if (gathering !== undefined) this.#failAsk(gathering.ask, error);
    this.#envoy.failRequest(header, error);
  }

  #gather(frame: WrittenFrame): void {
    const { header } = frame;
    const { arg0: keyCount, arg1: width, arg2: offset, flags } = header;
    const name = gatheringName(header);
    let gathering = this.#gathering.get(name);
    if ((flags & KvFlag.FIRST) !== 0) {
      const ask = this.#askOf(header, placeOf(header.app, header.customer), this.#timestampOf(header));
      ask.requests.length = 0;
      gathering = { ask, keys: [], values: [], lens: [] };
      this.#gathering.set(name, gathering);
    }
    if (gathering === undefined) {
      this.#envoy.failRequest(header, this.#lostError()); // its beginning was lost with the link before
      return;
    }
    const { ask } = gathering;
    ask.requests.push(header.request);
    const keyBytes = keyCount * KEY_BYTES;
    const lensBytes = (flags & KvFlag.LENS) === 0 ? 0 : keyCount * LEN_BYTES;
    const valueEnd = header.payloadBytes - lensBytes;
    if (offset === 0) {
      ask.keyCount += keyCount;
      keepRange(gathering.keys, frame, 0, keyBytes);
      if (lensBytes > 0) keepRange(gathering.lens, frame, valueEnd, header.payloadBytes);
      else if ((flags & KvFlag.VARIABLE) !== 0) gathering.lens.push(new Uint8Array(Int32Array.of(width).buffer));
    }
    keepRange(gathering.values, frame, keyBytes, valueEnd);
    if ((flags & KvFlag.LAST) === 0) return;
    this.#gathering.delete(name);
    this.#sendGathered(header, gathering);
  }

  #sendGathered(header: FrameHeader, { ask, keys, values, lens }: Gathering): void {
    const { line } = this.#envoy;
    if (line === undefined) {
      this.#failAsk(ask, this.#lostError());
      return;
    }
    this.#remember(ask);
    const meta = this.#kvMeta(header, ask.timestamp, lens.length > 0);
    const { batch } = line;
    batch.meta(meta, false);
    addPart(batch, keys, false);
    addPart(batch, values, lens.length === 0);
    if (lens.length > 0) addPart(batch, lens, true);
    this.#envoy.endMessage(meta);
  }

  #kvMeta(header: FrameHeader, timestamp: number, hasLens: boolean): PsMeta {
    const { meta } = this.#envoy;
    meta.reset();
    meta.head = header.command;
    meta.request = true;
    meta.push = header.functionId !== FunctionId.KV_PULL;
    meta.pull = header.functionId !== FunctionId.KV_PUSH;
    meta.appId = header.app;
    meta.customerId = header.customer;
    meta.timestamp = timestamp;
    meta.priority = header.priority;
    meta.dataTypes.push(PsType.UINT64, psTypeOfDtype(dtypeOfFlags(header.flags)));
    if (hasLens) meta.dataTypes.push(PsType.INT32);
    return meta;
  }

  /** The customer's own, unless acknowledgements need one that no other customer of the application has. */
  #timestampOf({ arg3, request }: FrameHeader): number {
    return this.#envoy.host.resender === undefined ? arg3 & TIMESTAMP_MASK : request & SIMPLE_MASK;
  }

  #askOf(header: FrameHeader, place: number, timestamp: number): Ask {
    const { functionId, flags, request } = header;
    const elementBytes = dtypeConstructor(dtypeOfFlags(flags))?.BYTES_PER_ELEMENT ?? 1;
    return {
      functionId,
      place,
      timestamp,
      requests: [request],
      wantsLens: functionId === FunctionId.KV_PULL && (flags & KvFlag.WANT_LENS) !== 0,
      elementBytes,
      keyCount: 0,
    };
  }

  #remember(ask: Ask): void {
    const asks = this.#open.get(ask.place);
    if (asks === undefined) this.#open.set(ask.place, new Map([[ask.timestamp, ask]]));
    else asks.set(ask.timestamp, ask);
  }

  // Responses.

  response(meta: PsMeta, hasParts: boolean): PartSink | undefined {
    const place = meta.simpleApp ? -1 - placeOf(meta.appId, meta.customerId) : placeOf(meta.appId, meta.customerId);
    const asks = this.#open.get(place);
    const ask = asks?.get(meta.timestamp);
    if (asks === undefined || ask === undefined) return undefined; // A3
    asks.delete(meta.timestamp);
    const isFailure = meta.push && meta.pull && meta.body.length > 0 && (meta.simpleApp || !hasParts);
    if (isFailure) {
      for (const request of ask.requests) this.#envoy.failWith(ask.functionId, request, meta.body);
      return undefined;
    }
    if (meta.simpleApp) {
      if (meta.skippedBytes > 0)
        this.#failAsk(ask, new WeighbridgeError("BAD_FRAME", `${this.#envoy.name}: ${bodyTooLong(meta.skippedBytes)}`));
      else this.#answerSimple(ask, meta.body);
      return undefined;
    }
    if (ask.functionId === FunctionId.KV_PUSH) {
      for (const request of ask.requests) this.#acknowledge(ask.functionId, request, 0);
      return undefined;
    }
    if (hasParts) return this.#intake.begun(ask, meta);
    this.#intake.begun(ask, meta).endWithout();
    return undefined;
  }

  #answerSimple({ functionId, requests }: Ask, body: Uint8Array): void {
    const { header, feed } = this.#envoy;
    for (const request of requests.slice(0, -1)) this.#acknowledge(functionId, request, 0);
    let offset = 0;
    for (const part of bodyParts(body)) {
      header.reset(Kind.REPLY, functionId);
      header.request = requests.at(-1) as number;
      header.arg0 = body.length;
      header.arg2 = offset;
      feed?.put(header, part);
      offset += part.length;
    }
  }

  #acknowledge(functionId: number, request: number, flags: number): void {
    const { header, feed } = this.#envoy;
    header.reset(Kind.REPLY, functionId);
    header.request = request;
    header.flags = flags;
    feed?.begin(header);
  }
}

/** Whether the frame is all of a request, and has its lens if it needs some. */
function isWholeRequest(flags: number): boolean {
  const isOnly = (flags & KvFlag.FIRST) !== 0 && (flags & KvFlag.LAST) !== 0;
  return isOnly && ((flags & KvFlag.PIECE) === 0 || (flags & KvFlag.VARIABLE) === 0);
}

function placeOf(app: number, customer: number): number {
  return app * CUSTOMERS_MAX + customer;
}

function gatheringName({ app, customer, arg3 }: FrameHeader): string {
  return `${app}/${customer}/${arg3}`;
}
