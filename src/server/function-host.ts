// function-host — the PS functions of a server: finds the one a request names, runs its handler, sends the answer.
//
// Invariants (P1, P2 of contracts/ps-function.ts):
//   H1. An update that came before is not run again: its answer is kept until the worker has it, or made anew by its `again`. If it is not
//       known any more (a restored server) an update without a response is acknowledged, any other fails with ANSWER_LOST.
//   H2. A handler that throws, or whose response does not fit its schema, fails that one call.
//   H3. An answer's bytes do not change while they leave: they are held or the answer's own; those that are kept are copies.
//   H4. The answer to a request of several frames is kept, whatever its function: only the last frame comes again when it was lost, and the
//       request cannot be put together a second time.

import type { Clock } from "../base/clock.ts";
import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../base/errors.ts";
import { joinBytes } from "../base/join-bytes.ts";
import type { WorkerLife } from "../consistency/worker-lives.ts";
import type { TableRow, TensorBlock } from "../contracts/function-context.ts";
import { Answer, keptLabel, labelOf, type RequestLabel } from "../peer/answer.ts";
import type { Channel, FunctionHandler } from "../peer/channel.ts";
import { type Held, INLINE_BYTES_MAX } from "../peer/frame-batch.ts";
import { BLOCK_BYTES, type FrameHeader } from "../wire/frame.ts";
import { FunctionFlag } from "../wire/function-frame.ts";
import type { EncodedFields, Fields, FieldValues } from "../wire/function-schema.ts";
import { rankOf } from "../wire/node-id.ts";
import { RequestGathering } from "./request-gathering.ts";
import type { ServedFunction } from "./served-function.ts";
import type { FunctionState, ServerContext } from "./server-context.ts";

/** A request's bytes, whether they came in one frame, and whether it was applied before. */
type Payload = {
  readonly bytes: Uint8Array;
  readonly at: number;
  readonly byteCount: number;
  readonly isWhole: boolean;
  readonly isAgain: boolean;
};

/** How the answer to a call leaves. */
type Answering = { readonly fn: ServedFunction; readonly context: CallContext; readonly isKept: boolean };

export class FunctionHost implements FunctionHandler {
  readonly #state: FunctionState;
  readonly #functions = new Map<number, ServedFunction>();
  readonly #gathering: RequestGathering;
  readonly #own = new Map<string, object>();
  /** The read buffer that was last found to lie in the arena. */
  #readBuffer: Uint8Array | undefined;

  constructor(state: FunctionState, clock: Clock) {
    this.#state = state;
    this.#gathering = new RequestGathering(state.arena, clock);
  }

  /** Throws BAD_ARGUMENT when another function has this name, or one whose hash is the same. */
  add(fn: ServedFunction): void {
    const taken = this.#functions.get(fn.nameHash);
    if (taken !== undefined) {
      const why = taken.name === fn.name ? "is there already" : `has the same hash as ${taken.name}: give one of them another name`;
      throw new WeighbridgeError("BAD_ARGUMENT", `the function ${fn.name} ${why}`);
    }
    this.#functions.set(fn.nameHash, fn);
  }

