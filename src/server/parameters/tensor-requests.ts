// tensor-requests — the handlers of requests about the blocks of a tensor, and rows in them, and the pushes behind
// them. A push is applied at once, or, with sync updates, waits in a round, is applied with the others as one update,
// or moves with the block's part to another server. consistency/update-rounds decides when a round is over; the tensor
// decodes and encodes values (tensor-parameter.ts). An empty list of rows means the whole block. waiting-read.ts says
// what holds for a push and pull (WaitingRead.R1, WaitingRead.R2).
//
// Gradients add up. Of updates that are values (assign, min, max) to one row the last, the least or the greatest
// counts, in the order of the pushes and then of the workers' ranks. The optimizer does the same to a row, so its
// kernel does it here.
//
// Invariants:
//   TensorPushes.T1. A push that is invalid, or refused for a NaN, changes nothing.
//   TensorPushes.T2. Sync pushes of one clock are reduced in the order of the workers' ranks, not of arrival: the same
//       bits in every run.
//   TensorPushes.T3. Applying a round cannot fail: its memory was allocated when its updates came, or with those of
//       another server.
//   TensorPushes.T4. Rows that nobody has named stay as they are, whatever the optimizer does to the others, also in a
//       round of pushes by rows. Such a row is 0 in the sum, and is skipped where values are merged.
//   TensorPushes.T5. A contribution to a block counts once in its round, however often it is loaded.
//   TensorPushes.T6. `magnitude` is an upper bound of the elements of a contribution.

import type { WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyPhases } from "../../consistency/consistency-phases.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../../contracts/tensors.ts";
import { FLOAT_BYTES } from "../../kernel/elements.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import type { RowMarks } from "../../store/block-span.ts";
import type { BlockUpdate, TensorStore } from "../../store/tensor-store.ts";
import type { ParameterUpdater } from "../../store/updaters/parameter-updater.ts";
import { FIRST_GUEST_ID, rankOf } from "../../wire/node-id.ts";
import { type ServedFunction, type ServerContext, serve } from "../server-context.ts";
import { joinedMarks, mergeBlock, type PushedBlock } from "./block-merge.ts";
import { checkScale, type ParameterHost } from "./parameter-host.ts";
import type { ServerUpdate } from "./parameter-pace.ts";
import type { OpenBlockPage, PushedAt } from "./part-state.ts";
import type { TensorParameter } from "./tensor-parameter.ts";
import { answerOfApplied, readWhenFresh } from "./waiting-read.ts";

type Values = { readonly values: ArrayBufferView };

export const TENSOR_HANDLERS: readonly ServedFunction[] = [
  serve(tensorPush, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, rows, gradients }, call) => {
      const tensor = tensorOf(context, parameter, block);
      const values =
        tensor.link === undefined && gradients instanceof Float32Array ? gradients : tensor.gradientsIn(gradients, block, rows, call);
      tensor.pushes.push({ holder: context.holder, clock, block, rows, gradients: values, scale, pushNumber });
      return {};
    },
  }),
  serve(tensorPull, {
    inPlace: true,
    handler: (context, { parameter, block, clock, rows }, call) => {
      const tensor = tensorOf(context, parameter, block);
      const read = readerOf(context, tensor, block, rows, call);
      if (tensor.clocks.isFresh(clock, tensor.phases, context.holder)) return read(rows);
      return readWhenFresh(context, tensor, { clock, list: rows, read }, call);
    },
  }),
  serve(tensorPushPull, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, pushRows, gradients, pullRows }, call) => {
      const { holder } = context;
      const tensor = tensorOf(context, parameter, block);
      const values = tensor.gradientsIn(gradients, block, pushRows, call);
      const push = (): void => tensor.pushes.push({ holder, clock, block, rows: pushRows, gradients: values, scale, pushNumber });
      const read = readerOf(context, tensor, block, pullRows, call);
      return readWhenFresh(context, tensor, { clock, list: pullRows, read }, call, push);
    },
    again: (context, { parameter, block, clock, pullRows }, call) =>
      answerOfApplied(() => {
        const tensor = tensorOf(context, parameter, block);
        const read = readerOf(context, tensor, block, pullRows, call);
        return readWhenFresh(context, tensor, { clock, list: pullRows, read }, call);
      }),
  }),
  serve(tensorStart, {
    inPlace: true,
    handler: (context, { parameter, block, values }) => {
      const tensor = tensorOf(context, parameter, block);
      tensor.checkSetter(context.holder);
      return { isTaken: tensor.start(block, values) };
    },
  }),
];

