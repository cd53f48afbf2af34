// shared-loop — an update of values, row by row, that the owner of a training begins and that all of its threads run: a
// thread that has nothing else to do claims the next share. The owner goes on when all shares are done. No lock: all
// claim from one word. And the optimizer kernels of a network that may have devices: they share what is large while a
// training has some, and the bits are those of one thread.
//
//   words     claim: loop << 12 | shares left; shares done; shares; arguments
//
// Invariants:
//   SharedLoop.S1. The arguments of a loop do not change while one of its shares is claimed and not done: a thread that
//       has claimed one may read them.
//   SharedLoop.S2. Shares are spans that do not overlap: who does which changes no bit.
//   SharedLoop.S3. The owner waits for a share that another thread has claimed for DONE_WAIT_MS_MAX; then that thread
//       has ended within it, and the training fails.

import { WeighbridgeError } from "../../../base/errors.ts";
import type { Arena } from "../../../kernel/arena.ts";
import { DOUBLE_BYTES, FLOAT_BYTES } from "../../../kernel/elements.ts";
import { HYPER, type OptimizerKernels, type OptimizerNumber, SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { lookUntil } from "../../../worker/level-one/task-loop.ts";

const CLAIM = 0;
const DONE = 1;
const COUNT = 2;
const ARGUMENTS = 3;
const WORDS = 16;

const SHARE_BITS = 12;
const SHARE_MASK = 2 ** SHARE_BITS - 1;
const SHARES_MAX = 256;
const SHARE_FLOATS = 2 ** 15;

const DONE_WAIT_MS_MAX = 5000;
const WAIT_MS = 10;
/** How long the owner looks before it sleeps. */
const LOOK_MS = 1;

/** From so many floats on an update is worth other threads. */
const SHARED_FLOATS_MIN: number = 2 * SHARE_FLOATS;

/** Plain data: it can be posted to another thread. */
export function createLoopWords(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(WORDS * Int32Array.BYTES_PER_ELEMENT));
}

export class SharedLoop {
  readonly #words: Int32Array;
  readonly #kernels: Pick<OptimizerKernels, "updateBlock">;
  readonly #doneWaitMsMax: number;

  /** The kernels are those of this thread. */
  constructor(words: Int32Array, kernels: Pick<OptimizerKernels, "updateBlock">, doneWaitMsMax: number = DONE_WAIT_MS_MAX) {
    this.#words = words;
    this.#kernels = kernels;
    this.#doneWaitMsMax = doneWaitMsMax;
  }

  /** Whether a share can be claimed. */
  get hasShares(): boolean {
    return (Atomics.load(this.#words, CLAIM) & SHARE_MASK) !== 0;
  }

  /** Does shares while there are some. */
  help(): void {
    const words = this.#words;
    for (;;) {
      const claim = Atomics.load(words, CLAIM);
      const left = claim & SHARE_MASK;
      if (left === 0) return;
      if (Atomics.compareExchange(words, CLAIM, claim, claim - 1) !== claim) continue;
      this.#runShare(words[COUNT]! - left);
      if (Atomics.add(words, DONE, 1) + 1 === words[COUNT]) Atomics.notify(words, DONE);
    }
  }

  /**
   * For the owner: as `OptimizerKernels.updateBlock`, of rows that count no steps. `call` rings the other threads.
   * Throws NODE_DEAD (SharedLoop.S3).
   */
  update(call: () => void, ...block: Parameters<OptimizerKernels["updateBlock"]>): void {
    const words = this.#words;
    const [rowCount, width] = [block[6], block[7]];
    const count = Math.min(SHARES_MAX, rowCount, Math.ceil((rowCount * width) / SHARE_FLOATS));
    words[COUNT] = count;
    for (const [i, value] of block.entries()) words[ARGUMENTS + i] = value;
    Atomics.store(words, DONE, 0);
    const loop = (Atomics.load(words, CLAIM) >>> SHARE_BITS) + 1;
    Atomics.store(words, CLAIM, (loop << SHARE_BITS) | count); // SharedLoop.S1
    call();
    this.help();
    this.#waitFor(count);
  }

  #waitFor(count: number): void {
    const words = this.#words;
    const isDone = (): boolean => Atomics.load(words, DONE) === count;
    if (lookUntil(isDone, Math.min(LOOK_MS, this.#doneWaitMsMax), () => performance.now())) return;
    const untilMs = performance.now() + this.#doneWaitMsMax;
    for (let done = Atomics.load(words, DONE); done !== count; done = Atomics.load(words, DONE)) {
      Atomics.wait(words, DONE, done, Math.min(WAIT_MS, this.#doneWaitMsMax));
      if (performance.now() >= untilMs)
        throw new WeighbridgeError("NODE_DEAD", "a device of the training has ended while it updated values: they cannot be trusted");
    }
  }

  #runShare(share: number): void {
    const words = this.#words;
    const argument = (i: number): number => words[ARGUMENTS + i]! >>> 0;
    const [stride, rowCount, width] = [argument(4), argument(6), argument(7)];
    const { from, to } = rowsOf(share, words[COUNT]!, rowCount);
    const [values, slots] = [from * width * FLOAT_BYTES, (from / rowCount) * stride];
    this.#kernels.updateBlock(
      argument(0) as OptimizerNumber,
      ...([argument(1) + values, argument(2) + values, argument(3) + slots, stride, argument(5) + values] as const),
      ...([to - from, width, argument(8)] as const),
    );
  }
}

/** The rows of a share. */
function rowsOf(share: number, shareCount: number, rowCount: number): { readonly from: number; readonly to: number } {
  const from = Math.floor((share * rowCount) / shareCount);
  return { from, to: Math.floor(((share + 1) * rowCount) / shareCount) };
}

/** How other threads are told of a loop. */
export type LoopCrew = { readonly loop: SharedLoop; readonly call: () => void };

export class UpdateKernels extends SimdOptimizerKernels {
  override readonly updateBlock: OptimizerKernels["updateBlock"];
  /** Of the training that is under way, if it has devices. */
  crew: LoopCrew | undefined;

  constructor(arena: Arena) {
    super(arena);
    const { updateBlock } = new SimdOptimizerKernels(arena);
    const doubles = new Float64Array(arena.memory.buffer);
    this.updateBlock = (...block) => {
      const { crew } = this;
      const [rowCount, width, hyper] = [block[6], block[7], block[8]];
      const countsSteps = doubles[hyper / DOUBLE_BYTES + HYPER.rowSteps] !== 0;
      if (crew === undefined || countsSteps || rowCount * width < SHARED_FLOATS_MIN) updateBlock(...block);
      else crew.loop.update(crew.call, ...block);
    };
  }
}
