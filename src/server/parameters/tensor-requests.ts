// tensor-requests — what requests about the blocks of a tensor, and about rows in them, do on a server: their handlers, and
// the pushes behind them. A push is one update now, or with sync updates waits in a round until everybody's has come, is
// applied with the others as one update, or moves with the block's part to another server. Not the decision when a round
// is over (consistency/update-rounds), nor what the optimizer makes of it, nor how values travel: the tensor gives them
// as they are meant (tensor-parameter.ts). A list of rows that is empty means the whole block.
//
// Gradients add up. Updates that are values (assign, min, max) do not: of what is pushed to one row the last, the least
// or the greatest counts, in the order of the pushes and then of the workers' ranks. That is what the optimizer itself
// does to a row, so its kernel does it here.
//
// Invariants:
//   TensorHandlers.R1. Rows that do not exist and memory that is not there are found out before the push of a push and
//       pull.
//   TensorHandlers.R2. What is found out later, or when a push and pull is answered again, is ANSWER_LOST.
//   TensorPushes.T1. A push that makes no sense, or is refused for a NaN, changes nothing.
//   TensorPushes.T2. Sync pushes of one clock are put together in the order of the workers' ranks, whatever the order of arrival: the same bits in every run.
//   TensorPushes.T3. Applying a round cannot fail: what it needs was taken when its updates came, or came from another server.
//   TensorPushes.T4. Rows that nobody has named stay as they are, whatever the optimizer does to the others; also in a round to which all pushed rows. Such a
//       row is 0 in the sum, and is not looked at where values are put together.
//   TensorPushes.T5. A contribution to a block is in its round once, however often it is loaded.
//   TensorPushes.T6. `magnitude` is at least what any element of a contribution is.

import { assert } from "../../base/assert.ts";
import type { WeighbridgeError } from "../../base/errors.ts";
import type { ConsistencyPhases } from "../../consistency/consistency-phases.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import { tensorPull, tensorPush, tensorPushPull, tensorStart } from "../../contracts/tensors.ts";
import type { MergeNumber } from "../../kernel/duplicate-kernels.ts";
import type { ServedCall } from "../../peer/function-host.ts";
import { type RowMarks, runsOf } from "../../store/block-span.ts";
import type { BlockUpdate, TensorStore } from "../../store/tensor-store.ts";
import type { ParameterUpdater } from "../../store/updaters/parameter-updater.ts";
import { rankOf } from "../../wire/node-id.ts";
import { answerOfApplied, type ServedFunction, serve } from "../served-function.ts";
import type { ServerContext } from "../server-context.ts";
import { checkScale, type ParameterHost } from "./parameter-host.ts";
import type { ServerUpdate } from "./parameter-pace.ts";
import type { OpenBlockPage, PushedAt } from "./part-state.ts";
import type { TensorParameter } from "./tensor-parameter.ts";

const FLOAT_BYTES = 4;

type Reading = { readonly block: number; readonly clock: number; readonly rows: Uint32Array };
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
    handler: (context, { parameter, block, clock, rows }, call) =>
      read(context, tensorOf(context, parameter, block), { block, clock, rows }, call),
  }),
  serve(tensorPushPull, {
    inPlace: true,
    handler: (context, { parameter, block, clock, pushNumber, scale, pushRows, gradients, pullRows }, call) => {
      const { holder } = context;
      const tensor = tensorOf(context, parameter, block);
      const values = tensor.gradientsIn(gradients, block, pushRows, call);
      const push = (): void => tensor.pushes.push({ holder, clock, block, rows: pushRows, gradients: values, scale, pushNumber });
      return read(context, tensor, { block, clock, rows: pullRows }, call, push);
    },
    again: (context, { parameter, block, clock, pullRows }, call) =>
      answerOfApplied(() => read(context, tensorOf(context, parameter, block), { block, clock, rows: pullRows }, call)),
  }),
  serve(tensorStart, {
    inPlace: true,
    handler: (context, { parameter, block, values }) => ({ isTaken: tensorOf(context, parameter, block).start(block, values) }),
  }),
];

/**
 * The tensor that a request about one of its blocks is for. Throws UNKNOWN_PARAMETER, UNSUPPORTED, and WRONG_OWNER
 * unless the block is this server's.
 */
