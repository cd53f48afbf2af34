// served-request — one request of a ps-lite node, and our response. One message becomes one or several requests to the
// channel (spec/protocol.md, K7 to K9); the answers to all of them become one response.
//
// Invariants:
//   ServedRequest.S1. Every request is answered once: with a response, or, if it failed here, with one that reports it
//       (see `#respondFailure`).
//   ServedRequest.S2. The keys of a pull's response are those of its request, byte for byte; lens are always sent, also
//       if not requested.
//   ServedRequest.S3. A response is written to one connection. If that breaks inside it, the node has not got it: the
//       response is made again, or fails if it must not be.

import { WeighbridgeError } from "../base/errors.ts";
import { elementArrayOf } from "../kernel/elements.ts";
import { toFailure } from "../wire/failure.ts";
import { Kind, offsetBytesOf, totalBytesOf } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { encodeJson } from "../wire/json-body.ts";
import { KvFlag, LEN_BYTES } from "../wire/kv-message.ts";
import type { Awaiting } from "./conversation.ts";
import { byteCountOf, inOnePiece, type MessageBatch } from "./message-batch.ts";
import type { OutgoingConnection } from "./outgoing-connection.ts";
import { PULL_KEYS_MAX } from "./request-reader.ts";
import type { ServedRequests } from "./served-requests.ts";
import type { OutgoingFrame } from "./translating-batch.ts";
import { dtypeOfPsType, PsType } from "./wire/data-type.ts";
import type { PsMeta } from "./wire/ps-meta.ts";

/** One request of the node, from its first frame here to its response. */
export class ServedRequest implements Awaiting {
  readonly app: number;
  readonly customer: number;
  readonly head: number;
  readonly timestamp: number;
  readonly push: boolean;
  readonly pull: boolean;
  readonly valueType: number;
  /** Our number of the type. */
  readonly dtype: number;
  readonly elementBytes: number;
  readonly functionId: number;
  /** Of a pull; needed for the response, and unchanged until it has left. */
  keys: Uint8Array = NOTHING;
  keyCount = 0;
  /** Lens that came with the request, to be returned with the response. */
  lens: Uint8Array = NOTHING;
  /** Number of the first frame. */
  first = 0;
  readonly #owner: ServedRequests;
  readonly #simple: boolean;
  /** Frames of the request, and those without an answer yet. */
  #frameCount = 0;
  #framesLeft = 0;
  #failure: Uint8Array | undefined;
  /** SimpleApp's answer. */
  readonly #body: Uint8Array[] = [];
  /** Answers that are assembled, by frame. */
  #gathered: Uint8Array[][] | undefined;
  /** Of a response that is being written. */
  #valuesLeft = 0;
  #lensLeft = 0;
  #isStreaming = false;
  /** The connection of the response that is being written (ServedRequest.S3). */
  #outgoing: OutgoingConnection | undefined;
  /** Lens of the answer that passed by, while they are to be remembered. */
  #seenLens: Uint8Array | undefined;
  #seenBytes = 0;
  /** Of a pull that guesses its lengths: bytes of all values; -1 otherwise. */
  #guessedBytes = -1;
  /** The frame whose answer has to come next for the response to be written as it comes. */
  #nextFrame = 0;

  constructor(owner: ServedRequests, meta: PsMeta) {
    this.#owner = owner;
    this.app = meta.appId;
    this.customer = meta.customerId;
    this.head = meta.head;
    this.timestamp = meta.timestamp;
    this.push = meta.push;
    this.pull = meta.pull;
    this.#simple = meta.simpleApp;
    this.valueType = meta.dataTypes[1] ?? 0;
    this.dtype = dtypeOfPsType(this.valueType);
    this.elementBytes = elementArrayOf(this.dtype)?.BYTES_PER_ELEMENT ?? 1;
    this.functionId = !meta.pull ? FunctionId.KV_PUSH : meta.push ? FunctionId.KV_PUSH_PULL : FunctionId.KV_PULL;
  }

  /** Our node gets the request in this many frames, and answers each. */
  open(frameCount: number): void {
    this.#frameCount = frameCount;
    this.#framesLeft = frameCount;
  }

  /** The request is not valid; our node does not get it. */
  refuse(error: WeighbridgeError): void {
    const { host, name } = this.#owner.conversation;
    host.log.error("a request was refused", {
      node: name,
      app: this.app,
      timestamp: this.timestamp,
      code: error.code,
      reason: error.message,
    });
    this.#failure = encodeJson(toFailure(error));
    this.#owner.whenFree(() => this.#respondFailure());
  }

  /** Assumes these lengths of the values. */
  guess(lens: Uint8Array, byteCount: number): void {
    this.lens = lens;
    this.#guessedBytes = byteCount;
    this.#nextFrame = 0;
  }