/** The tensor of a request about one of its blocks. Throws UNKNOWN_PARAMETER, UNSUPPORTED, and WRONG_OWNER. */
function tensorOf({ parameters, ownership }: ServerContext, parameter: number, block: number): TensorParameter {
  const tensor = parameters.tensors.get(parameter) ?? parameters.tensor(parameter);
  const known = tensor.store.blocks.get(block);
  if (known?.ownedEpoch === ownership.epoch) return tensor;
  ownership.checkBlock(parameter, block);
  if (known !== undefined) known.ownedEpoch = ownership.epoch;
  return tensor;
}

/** Reads a block, or rows of it, which take their room now. */
function readerOf(
  context: ServerContext,
  tensor: TensorParameter,
  block: number,
  rows: Uint32Array,
  call: ServedCall,
): (rows: Uint32Array) => Values {
  const out = rows.length === 0 && tensor.link === undefined ? 0 : tensor.roomFor(block, rows, call);
  return (list) =>
    list.length === 0 ? readBlock(tensor, block, out, context, call) : tensor.pullRows(block, list, { out, reader: context });
}

/** A whole block, held until it has left, or its encoded form, in `out`. */
function readBlock(tensor: TensorParameter, block: number, out: number, context: ServerContext, call: ServedCall): Values {
  tensor.store.notePull(block, context);
  const held = tensor.store.hold(block);
  const values = held.values as Float32Array;
  if (tensor.link === undefined || tensor.link.isPlainPull) {
    call.hold(held);
    return { values };
  }
  try {
    return { values: tensor.link.encoded(values, tensor.blockShape(block), out) };
  } finally {
    held.release();
  }
}

/** Gradients for one block, or for some of its rows. */
type BlockPush = {
  readonly holder: WorkerIncarnation;
  readonly clock: number;
  /** The number of the push among those of its worker to the tensor; all its frames have it. */
  readonly pushNumber: number;
  readonly block: number;
  /** The rows of the block that the gradients are for, each once; empty: all. */
  readonly rows: Uint32Array;
  /** In the arena, like the rows. */
  readonly gradients: Float32Array;
  readonly scale: number;
};

/** What a worker pushed at one clock to a block. */
export type BlockContributionImage = { readonly gradients: Float32Array; readonly magnitude: number; readonly named: RowMarks | undefined };

type BlockContributionOptions = {
  readonly block: number;
  readonly clock: number;
  readonly rowCount: number;
  readonly width: number;
  readonly first: PushedBlock;
};

export class TensorPushes {
  readonly #tensor: TensorParameter;
  readonly #host: ParameterHost;
  readonly #phases: ConsistencyPhases;
  readonly #updater: ParameterUpdater;
  readonly #store: TensorStore;
  /** By block: its number in the pacer. */
  readonly #roundIds = new Map<number, number>();

  constructor(tensor: TensorParameter) {
    this.#tensor = tensor;
    this.#host = tensor.host;
    this.#phases = tensor.phases;
    this.#updater = tensor.updater;
    this.#store = tensor.store;
  }

  /** Throws OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE, ARENA_FULL, STALE_UPDATE, NOT_JOINED, FENCED or QUEUE_FULL. */
  push(push: BlockPush): void {
    if (push.holder.worker >= FIRST_GUEST_ID) {
      this.#take({ ...push, clock: this.#tensor.guestClock(push.holder) });
      return;
    }
    if (this.#tensor.countsSteps) {
      this.#tensor.counted(push, () => this.#take(push));
      return;
    }
    this.#host.pacer.clocks.checkUpdate(push.holder, push.clock);
    this.#take(push);
  }

  /** Whether anybody has pushed to the block. */
  has(block: number): boolean {
    return this.#roundIds.has(block);
  }