  get names(): readonly string[] {
    return [...this.#functions.values()].map(({ name }) => name).sort();
  }

  /** A worker died or came back: what it left unfinished is dropped. */
  forgetWorker(id: number): void {
    this.#gathering.forgetWorker(id);
  }

  close(): void {
    this.#gathering.close();
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return header.arg3 > header.payloadBytes && header.arg2 > 0 ? this.#gathering.destination(channel, header) : undefined;
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const fn = this.#find(header);
    if ((header.flags & FunctionFlag.PART) !== 0) {
      if (fresh && this.#gathering.take(channel, header, bytes, at) !== undefined) throw bad(fn, "is complete before its last part");
      channel.acknowledge(header);
      return;
    }
    const isWhole = header.arg3 === header.payloadBytes;
    const isAgain = !fresh && (fn.isUpdate || !isWhole);
    if (isAgain && fn.response.isEmpty) {
      channel.acknowledge(header);
      return;
    }
    if (isAgain && (fn.keepsAnswers || !isWhole))
      throw new WeighbridgeError("ANSWER_LOST", `${fn.name} was applied before, and its answer is not known any more`); // H1, H4
    if (isWhole) {
      const payload = { bytes, at, byteCount: header.payloadBytes, isWhole, isAgain };
      if (fn.isInPlace && bytes !== this.#readBuffer && !this.#isInArena(bytes)) this.#runCopied(fn, channel, header, payload);
      else this.#run(fn, channel, header, payload);
      return;
    }
    const gathered = this.#gathering.take(channel, header, bytes, at);
    if (gathered === undefined) throw bad(fn, "ends before it is complete");
    try {
      const { address, byteCount } = gathered;
      this.#run(fn, channel, header, { bytes: this.#state.arena.bytes, at: address, byteCount, isWhole, isAgain });
    } finally {
      gathered.release();
    }
  }

  nameOf({ command }: RequestLabel): string | undefined {
    return this.#functions.get(command)?.name;
  }

  #find(header: FrameHeader): ServedFunction {
    const fn = this.#functions.get(header.command);
    if (fn === undefined) {
      const known = this.names.filter((name) => !name.startsWith("wb/"));
      const others = known.length === 0 ? "it has none of its own: is --functions set?" : `it has ${known.join(", ")}`;
      throw new WeighbridgeError("UNKNOWN_FUNCTION", `this server has no function with the name that was called; ${others}`);
    }
    if (fn.signatureHash !== header.arg0) {
      throw new WeighbridgeError(
        "SPEC_MISMATCH",
        `the caller and this server differ in what ${fn.name} takes and gives; here it is ${fn.signature}`,
      );
    }
    return fn;
  }

  /** Asking a view for its buffer costs more than a small request; a link reads into the same one again and again. */
  #isInArena(bytes: Uint8Array): boolean {
    if (bytes.buffer !== this.#state.arena.bytes.buffer) return false;
    this.#readBuffer = bytes;
    return true;
  }

  /** A link of a full server reads elsewhere: kernels need the payload in the arena. */
  #runCopied(fn: ServedFunction, channel: Channel, header: FrameHeader, payload: Payload): void {
    const { arena } = this.#state;
    const size = Math.max(1, payload.byteCount);
    const address = arena.allocate(size);
    try {
      arena.bytes.set(payload.bytes.subarray(payload.at, payload.at + payload.byteCount), address);
      this.#run(fn, channel, header, { ...payload, bytes: arena.bytes, at: address });
    } finally {
      arena.release(address, size);
    }
  }

  #run(fn: ServedFunction, channel: Channel, header: FrameHeader, { bytes, at, byteCount, isWhole, isAgain }: Payload): void {
    const source = fn.isInPlace ? bytes : ownCopy(bytes, at, byteCount);
    const request = fn.request.decode(source, fn.isInPlace ? at : 0, byteCount);
    const context = new CallContext(this.#state, { worker: channel.id, incarnation: channel.incarnation }, this.#own);
    const answering = { fn, context, isKept: fn.keepsAnswers || !isWhole };
    let response: FieldValues<Fields> | Promise<FieldValues<Fields>>;
    try {
      response = isAgain ? fn.handleAgain(context, request) : fn.handle(context, request);
    } catch (thrown) {
      context.releaseAll();
      throw handlerError(fn, thrown);
    }
    const pressure = fn.isUpdate ? this.#state.checkpoints.pressureOn(context.life) : undefined;
    if (pressure !== undefined) channel.holdInput(pressure);
    if (!(response instanceof Promise)) {
      this.#answer(answering, channel, header, response);
      return;
    }
    const label = labelOf(header);
    channel.park(label.request);
    response
      .then((late) => {
        channel.unpark(label.request);
        this.#answer(answering, channel, label, late);
      })
      .catch((thrown: unknown) => {
        context.releaseAll();
        channel.fail(label, handlerError(fn, thrown));
      });
  }

  #answer({ fn, context, isKept }: Answering, channel: Channel, label: RequestLabel, response: FieldValues<Fields>): void {
    if (fn.response.isEmpty) {
      context.releaseAll();
      channel.acknowledge(label);
      return;
    }
    let encoded: EncodedFields;
    try {
      encoded = fn.response.encode(response);
    } catch (thrown) {
      context.releaseAll();
      throw new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown), { cause: thrown }); // H2
    }
    if (isKept) {
      const payload = joinBytes(encoded.chunks); // H3
      context.releaseAll();
      channel.answerRemembered(
        label.request,
        cutAnswer(keptLabel(label), payload, () => undefined),
      );
      return;
    }
    const [only] = encoded.chunks;
    const payload = encoded.chunks.length === 1 && only !== undefined ? only : joinBytes(encoded.chunks);
    if (payload.length <= INLINE_BYTES_MAX) {
      channel.answerCopy(label, payload, 0, payload.length);
      context.releaseAll();
      return;
    }
    const frameCount = Math.ceil(payload.length / BLOCK_BYTES);
    const held = context.heldBy(frameCount);
    for (const answer of cutAnswer(keptLabel(label), payload, () => held)) channel.answer(answer);
  }
}

