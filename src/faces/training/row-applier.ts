// row-applier — applies the optimizer to rows that this worker holds, as the servers would: gradients of one clock are
// ordered by rank, those of one row are summed, and each row makes one step. It uses the servers' own updater and
// kernels, so the bits are the same (server/parameters/row-contribution).
//
// Invariants:
//   RowApplier.P1. A row is summed in the order of ranks; steps and the mean are those of the whole table, as servers
//       count them.
//   RowApplier.P2. Memory is allocated before a row changes: a step for which there is none changes nothing.

import { FLOAT_BYTES, KEY_BYTES, WORD_BYTES } from "../../kernel/elements.ts";
import { SimdOptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import { greatestDrawn } from "../../store/initializers/initializer-draw.ts";
import type { TrainingState } from "../../store/training-state.ts";
import { mergeOf } from "../../store/updaters/optimizer-spec.ts";
import { type Trial, triedRow } from "../../store/updaters/trial.ts";
import { Updater, unlessNotFinite } from "../../store/updaters/updater.ts";
import { ArenaSpans } from "../../worker/arena-spans.ts";
import type { RawRows } from "../../worker/raw-rows.ts";
import { type RowPlan, RowPlanner } from "../../worker/router/row-plan.ts";
import type { Gradients } from "./row-messages.ts";
import type { ServedRows } from "./row-request.ts";
import type { RowTiers, TierKernels } from "./row-tiers.ts";

type UpdatedRows = {
  readonly rows: number;
  readonly count: number;
  readonly summed: number;
  readonly clock: number;
  /** How many members pushed gradients for any row of the table. */
  readonly pusherCount: number;
  /** No element of the gradients is larger than this. */
  readonly magnitude: number;
};

export class RowApplier {
  readonly #tools: TierKernels;
  readonly #raw: RawRows;
  readonly #updater: Updater;
  /** For what all servers do alike. */
  readonly #joiner: RowPlanner;
  /** Steps of the table. */
  #step = 0;

  /** Throws ARENA_FULL. */
  constructor(tools: TierKernels, raw: RawRows) {
    const { optimizer, width } = raw.spec;
    this.#tools = tools;
    this.#raw = raw;
    this.#joiner = RowPlanner.among(tools.arena, [0], raw.planner.secret);
    this.#updater = new Updater(tools.arena, new SimdOptimizerKernels(tools.arena), optimizer, { kind: "table", width });
    this.#updater.noteMagnitude(greatestDrawn(raw.spec.initializer));
  }

  get step(): number {
    return this.#step;
  }

  /** Continues at the step of the servers. */
  resume(training: readonly TrainingState[]): void {
    this.#step = Math.max(...training.map(({ step }) => step));
    this.configure(training);
  }

  /** Takes over the settings that may have changed on the servers. */
  configure([first]: readonly TrainingState[]): void {
    if (first === undefined) return;
    if (this.#raw.spec.optimizer.learningRate !== undefined) this.#updater.rate.set(first.learningRate);
    this.#updater.rate.setSchedule(first.schedule);
  }

  /** Whether a gradient in the arena may be pushed, as a server decides it. Throws NOT_FINITE. */
  admit(gradients: number, floatCount: number): boolean {
    return this.#updater.admit(gradients, floatCount) !== undefined;
  }

  /** One step with the gradients of all members, by position. Throws BAD_REQUEST, ARENA_FULL (RowApplier.P2). */
  apply(served: ServedRows, pushed: readonly Gradients[], tiers: RowTiers): void {
    const { arena } = this.#tools;
    const { width } = this.#raw.spec;
    const pusherCount = pushed.filter(({ isPush }) => isPush).length;
    const total = pushed.reduce((count, { positions }) => count + positions.length, 0);
    const spans = new ArenaSpans(arena);
    let plan: RowPlan | undefined;
    try {
      if (total > 0) {
        const keys = spans.take(total * KEY_BYTES);
        const rows = spans.take(total * WORD_BYTES);
        const gradients = this.#putTogether(served, pushed, { keys, total }, spans);
        plan = this.#planFor(pushed, new BigUint64Array(arena.memory.buffer, keys, total));
        const summed = (plan?.gradients(gradients, width, mergeOf(this.#raw.spec.optimizer)) ?? gradients).byteOffset;
        const [distinct, count] = plan === undefined ? [keys, total] : [plan.keysAddress, plan.rowCount];
        const magnitude = this.#updater.admitSum(summed, count * width);
        if (magnitude === undefined) return;
        tiers.locate(distinct, count, rows);
        this.#step++;
        const clock = Math.max(...pushed.map((one) => one.clock));
        this.#update({ rows, count, summed, clock, pusherCount, magnitude });
        tiers.changed(distinct, count, rows);
      } else if (pusherCount > 0) this.#step++;
    } finally {
      plan?.release();
      spans.release();
    }
  }

  close(): void {
    this.#updater.close();
  }

  /** Adds up rows that several members pushed; undefined if no two did. */
  #planFor(pushed: readonly Gradients[], keys: BigUint64Array): RowPlan | undefined {
    return pushed.filter(({ positions }) => positions.length > 0).length > 1 ? this.#joiner.plan(keys) : undefined;
  }

  /** Keys and scaled gradients of all members, by rank, as a server keeps them until a round is complete. */
  #putTogether(
    served: ServedRows,
    pushed: readonly Gradients[],
    { keys, total }: { readonly keys: number; readonly total: number },
    spans: ArenaSpans,
  ): Float32Array {
    const { arena, kernels } = this.#tools;
    const { width } = this.#raw.spec;
    const floatCount = total * width;
    const target = spans.take(floatCount * FLOAT_BYTES);
    const isHere = pushed.every(({ values }) => values.buffer === arena.memory.buffer || values.length === 0);
    const copies = isHere ? 0 : spans.take(floatCount * FLOAT_BYTES);
    kernels.zero(target, floatCount * FLOAT_BYTES);
    let at = 0;
    for (const [position, { positions, values, scale }] of pushed.entries()) {
      served.copyKeys(position, positions, keys + at * KEY_BYTES);
      const offset = at * width * FLOAT_BYTES;
      const source = isHere ? values.byteOffset : copies + offset;
      if (!isHere) arena.floats.set(values, source >>> 2);
      if (scale === 1)
        kernels.copy(target + offset, source, values.byteLength); // as a server does
      else kernels.axpy(target + offset, source, scale, values.length);
      at += positions.length;
    }
    return arena.floats.subarray(target >>> 2, (target >>> 2) + floatCount) as Float32Array;
  }

  #update({ rows, count, summed: gradients, clock: scheduleStep, pusherCount, magnitude }: UpdatedRows): void {
    const gradientScale = this.#raw.spec.reduce === "mean" ? 1 / pusherCount : 1;
    this.#updater.begin({ step: this.#step, scheduleStep, gradientScale, workerRank: undefined, magnitude });
    const update = (trial?: Trial): void => {
      if (trial !== undefined) this.#save(trial, { rows, count, gradients });
      this.#updater.updateRows(rows, count, gradients);
    };
    if (this.#updater.isTried) unlessNotFinite(() => this.#updater.attempt(update));
    else update();
  }

  #save(trial: Trial, { rows, count, gradients }: { readonly rows: number; readonly count: number; readonly gradients: number }): void {
    const { width } = this.#raw.spec;
    const rowBytes = this.#raw.rowFloats * FLOAT_BYTES;
    for (let i = 0; i < count; i++) {
      const row = this.#tools.arena.words[(rows >>> 2) + i] as number;
      trial.save(triedRow(this.#updater.layout, { row, width, rowBytes, gradient: gradients + i * width * FLOAT_BYTES }));
    }
  }
}