  /** Puts a push of a worker that may push now into its round, or applies it. */
  #take(push: BlockPush): void {
    const { block, clock, rows, gradients } = push;
    if (rows.length > 0) {
      this.#takeRows(push);
      return;
    }
    if (gradients.length !== this.#store.blocks.get(block)?.floatCount) this.#tensor.checkLength(block, gradients.length);
    const magnitude = this.#admit(push);
    if (magnitude === undefined) return;
    if (this.#waits(clock)) this.#enterRound(push, { address: gradients.byteOffset, magnitude, named: undefined });
    else this.#store.update(block, this.#updateOf(push, magnitude));
  }

  #takeRows(push: BlockPush): void {
    const { block, clock, rows, gradients } = push;
    const { width } = this.#store.shape;
    this.#tensor.checkRows(block, rows);
    if (gradients.length !== rows.length * width) throw this.#tensor.wrongLength(gradients.length, "values", rows.length * width);
    const magnitude = this.#admit(push);
    if (magnitude === undefined) return;
    if (!this.#waits(clock)) {
      this.#store.updateRows(block, { ...this.#updateOf(push, magnitude), rows: rows.byteOffset, listed: rows.length });
      return;
    }
    const { arena, kernels, indexes } = this.#host;
    const byteCount = this.#store.shape.floatsOf(block) * FLOAT_BYTES;
    // A sparse gradient joins the round of its block as one that is 0 elsewhere.
    const whole = arena.allocateBulk(byteCount);
    try {
      kernels.zero(whole, byteCount);
      indexes.scatterByIndex(gradients.byteOffset, rows.byteOffset, rows.length, width, whole);
      const named = new Uint8Array(byteCount / FLOAT_BYTES / width);
      for (const row of rows) named[row] = 1;
      this.#enterRound(push, { address: whole, magnitude, named });
    } finally {
      arena.release(whole, byteCount);
    }
  }

  /**
   * An upper bound of the elements of a push; undefined if the optimizer skips it. Throws NOT_FINITE (TensorPushes.T1).
   */
  #admit({ clock, gradients, scale }: BlockPush): number | undefined {
    const phases = this.#phases;
    if (scale !== 1) checkScale(scale, this.#tensor.spec);
    if (clock > phases.clockTop) phases.clockTop = clock;
    return this.#updater.admit(gradients.byteOffset, gradients.length);
  }

