// function-host — the typed functions that a node serves: finds the one that a request names, puts requests of several
// frames together, runs the handler, sends the answer. Scheduler, servers and workers differ in the context of their
// handlers, and in the memory for requests of several frames.
//
// Invariants (with PsFunction.P1 and PsFunction.P2):
//   FunctionHost.H1. A repeated update does not run again: its answer is kept until the caller has it, or its `again`
//       makes it anew. If neither is possible (a restored server) an update without a response is acknowledged, others
//       get ANSWER_LOST.
//   FunctionHost.H2. A handler that throws, or whose response does not fit its schema, fails that one call.
//   FunctionHost.H3. An answer's bytes do not change while they leave: they are held, or the answer's own; kept ones
//       are copies.
//   FunctionHost.H4. The answer to a request of several frames is kept, whatever its function: only the last frame
//       comes again, and the request cannot be put together a second time.
//   FunctionHost.H5. A late answer belongs to the conversation of its request (KeptRequest.K1).
//   FunctionHost.H6. The owner of a part answers for it: a request that waited, or is repeated, is refused if its part
//       has left.
//   FunctionHost.H7. An update without a stamp is refused: nobody could tell whether it was applied before.

import { assert } from "../base/assert.ts";
import { joinBytes } from "../base/bytes.ts";
import type { Clock } from "../base/clock.ts";
import { badArgument, badRequest, isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { missingFunction } from "../wire/failure.ts";
import { BLOCK_BYTES, type EncodedFields, type FrameHeader, type RequestLabel } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import type { Fields, FieldValues } from "../wire/function-schema.ts";
import { answerFrames, keptLabel } from "./answer.ts";
import type { Channel, FunctionHandler } from "./channel.ts";
import { type Held, INLINE_BYTES_MAX } from "./frame-batch.ts";
import { KeptRequest } from "./kept-request.ts";
import { RequestAssembly, type RequestMemory } from "./request-assembly.ts";
import type { ServedFunction } from "./served-function.ts";

/** A request's bytes, whether they came in one frame, and whether it was applied before. */
type Payload = {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly byteCount: number;
  readonly isWhole: boolean;
  readonly isAgain: boolean;
};

/** One call that is being served: what its handler knows beside the context, and the memory that its answer lies in. */
export class ServedCall {
  /** Of the request: its application, customer and command, where it is for one. Valid until the handler returns. */
  readonly label: RequestLabel;
  /** Of an update, its number in the caller's own sequence; of a request of several frames, that of the last one. */
  readonly stamp: number;
  #held: Held[] | undefined;

  constructor(label: RequestLabel, stamp = 0) {
    this.label = label;
    this.stamp = stamp;
  }

  /** For handlers in place: what they return lies in held memory, to be released when the answer has left. */
  hold(held: Held): void {
    if (this.#held === undefined) this.#held = [held];
    else this.#held.push(held);
  }

  releaseAll(): void {
    const held = this.#held;
    if (held === undefined) return;
    this.#held = undefined;
    for (const one of held) one.release();
  }

  /** One hold for so many frames of the answer: the last of them releases all. */
  heldBy(frameCount: number): Held | undefined {
    if (this.#held === undefined) return undefined;
    let left = frameCount;
    return {
      isFresh: this.#held.some(({ isFresh }) => isFresh === true),
      release: () => {
        if (--left === 0) this.releaseAll();
      },
    };
  }
}

/** Makes links that bring updates wait. */
export type UpdatePressure<C> = {
  /** Whether to call `on` at all. */
  readonly isOn: boolean;
  /** What the link that brought an update waits for, if anything. */
  on(context: C): Promise<void> | undefined;
};

/** Which requests a server answers. Handlers refuse what another server owns before they change anything. */
export type RequestOwnership = {
  /** Throws WRONG_EPOCH for a request that was cut by no placement. */
  checkEpoch(epoch: number): void;
  /** Why a late answer must not be sent, if so (FunctionHost.H6). */
  lateError(fn: { readonly name: string; readonly isUpdate: boolean }, epoch: number): WeighbridgeError | undefined;
};

export type FunctionHostOptions<C> = {
  readonly clock: Clock;
  /** Where requests of several frames are assembled, and which handlers in place can read. */
  readonly memory: RequestMemory;
  /** What handlers know of the caller. Called once for each incarnation of a node on its channel. */
  readonly contextOf: (channel: Channel) => C;
  /** Decides about functions that follow the placement; left out by nodes that own no parts. */
  readonly ownership?: RequestOwnership | undefined;
  readonly pressure?: UpdatePressure<C> | undefined;
};

/** How the answer to a call leaves. */
type Answering<C> = { readonly fn: ServedFunction<C>; readonly call: ServedCall; readonly isKept: boolean };

/** The node behind a channel. */
type Caller<C> = { readonly channel: Channel | undefined; readonly incarnation: number; readonly context: C };

export class FunctionHost<C> implements FunctionHandler {
  readonly #options: FunctionHostOptions<C>;
  /** By the hashes of their names. */
  readonly #functions = new Map<number, ServedFunction<C>>();
  /** Those with numbers of their own (Contract.C2). */
  readonly #numbered = new Map<number, ServedFunction<C>>();
  readonly assembly: RequestAssembly;
  readonly #callers = new WeakMap<Channel, Caller<C>>();
  /** The last one: a node sends many requests in a row. */
  #caller: Caller<C> | undefined;
  /** The read buffer that was last found to lie in the node's memory. */
  #readBuffer: Uint8Array | undefined;

  constructor(options: FunctionHostOptions<C>) {
    this.#options = options;
    this.assembly = new RequestAssembly(options);
  }

  /** Throws BAD_ARGUMENT when another function has this name, or one whose hash is the same. */
  add(fn: ServedFunction<C>): void {
    const taken = this.#functions.get(fn.nameHash);
    if (taken !== undefined) {
      const why = taken.name === fn.name ? "is there already" : `has the same hash as ${taken.name}: give one of them another name`;
      throw badArgument(`the function ${fn.name} ${why}`);
    }
    this.#functions.set(fn.nameHash, fn);
    if (fn.id !== FunctionId.FUNCTION) this.#numbered.set(fn.id, fn);
  }

  /** Stops serving it. A call that has begun ends normally. */
  remove(fn: ServedFunction<C>): void {
    if (this.#functions.get(fn.nameHash) !== fn) return;
    this.#functions.delete(fn.nameHash);
    this.#numbered.delete(fn.id);
  }

  /** The function of this contract, if it is served here. */
  find({ nameHash }: Contract): ServedFunction<C> | undefined {
    return this.#functions.get(nameHash);
  }

  get names(): readonly string[] {
    return [...this.#functions.values()].map(({ name }) => name).sort();
  }

  /** A node died or came back: what it left unfinished is dropped. */
  forgetNode(id: number): void {
    this.assembly.unfinished.forgetWorker(id); // RequestAssembly.G3
  }

  /** What came of unfinished requests of this node through another channel belongs to this one. */
  handOver(channel: Channel): void {
    this.assembly.unfinished.handOver(channel);
  }

  close(): void {
    this.assembly.unfinished.close();
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return header.arg3 > header.payloadBytes && header.arg2 > 0 ? this.assembly.destination(channel, header) : undefined;
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const fn = this.#find(header);
    if (fn.isUpdate && header.stamp === 0) throw unstampedError(fn.name);
    if (fn.isPlaced && header.epoch === 0) this.#options.ownership?.checkEpoch(0);
    if ((header.flags & FunctionFlag.PART) !== 0) {
      if (fresh) this.assembly.take(channel, header, bytes, at);
      channel.acknowledge(header);
      return;
    }
    const isWhole = header.arg3 === header.payloadBytes || (header.arg3 === 0 && header.functionId !== FunctionId.FUNCTION);
    const isAgain = !fresh && (fn.isUpdate || !isWhole);
    if (isAgain && fn.response.isEmpty) {
      channel.acknowledge(header);
      return;
    }
    // FunctionHost.H1, FunctionHost.H4
    if (isAgain && (fn.keepsAnswers || !isWhole))
      throw new WeighbridgeError("ANSWER_LOST", `${fn.name} was applied before, and its answer is not known any more`);
    const late = isAgain && fn.answersParts ? this.#options.ownership?.lateError(fn, header.epoch) : undefined;
    if (late !== undefined) throw late; // FunctionHost.H6
    if (isWhole) {
      const payload = { bytes, at, byteCount: header.payloadBytes, isWhole, isAgain };
      if (fn.isInPlace && bytes !== this.#readBuffer && !this.#isReadable(bytes)) this.#runCopied(fn, channel, header, payload);
      else this.#run(fn, channel, header, payload);
      return;
    }
    const whole = this.assembly.take(channel, header, bytes, at);
    assert(whole !== undefined, "the last frame completes a request, or is refused");
    try {
      this.#run(fn, channel, header, { ...whole, isWhole, isAgain });
    } finally {
      whole.release();
    }
  }

  abandon(channel: Channel, header: FrameHeader): void {
    if (header.arg3 > header.payloadBytes) this.assembly.abandon(channel, header);
  }

  nameOf({ functionId, command }: RequestLabel): string | undefined {
    return (functionId === FunctionId.FUNCTION ? this.#functions.get(command) : this.#numbered.get(functionId))?.name;
  }

  #find(header: FrameHeader): ServedFunction<C> {
    if (header.functionId !== FunctionId.FUNCTION) return this.#findNumbered(header.functionId);
    const fn = this.#functions.get(header.command);
    if (fn === undefined) throw missingFunction(this.names.filter((name) => !name.startsWith("wb/")));
    if (fn.signatureHash === header.arg0) return fn;
    const message = `the caller and this node differ in what ${fn.name} takes and gives; here it is ${fn.signature}`;
    throw new WeighbridgeError("SPEC_MISMATCH", message);
  }

  #findNumbered(functionId: number): ServedFunction<C> {
    const fn = this.#numbered.get(functionId);
    if (fn === undefined) throw new WeighbridgeError("UNKNOWN_FUNCTION", `there is no function ${functionId} on this node`);
    return fn;
  }

  /** Asking a view for its buffer costs more than a small request; a link reads into the same one again and again. */
  #isReadable(bytes: Uint8Array): boolean {
    if (!this.#options.memory.holds(bytes)) return false;
    this.#readBuffer = bytes;
    return true;
  }

  /** A link of a full server reads elsewhere: kernels need the payload in the server's memory. */
  #runCopied(fn: ServedFunction<C>, channel: Channel, header: FrameHeader, payload: Payload): void {
    const room = this.#options.memory.allocate(payload.byteCount);
    try {
      room.bytes.set(payload.bytes.subarray(payload.at, payload.at + payload.byteCount), room.at);
      this.#run(fn, channel, header, { ...payload, bytes: room.bytes, at: room.at });
    } finally {
      room.release();
    }
  }

  #run(fn: ServedFunction<C>, channel: Channel, header: FrameHeader, { bytes, at, byteCount, isWhole, isAgain }: Payload): void {
    const source = fn.isInPlace ? bytes : ownCopy(bytes, at, byteCount);
    const request = fn.request.decode(source, fn.isInPlace ? at : 0, byteCount);
    const context = this.#contextOf(channel);
    const call = new ServedCall(header, header.stamp);
    const answering = { fn, call, isKept: fn.keepsAnswers || !isWhole };
    let response: FieldValues<Fields> | Promise<FieldValues<Fields>>;
    try {
      response = isAgain ? fn.handleAgain(context, request, call) : fn.handle(context, request, call);
    } catch (thrown) {
      call.releaseAll();
      throw handlerError(fn, thrown);
    }
    if (fn.isUpdate && this.#options.pressure?.isOn === true) {
      const pressure = this.#options.pressure.on(context);
      if (pressure !== undefined) channel.holdInput(pressure);
    }
    if (!(response instanceof Promise)) {
      this.#answer(answering, channel, header, response);
      return;
    }
    const kept = new KeptRequest(channel, header);
    const { epoch } = header;
    response
      .then((given) => {
        if (!kept.isOpen) return call.releaseAll(); // FunctionHost.H5
        const late = fn.answersParts ? this.#options.ownership?.lateError(fn, epoch) : undefined;
        if (late !== undefined) throw late; // FunctionHost.H6
        channel.unpark(kept.label.request);
        this.#answer(answering, channel, kept.label, given);
      })
      .catch((thrown: unknown) => {
        call.releaseAll();
        const isOver = isWeighbridgeError(thrown, "WRONG_EPOCH") && fn.answersParts;
        kept.fail((isOver ? this.#options.ownership?.lateError(fn, epoch) : undefined) ?? handlerError(fn, thrown));
      });
  }

  #contextOf(channel: Channel): C {
    let caller = this.#caller;
    if (caller?.channel !== channel) caller = this.#callers.get(channel);
    if (caller?.incarnation !== channel.incarnation || caller.channel !== channel) {
      caller = { channel, incarnation: channel.incarnation, context: this.#options.contextOf(channel) };
      this.#callers.set(channel, caller);
    }
    this.#caller = caller;
    return caller.context;
  }

  #answer({ fn, call, isKept }: Answering<C>, channel: Channel, label: RequestLabel, response: FieldValues<Fields>): void {
    if (fn.response.isEmpty) {
      call.releaseAll();
      channel.acknowledge(label, fn.acknowledgesLater);
      return;
    }
    let encoded: EncodedFields;
    try {
      encoded = fn.response.encode(response);
    } catch (thrown) {
      call.releaseAll();
      throw new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown), { cause: thrown }); // FunctionHost.H2
    }
    if (isKept) {
      const payload = joinBytes(encoded.chunks); // FunctionHost.H3
      call.releaseAll();
      channel.answerRemembered(label.request, answerFrames(keptLabel(label), [payload]));
      return;
    }
    const [only] = encoded.chunks;
    const payload = encoded.chunks.length === 1 && only !== undefined ? only : joinBytes(encoded.chunks);
    if (payload.length <= INLINE_BYTES_MAX) {
      channel.answerCopy(label, payload, 0, payload.length);
      call.releaseAll();
      return;
    }
    const frameCount = Math.ceil(payload.length / BLOCK_BYTES);
    const held = call.heldBy(frameCount);
    for (const answer of answerFrames(keptLabel(label), [payload], held === undefined ? {} : { held })) channel.answer(answer);
  }
}

/** BAD_REQUEST: nobody could tell whether an update without a stamp was applied before (FunctionHost.H7). */
export function unstampedError(name: string): WeighbridgeError {
  return badRequest(`${name} is an update and has stamp 0; the updates of a node are stamped 1, 2, 3 …`);
}

/** In ordinary memory: what lies in the arena is shared, and not everything can work on that. */
function ownCopy(bytes: Uint8Array, at: number, byteCount: number): Uint8Array {
  const copy = new Uint8Array(byteCount);
  copy.set(bytes.subarray(at, at + byteCount));
  return copy;
}

function handlerError(fn: { readonly name: string }, thrown: unknown): WeighbridgeError {
  if (isWeighbridgeError(thrown)) return thrown;
  return new WeighbridgeError("HANDLER_FAILED", `${fn.name}: ${reasonOf(thrown)}`, { cause: thrown });
}