function tensorOf({ parameters, ownership }: ServerContext, parameter: number, block: number): TensorParameter {
  const tensor = parameters.tensors.get(parameter) ?? parameters.tensor(parameter);
  const known = tensor.store.blocks.get(block);
  if (known?.ownedEpoch === ownership.epoch) return tensor;
  ownership.checkBlock(parameter, block);
  if (known !== undefined) known.ownedEpoch = ownership.epoch;
  return tensor;
}

/** Whether a read at this clock may be answered now (W2). */
function isFresh({ clocks, phases }: TensorParameter, clock: number): boolean {
  return clocks.clockMin >= clock - (phases.constant ?? phases.at(clock)).staleness;
}

/**
 * A block or rows of it, now or as soon as the reader's clock allows it; `push` comes before that, and is not done if
 * they cannot be read (TensorHandlers.R1).
 */
function read(
  context: ServerContext,
  tensor: TensorParameter,
  { block, clock, rows }: Reading,
  call: ServedCall,
  push?: () => void,
): Values | Promise<Values> {
  const out = rows.length === 0 && tensor.link === undefined ? 0 : tensor.roomFor(block, rows, call);
  const readOf = (list: Uint32Array): Values =>
    list.length === 0 ? readBlock(tensor, block, out, context, call) : tensor.pullRows(block, list, { out, reader: context });
  if (isFresh(tensor, clock)) {
    if (push === undefined) return readOf(rows);
    push();
    return answerOfApplied(() => readOf(rows)); // TensorHandlers.R2
  }
  const list = rows.length === 0 ? rows : keptRows(tensor, rows, call);
  const parked = { holder: context.holder, clock, bytes: rows.byteLength };
  const readLater = (): Values | Promise<Values> => tensor.whenFresh(parked, () => readOf(list));
  if (push === undefined) return readLater();
  push();
  return answerOfApplied(readLater); // TensorHandlers.R2
}

/** A copy: the frame is gone when the wait is over. */
function keptRows(tensor: TensorParameter, rows: Uint32Array, call: ServedCall): Uint32Array {
  const kept = tensor.keep(rows);
  call.hold(kept);
  return kept.list;
}

/** A whole block, which is held until it has left, or what carries it, in `out`. */
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
export type BlockPush = {
  readonly holder: WorkerIncarnation;
  readonly clock: number;
  /** Of the push among those of its worker to the tensor; all its frames have it. */
  readonly pushNumber: number;
  readonly block: number;
  /** Those of the block that the gradients are for, each once; none: all. */
  readonly rows: Uint32Array;
  /** In the arena, as the rows. */
  readonly gradients: Float32Array;
  readonly scale: number;
};

/** A block's gradient or values in the arena, and which of its rows a push names; left out: all. */
export type PushedBlock = { readonly address: number; readonly magnitude: number; readonly named: RowMarks | undefined };