  answer(frame: OutgoingFrame): boolean {
    const { header } = frame;
    if (header.kind === Kind.FAILURE) {
      if (this.#isStreaming) this.#giveUp(frame.payload());
      if (this.#failure === undefined && this.#frameCount > 0) this.#failure = frame.payload();
      return this.#frameDone();
    }
    if (this.#simple) return this.#answerSimple(frame);
    if (!this.pull || (header.flags & KvFlag.GATHERED) !== 0) return this.#frameDone();
    const total = totalBytesOf(header);
    const offset = offsetBytesOf(header);
    const isWhole = (header.flags & KvFlag.WHOLE) !== 0;
    const isNext = this.#frameCount === 1 || isWhole || (this.#guessedBytes >= 0 && header.request - this.first === this.#nextFrame);
    const { host } = this.#owner.conversation;
    const canStream = isNext && this.#gathered === undefined && host.resender === undefined && this.#owner.occupy(this);
    if (canStream) this.#stream(frame, isWhole || this.#guessedBytes < 0 ? total : this.#guessedBytes, isWhole);
    else this.#gather(frame, total);
    if (offset + header.payloadBytes < total) return false;
    this.#nextFrame++;
    return this.#frameDone();
  }

  /** All frames of a body but the last are only acknowledged; the answer may take several frames itself. */
  #answerSimple(frame: OutgoingFrame): boolean {
    const { header } = frame;
    if (header.request < this.first + this.#frameCount - 1) return this.#frameDone();
    this.#body.push(frame.payload());
    const isWhole = header.arg2 + header.payloadBytes >= header.arg0;
    return isWhole ? this.#frameDone() : false;
  }

  /** Whether the answer to a frame ends with lens: pulls that do not know the lengths request them. */
  get #wantsLens(): boolean {
    return !this.push && this.#guessedBytes < 0;
  }

  /**
   * A response that has begun cannot continue: the node must not wait for the rest, nor mistake what follows for it.
   */
  #giveUp(failure: Uint8Array): void {
    const { host, name } = this.#owner.conversation;
    host.log.error("a response broke off", { node: name, timestamp: this.timestamp, failure: new TextDecoder().decode(failure) });
    this.#outgoing?.destroy();
  }

  #frameDone(): boolean {
    if (--this.#framesLeft > 0) return true;
    if (this.#isStreaming) this.#endStream();
    else if (this.#failure !== undefined && this.#guessedBytes >= 0) this.#pullAgain();
    else this.#owner.whenFree(() => this.#respond());
    return true;
  }

  #endStream(): void {
    const { conversation } = this.#owner;
    const isCut = this.#outgoing !== conversation.outgoing;
    this.#isStreaming = false;
    this.#owner.release();
    if (!isCut) return;
    if (this.#failure === undefined && !this.push) {
      this.#pullAgain(); // ServedRequest.S3
      return;
    }
    const error = new WeighbridgeError("NODE_DEAD", "the connection broke inside the response; what was pushed has been applied");
    this.#failure ??= encodeJson(toFailure(error));
    this.#owner.whenFree(() => this.#respond());
  }

  /** Pulls the same values once more, without a guess. */
  #pullAgain(): void {
    this.#failure = undefined;
    this.#gathered = undefined;
    this.#seenLens = undefined;
    this.#seenBytes = 0;
    this.#guessedBytes = -1;
    this.lens = NOTHING;
    this.#owner.pullAgain(this);
  }

  #respond(): void {
    if (this.#failure !== undefined) this.#respondFailure();
    else if (this.#simple) this.#respondSimple();
    else if (this.pull) this.#respondGathered();
    else this.#send(this.#responseMeta());
  }

  /** A response of one part. */
  #send(meta: PsMeta): void {
    const { conversation } = this.#owner;
    conversation.outgoing?.batch.meta(meta, true);
    conversation.endMessage(meta);
  }

  /**
   * ps-lite has no message for a failure. Our own nodes find it in the body. Nodes of ps-lite stop: their checks refuse
   * a response with `pull` and without values. A push that was not applied must not look applied, and a worker that
   * waits forever is worse than one that ends and says where.
   */
  #respondFailure(): void {
    const meta = this.#responseMeta();
    meta.push = true;
    meta.pull = true;
    meta.body = this.#failure ?? NOTHING;
    this.#send(meta);
    this.#owner.conversation.outgoing?.flushSoon();
  }

  #respondSimple(): void {
    const meta = this.#responseMeta();
    meta.body = inOnePiece(this.#body);
    this.#send(meta);
  }