class CallContext implements ServerContext {
  readonly arena: FunctionState["arena"];
  readonly kernels: FunctionState["kernels"];
  readonly parameters: FunctionState["parameters"];
  readonly groups: FunctionState["groups"];
  readonly checkpoints: FunctionState["checkpoints"];
  readonly worker: number;
  readonly life: WorkerLife;
  readonly #own: Map<string, object>;
  #held: Held[] | undefined;

  constructor({ arena, kernels, parameters, groups, checkpoints }: FunctionState, life: WorkerLife, own: Map<string, object>) {
    this.arena = arena;
    this.kernels = kernels;
    this.parameters = parameters;
    this.groups = groups;
    this.checkpoints = checkpoints;
    this.worker = rankOf(life.worker);
    this.life = life;
    this.#own = own;
  }

  rowsOf(table: string): Iterable<TableRow> {
    return this.parameters.tableOf(table).rows();
  }

  blocksOf(tensor: string): Iterable<TensorBlock> {
    return this.parameters.tensorOf(tensor).blocks((block) => this.checkpoints.ownsBlock(tensor, block));
  }

  own<T extends object>(name: string, create: () => T): T {
    const known = this.#own.get(name);
    if (known !== undefined) return known as T;
    const made = create();
    this.#own.set(name, made);
    return made;
  }

  hold(held: Held): void {
    this.#held ??= [];
    this.#held.push(held);
  }

  releaseAll(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const one of held) one.release();
  }

  /** One hold for so many frames: the last of them releases all. */
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

function cutAnswer(label: RequestLabel, payload: Uint8Array, heldOf: () => Held | undefined): Answer[] {
  const totalBytes = payload.length;
  const answers: Answer[] = [];
  for (let offsetBytes = 0; offsetBytes === 0 || offsetBytes < totalBytes; offsetBytes += BLOCK_BYTES) {
    const part = payload.subarray(offsetBytes, Math.min(totalBytes, offsetBytes + BLOCK_BYTES));
    const held = heldOf();
    answers.push(new Answer(label, { payload: part, totalBytes, offsetBytes, ...(held === undefined ? {} : { held }) }));
  }
  return answers;
}

/** In ordinary memory: what lies in the arena is shared, and not everything can work on that. */
function ownCopy(bytes: Uint8Array, at: number, byteCount: number): Uint8Array {
  const copy = new Uint8Array(byteCount);
  copy.set(bytes.subarray(at, at + byteCount));
  return copy;
}

function handlerError(fn: ServedFunction, thrown: unknown): WeighbridgeError {
  if (isWeighbridgeError(thrown)) return thrown;
  return new WeighbridgeError("HANDLER_FAILED", `${fn.name}: ${reasonOf(thrown)}`, { cause: thrown });
}

function bad(fn: ServedFunction, what: string): WeighbridgeError {
  return new WeighbridgeError("BAD_REQUEST", `a request of ${fn.name} ${what}`);
}