/** What a worker pushed at one clock to a block; `named` as of a PushedBlock. */
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
  /** By block: its number among all that is reduced as one. */
  readonly #units = new Map<number, number>();

  constructor(tensor: TensorParameter) {
    this.#tensor = tensor;
    this.#host = tensor.host;
    this.#phases = tensor.phases;
    this.#updater = tensor.updater;
    this.#store = tensor.store;
  }

  /** Throws OUT_OF_RANGE, VALUE_LENGTH, NOT_FINITE, ARENA_FULL, and for who may not push now STALE_UPDATE, NOT_JOINED, FENCED or QUEUE_FULL. */
  push(push: BlockPush): void {
    if (this.#tensor.countsSteps) {
      this.#tensor.counted(push, () => this.#take(push));
      return;
    }
    this.#host.pacer.clocks.checkUpdate(push.holder, push.clock);
    this.#take(push);
  }

  /** Whether anybody has pushed to the block. */
  has(block: number): boolean {
    return this.#units.has(block);
  }

  /** Gathers a push of a worker that may push now, or applies it. */
  #take(push: BlockPush): void {
    const { block, clock, rows, gradients } = push;
    if (rows.length > 0) {
      this.#takeRows(push);
      return;
    }
    if (gradients.length !== this.#store.blocks.get(block)?.floatCount) this.#tensor.checkLength(block, gradients.length);
    const magnitude = this.#admit(push);
    if (magnitude === undefined) return;
    if (this.#waits(clock)) this.#gather(push, { address: gradients.byteOffset, magnitude, named: undefined });
    else this.#store.update(block, this.#updateOf(push, magnitude));
  }

  #takeRows(push: BlockPush): void {
    const { block, clock, rows, gradients } = push;
    const { width } = this.#store.shape;
    this.#tensor.checkRows(block, rows);
    if (gradients.length !== rows.length * width) throw this.#tensor.wrongLength(gradients.length, rows.length * width);
    const magnitude = this.#admit(push);
    if (magnitude === undefined) return;
    if (!this.#waits(clock)) {
      this.#store.updateRows(block, { ...this.#updateOf(push, magnitude), rows: rows.byteOffset, listed: rows.length });
      return;
    }
    const { arena, kernels, indexes } = this.#host;
    const byteCount = this.#store.shape.floatsOf(block) * FLOAT_BYTES;
    const whole = arena.tryAllocateBeyond(byteCount) || arena.allocate(byteCount); // a sparse gradient joins the round of its block as one that is 0 elsewhere
    try {
      kernels.zero(whole, byteCount);
      indexes.scatterByIndex(gradients.byteOffset, rows.byteOffset, rows.length, width, whole);
      const named = new Uint8Array(byteCount / FLOAT_BYTES / width);
      for (const row of rows) named[row] = 1;
      this.#gather(push, { address: whole, magnitude, named });
    } finally {
      arena.release(whole, byteCount);
    }
  }

  /** How large the elements of a push are at most; undefined where the optimizer skips it. Throws NOT_FINITE (TensorPushes.T1). */
  #admit({ clock, gradients, scale }: BlockPush): number | undefined {
    const phases = this.#phases;
    if (scale !== 1) checkScale(scale, this.#tensor.spec);
    if (clock > phases.clockTop) phases.clockTop = clock;
    return this.#updater.admit(gradients.byteOffset, gradients.length);
  }

  /** Whether what is pushed at this clock waits for what other workers push. */
  #waits(clock: number): boolean {
    const phases = this.#phases;
    return (phases.constant ?? phases.at(clock)).updates === "sync";
  }

  /** Throws ARENA_FULL, QUEUE_FULL, and for who may not push now as the pacer does; nothing gathered. */
  #gather({ holder, clock, block, scale }: PushedAt & { readonly block: number; readonly scale: number }, pushed: PushedBlock): void {
    const { pacer, arena, kernels } = this.#host;
    const store = this.#store;
    const stamp = { ...holder, parameter: this.#unitOf(block), clock };
    const floatCount = store.blocks.get(block)?.floatCount ?? store.shape.floatsOf(block);
    const byteCount = floatCount * FLOAT_BYTES;
    const known = pacer.rounds.find(stamp);
    if (known === undefined) pacer.rounds.checkRoom(stamp, byteCount);
    store.touch(block, pushed.named !== undefined); // TensorPushes.T3
    if (known instanceof BlockContribution) {
      known.join(pushed, scale);
      return;
    }
    const address = arena.tryAllocateBeyond(byteCount) || arena.allocate(byteCount);
    if (scale === 1) kernels.copy(address, pushed.address, byteCount);
    else {
      kernels.zero(address, byteCount);
      kernels.axpy(address, pushed.address, scale, floatCount);
    }
    const first = { address, magnitude: pushed.magnitude * Math.abs(scale), named: pushed.named };
    pacer.rounds.put(stamp, this.#first(block, clock, first), byteCount);
  }

  /** What waits for these blocks, copied. */
  *save(blocks: Iterable<number>): Iterable<OpenBlockPage> {
    for (const block of blocks) {
      const unit = this.#units.get(block);
      if (unit === undefined) continue;
      for (const { clock, worker, incarnation, handle } of this.#host.pacer.rounds.openOf(unit)) {
        if (!(handle instanceof BlockContribution)) continue;
        yield { kind: "openBlock", block, holder: { worker, incarnation }, clock, image: handle.save() };
      }
    }
  }

  /** TensorPushes.T5. Throws ARENA_FULL, STALE_UPDATE for a round that is over here, QUEUE_FULL. */
  load({ block, holder, clock, image }: OpenBlockPage): void {
    const { arena, pacer } = this.#host;
    const { byteLength } = image.gradients;
    const stamp = { ...holder, parameter: this.#unitOf(block), clock };
    pacer.rounds.find(stamp);
    this.#store.touch(block, image.named !== undefined); // TensorPushes.T3
    const address = arena.tryAllocateBeyond(byteLength) || arena.allocate(byteLength);
    arena.floats.set(image.gradients, address >>> 2);
    const first = { address, magnitude: image.magnitude, named: image.named?.slice() };
    try {
      pacer.adopt(stamp, this.#first(block, clock, first), byteLength);
    } catch (thrown) {
      arena.release(address, byteLength);
      throw thrown;
    }
  }

  /** What was gathered for a block counts here no more. */
  drop(block: number): void {
    const unit = this.#units.get(block);
    if (unit !== undefined) this.#host.pacer.dropRounds(unit);
    this.#units.delete(block);
  }

  /** The tensor is no more. */
  forget(error: WeighbridgeError): void {
    for (const unit of this.#units.values()) this.#host.pacer.forget(unit, error);
  }

  /** A round: one step, with a gradient whose memory is given away. A sum that is not finite is none. */
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

  #unitOf(block: number): number {
    const known = this.#units.get(block);
    if (known !== undefined) return known;
    const unit = this.#host.nextUnit();
    this.#units.set(block, unit);
    return unit;
  }
}

/** What one worker pushed at one clock to a block, until everybody's has come. */
class BlockContribution implements ServerUpdate {
  readonly address: number;
  readonly #tensor: TensorParameter;
  readonly #host: ParameterHost;
  readonly #place: BlockContributionOptions;
  /** TensorPushes.T4. Undefined once all rows are named. */
  #named: RowMarks | undefined;
  /** TensorPushes.T6 */
  #magnitude: number;

  /** The memory of its first push is its own from here on. */
  constructor(tensor: TensorParameter, host: ParameterHost, place: BlockContributionOptions) {
    this.#tensor = tensor;
    this.#host = host;
    this.#place = place;
    this.address = place.first.address;
    this.#named = place.first.named;
    this.#magnitude = place.first.magnitude;
  }

  /** Another push of the same clock, times `scale`. */
  join(pushed: PushedBlock, scale = 1): void {
    const { merge } = this.#tensor;
    if (merge === undefined) this.#host.kernels.axpy(this.address, pushed.address, scale, this.#floatCount);
    else this.#merge(merge, pushed);
    this.#magnitude =
      merge === undefined ? this.#magnitude + pushed.magnitude * Math.abs(scale) : Math.max(this.#magnitude, pushed.magnitude);
    this.#name(pushed.named);
  }

  /** In the order of the contributions (TensorPushes.T2). */
  applyRound({ contributions }: CompleteRound<ServerUpdate>): void {
    const { block, clock } = this.#place;
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

  /** What it has, copied. */
  save(): BlockContributionImage {
    const from = this.address >>> 2;
    const gradients = new Float32Array(this.#host.arena.floats.subarray(from, from + this.#floatCount));
    return { gradients, magnitude: this.#magnitude, named: this.#named?.slice() };
  }

  free(): void {
    this.#host.arena.release(this.address, this.#floatCount * FLOAT_BYTES);
  }

  get #floatCount(): number {
    return this.#place.rowCount * this.#place.width;
  }

  /** Rows that both name are put together, those that only the other names are taken over. */
  #merge(merge: MergeNumber, { address, named }: PushedBlock): void {
    const { rowCount, width } = this.#place;
    const { kernels, optimizers } = this.#host;
    const put = (from: number, to: number, isKnown: boolean): void => {
      const offset = from * width * FLOAT_BYTES;
      const [target, source] = [this.address + offset, address + offset];
      if (isKnown) optimizers.updateBlock(merge, target, target, 0, 0, source, to - from, width, 0);
      else kernels.copy(target, source, (to - from) * width * FLOAT_BYTES);
    };
    const runs = named === undefined ? [{ from: 0, to: rowCount }] : runsOf(named, 1);
    for (const { from, to } of runs) {
      const own = this.#named;
      if (own === undefined) put(from, to, true);
      else for (let row = from; row < to; row++) put(row, row + 1, own[row] === 1);
    }
  }

  #name(named: RowMarks | undefined): void {
    if (named === undefined) this.#named = undefined;
    if (this.#named === undefined || named === undefined) return;
    assert(this.#named.length === named.length, "marks are of one block");
    for (const { from, to } of runsOf(named, 1)) this.#named.fill(1, from, to);
  }
}