  #responseMeta(): PsMeta {
    const { meta } = this.#owner.conversation;
    meta.reset();
    meta.head = this.head;
    meta.simpleApp = this.#simple;
    meta.push = this.push;
    meta.pull = this.pull;
    meta.appId = this.app;
    meta.customerId = this.customer;
    meta.timestamp = this.timestamp;
    return meta;
  }

  /** Writes meta, keys, and the header of the values (ServedRequest.S2). */
  #beginValues(valueBytes: number, hasLens: boolean): PsMeta {
    const { outgoing } = this.#owner.conversation;
    const meta = this.#responseMeta();
    meta.dataTypes.push(PsType.UINT64, this.valueType);
    if (hasLens) meta.dataTypes.push(PsType.INT32);
    const batch = outgoing?.batch;
    batch?.meta(meta, false);
    batch?.part(this.keys.length, false);
    batch?.add(this.keys);
    batch?.part(valueBytes, !hasLens);
    return meta;
  }

  /** Writes a frame of the answer as it is. */
  #stream(frame: OutgoingFrame, total: number, isWhole: boolean): void {
    if (!this.#isStreaming) {
      this.#isStreaming = true;
      this.#outgoing = this.#owner.conversation.outgoing;
      const lensBytes = this.#wantsLens ? this.keyCount * LEN_BYTES : 0;
      this.#valuesLeft = total - lensBytes;
      this.#lensLeft = this.#wantsLens ? lensBytes : this.lens.length;
      // A handle's lengths may change, those of the store do not.
      if (this.#wantsLens && !isWhole) this.#seenLens = new Uint8Array(lensBytes);
      this.#beginValues(this.#valuesLeft, this.#lensLeft > 0);
      if (this.#valuesLeft === 0 && this.#lensLeft > 0) this.#batch?.part(this.#lensLeft, true);
    }
    const batch = this.#batch;
    if (frame.inlineBytes > 0) this.#streamBytes(frame.page.subarray(0, frame.inlineBytes));
    for (const part of frame.attached) this.#streamBytes(part);
    if (this.#valuesLeft > 0 || this.#wantsLens || this.lens.length === 0) return;
    batch?.add(this.lens); // `#streamBytes` has written their header
  }

  /** Undefined once the node has another connection: the rest of the response is dropped (ServedRequest.S3). */
  get #batch(): MessageBatch | undefined {
    return this.#outgoing === this.#owner.conversation.outgoing ? this.#outgoing?.batch : undefined;
  }

  #streamBytes(bytes: Uint8Array): void {
    const batch = this.#batch;
    const valueBytes = Math.min(bytes.length, this.#valuesLeft);
    if (valueBytes > 0) {
      batch?.add(valueBytes === bytes.length ? bytes : bytes.subarray(0, valueBytes));
      this.#valuesLeft -= valueBytes;
      if (this.#valuesLeft === 0 && this.#lensLeft > 0) batch?.part(this.#lensLeft, true);
    }
    if (valueBytes === bytes.length) return;
    const lens = bytes.subarray(valueBytes);
    batch?.add(lens);
    if (this.#seenLens === undefined) return;
    this.#seenLens.set(lens, this.#seenBytes);
    this.#seenBytes += lens.length;
    if (this.#seenBytes === this.#seenLens.length) this.#owner.lists.learn(this.keys, this.#seenLens, this);
  }

  /** Keeps a copy of a frame of the answer until all have arrived. */
  #gather(frame: OutgoingFrame, total: number): void {
    this.#gathered ??= Array.from({ length: this.#frameCount }, () => []);
    const isWhole = (frame.header.flags & KvFlag.WHOLE) !== 0;
    const index = isWhole ? 0 : frame.header.request - this.first;
    if (total > 0) this.#gathered[index]?.push(frame.payload());
  }

  #respondGathered(): void {
    const { conversation } = this.#owner;
    const batch = conversation.outgoing?.batch;
    const values: Uint8Array[] = [];
    const lens: Uint8Array[] = this.#wantsLens ? [] : [this.lens];
    for (const [index, parts] of (this.#gathered ?? []).entries()) {
      const whole = inOnePiece(parts);
      const lensBytes = this.#wantsLens ? this.#keysOfFrame(index, whole.length) * LEN_BYTES : 0;
      values.push(whole.subarray(0, whole.length - lensBytes));
      if (lensBytes > 0) lens.push(whole.subarray(whole.length - lensBytes));
    }
    const [valueBytes, lensBytes] = [byteCountOf(values), byteCountOf(lens)];
    const meta = this.#beginValues(valueBytes, lensBytes > 0);
    for (const part of values) batch?.attach(part);
    if (lensBytes > 0) {
      batch?.part(lensBytes, true);
      for (const part of lens) batch?.attach(part);
    }
    conversation.endMessage(meta);
  }

  /** Of a pull in several frames; an answer to all of them is at index 0. */
  #keysOfFrame(index: number, byteCount: number): number {
    if (byteCount === 0) return 0;
    const isWhole = this.#frameCount > 1 && this.#gathered?.every((parts, i) => i === 0 || parts.length === 0) === true;
    return isWhole ? this.keyCount : Math.min(PULL_KEYS_MAX, this.keyCount - index * PULL_KEYS_MAX);
  }
}

const NOTHING = new Uint8Array(0);