  /** Whether pushes at this clock wait for those of other workers. */
  #waits(clock: number): boolean {
    const phases = this.#phases;
    return (phases.constant ?? phases.at(clock)).updates === "sync";
  }

  /** Throws ARENA_FULL, QUEUE_FULL, and as the pacer if the worker may not push now; nothing is kept then. */
  #enterRound({ holder, clock, block, scale }: PushedAt & { readonly block: number; readonly scale: number }, pushed: PushedBlock): void {
    const { pacer, arena, kernels } = this.#host;
    const store = this.#store;
    const roundKey = { ...holder, parameter: this.#roundIdOf(block), clock };
    const floatCount = store.blocks.get(block)?.floatCount ?? store.shape.floatsOf(block);
    const byteCount = floatCount * FLOAT_BYTES;
    const known = pacer.rounds.find(roundKey);
    if (known === undefined) pacer.rounds.checkRoom(roundKey, byteCount);
    store.touch(block, pushed.named !== undefined); // TensorPushes.T3
    if (known instanceof BlockContribution) {
      known.join(pushed, scale);
      return;
    }
    const address = arena.allocateBulk(byteCount);
    if (scale === 1) kernels.copy(address, pushed.address, byteCount);
    else {
      kernels.zero(address, byteCount);
      kernels.axpy(address, pushed.address, scale, floatCount);
    }
    const first = { address, magnitude: pushed.magnitude * Math.abs(scale), named: pushed.named };
    pacer.rounds.put(roundKey, this.#first(block, clock, first), byteCount);
  }

  /** Copies the open rounds of these blocks. */
  *save(blocks: Iterable<number>): Iterable<OpenBlockPage> {
    for (const block of blocks) {
      const roundId = this.#roundIds.get(block);
      if (roundId === undefined) continue;
      for (const { clock, worker, incarnation, handle } of this.#host.pacer.rounds.openOf(roundId)) {
        if (!(handle instanceof BlockContribution)) continue;
        yield { kind: "openBlock", block, holder: { worker, incarnation }, clock, image: handle.save() };
      }
    }
  }

  /** TensorPushes.T5. Throws ARENA_FULL, STALE_UPDATE for a round that is over here, QUEUE_FULL. */
  load({ block, holder, clock, image }: OpenBlockPage): void {
    const { arena, pacer } = this.#host;
    const { byteLength } = image.gradients;
    const roundKey = { ...holder, parameter: this.#roundIdOf(block), clock };
    pacer.rounds.find(roundKey);
    this.#store.touch(block, image.named !== undefined); // TensorPushes.T3
    const address = arena.allocateBulk(byteLength);
    arena.floats.set(image.gradients, address >>> 2);
    const first = { address, magnitude: image.magnitude, named: image.named?.slice() };
    try {
      pacer.adopt(roundKey, this.#first(block, clock, first), byteLength);
    } catch (thrown) {
      arena.release(address, byteLength);
      throw thrown;
    }
  }

  /** Drops the open rounds of a block. */
  drop(block: number): void {
    const roundId = this.#roundIds.get(block);
    if (roundId !== undefined) this.#host.pacer.dropRounds(roundId);
    this.#roundIds.delete(block);
  }

  /** The tensor is removed. */
  forget(error: WeighbridgeError): void {
    for (const roundId of this.#roundIds.values()) this.#host.pacer.forget(roundId, error);
  }

  /** A round: one step, which takes over the gradient's memory. A sum that is not finite is dropped. */
  applyRound(index: number, update: Omit<BlockUpdate, "pushCount">, named: RowMarks | undefined): void {
    const { floatCount } = this.#store.block(index);
    const { gradients, magnitude: bound = Infinity, scheduleStep } = update;
    if (this.#tensor.countsSteps) this.#tensor.countRound(scheduleStep);
    const magnitude = this.#updater.admitSum(gradients, floatCount, bound);
    if (magnitude === undefined) this.#host.arena.release(gradients, floatCount * FLOAT_BYTES);
    else this.#store.updateOwned(index, { ...update, magnitude, pushCount: this.#tensor.step }, named);
  }

  #updateOf({ holder, clock, gradients, scale }: BlockPush, magnitude: number): BlockUpdate {
    const at = { gradientScale: scale, scheduleStep: clock, workerRank: rankOf(holder.worker) };
    return { ...at, gradients: gradients.byteOffset, magnitude, pushCount: this.#tensor.step };
  }

  #first(block: number, clock: number, first: PushedBlock): BlockContribution {
    const { width } = this.#updater;
    const rowCount = this.#store.block(block).floatCount / width;
    return new BlockContribution(this.#tensor, this.#host, { block, clock, rowCount, width, first });
  }

  #roundIdOf(block: number): number {
    const known = this.#roundIds.get(block);
    if (known !== undefined) return known;
    const roundId = this.#host.nextPacerId();
    this.#roundIds.set(block, roundId);
    return roundId;
  }
}

/** What one worker pushed at one clock to a block, until its round is complete. */
class BlockContribution implements ServerUpdate {
  readonly address: number;
  readonly #tensor: TensorParameter;
  readonly #host: ParameterHost;
  readonly #options: BlockContributionOptions;
  /** TensorPushes.T4. Undefined once all rows are named. */
  #named: RowMarks | undefined;
  /** TensorPushes.T6 */
  #magnitude: number;

  /** Takes over the memory of its first push. */
  constructor(tensor: TensorParameter, host: ParameterHost, options: BlockContributionOptions) {
    this.#tensor = tensor;
    this.#host = host;
    this.#options = options;
    this.address = options.first.address;
    this.#named = options.first.named;
    this.#magnitude = options.first.magnitude;
  }

  /** Adds another push of the same clock, times `scale`. */
  join(pushed: PushedBlock, scale = 1): void {
    const { merge } = this.#tensor;
    if (merge === undefined) this.#host.kernels.axpy(this.address, pushed.address, scale, this.#floatCount);
    else mergeBlock(this.#host, merge, { ...this.#options, address: this.address, named: this.#named }, pushed);
    this.#magnitude =
      merge === undefined ? this.#magnitude + pushed.magnitude * Math.abs(scale) : Math.max(this.#magnitude, pushed.magnitude);
    this.#named = joinedMarks(this.#named, pushed.named);
  }

  /** In the order of the contributions (TensorPushes.T2). */
  applyRound({ contributions }: CompleteRound<ServerUpdate>): void {
    const { block, clock } = this.#options;
    for (const { handle } of contributions) {
      if (handle === this || !(handle instanceof BlockContribution)) continue;
      this.join({ address: handle.address, magnitude: handle.#magnitude, named: handle.#named });
      handle.free();
    }
    const { phases } = this.#tensor;
    const isMean = (phases.constant ?? phases.at(clock)).reduce === "mean";
    const gradientScale = isMean ? 1 / Math.max(contributions.length, this.#tensor.pusherCount(clock)) : 1;
    const update = { gradients: this.address, gradientScale, scheduleStep: clock, workerRank: undefined, magnitude: this.#magnitude };
    this.#tensor.pushes.applyRound(block, update, this.#named);
  }

  /** A copy. */
  save(): BlockContributionImage {
    const from = this.address >>> 2;
    const gradients = new Float32Array(this.#host.arena.floats.subarray(from, from + this.#floatCount));
    return { gradients, magnitude: this.#magnitude, named: this.#named?.slice() };
  }

  free(): void {
    this.#host.arena.release(this.address, this.#floatCount * FLOAT_BYTES);
  }

  get #floatCount(): number {
    return this.#options.rowCount * this.#options.width;
  }
}
