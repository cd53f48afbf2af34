// tensor-rounds — the open rounds of a tensor with sync updates, block by block: what workers pushed at clocks that are
// not over, until their rounds are applied, or move with the block's part to another server. Not how a round is
// reduced: gathered-block.ts.
//
// Invariants:
//   TensorRounds.R1. What a round needs is taken when its updates come, or come from another server: applying it cannot
//       fail.
//   TensorRounds.R2. A contribution to a block is in its round once, however often it is loaded.

import type { WeighbridgeError } from "../../base/errors.ts";
import type { TensorStore } from "../../store/tensor-store.ts";
import { type BlockTarget, GatheredBlock, type PushedBlock } from "./gathered-block.ts";
import type { ParameterHost } from "./parameter-host.ts";
import type { GatheredBlockPage, GatheredBy } from "./part-page.ts";

const FLOAT_BYTES = 4;

type Target = BlockTarget & { readonly store: TensorStore };

export class TensorRounds {
  readonly #target: Target;
  readonly #host: ParameterHost;
  /** Floats of a row, as the optimizer sees it. */
  readonly #width: number;
  /** By block: its number among all that is reduced as one. */
  readonly #units = new Map<number, number>();

  constructor(target: Target, host: ParameterHost, width: number) {
    this.#target = target;
    this.#host = host;
    this.#width = width;
  }

  /** Whether anybody has pushed to the block. */
  has(block: number): boolean {
    return this.#units.has(block);
  }

  /** Throws ARENA_FULL, QUEUE_FULL, and for who may not push now as the pacer does; nothing gathered. */
  gather({ life, clock, block, scale }: GatheredBy & { readonly block: number; readonly scale: number }, pushed: PushedBlock): void {
    const { pacer, arena, kernels } = this.#host;
    const { store } = this.#target;
    const stamp = { ...life, parameter: this.#unitOf(block), clock };
    const floatCount = store.shape.floatsOf(block);
    const byteCount = floatCount * FLOAT_BYTES;
    const known = pacer.rounds.find(stamp);
    if (known === undefined) pacer.rounds.checkRoom(stamp, byteCount);
    store.touch(block, pushed.named !== undefined); // R1
    if (known instanceof GatheredBlock) {
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
  *save(blocks: Iterable<number>): Iterable<GatheredBlockPage> {
    for (const block of blocks) {
      const unit = this.#units.get(block);
      if (unit === undefined) continue;
      for (const { clock, worker, incarnation, handle } of this.#host.pacer.rounds.openOf(unit)) {
        if (!(handle instanceof GatheredBlock)) continue;
        yield { kind: "gatheredBlock", block, life: { worker, incarnation }, clock, image: handle.save() };
      }
    }
  }

  /** R2. Throws ARENA_FULL, STALE_UPDATE for a round that is over here, QUEUE_FULL. */
  load({ block, life, clock, image }: GatheredBlockPage): void {
    const { arena, pacer } = this.#host;
    const { byteLength } = image.gradients;
    const stamp = { ...life, parameter: this.#unitOf(block), clock };
    pacer.rounds.find(stamp);
    this.#target.store.touch(block, image.named !== undefined); // R1
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

  #first(block: number, clock: number, first: PushedBlock): GatheredBlock {
    const width = this.#width;
    const rowCount = this.#target.store.shape.floatsOf(block) / width;
    return new GatheredBlock(this.#target, this.#host, { block, clock, rowCount, width, first });
  }

  #unitOf(block: number): number {
    const known = this.#units.get(block);
    if (known !== undefined) return known;
    const unit = this.#host.nextUnit();
    this.#units.set(block, unit);
    return unit;
  }
}
