// local-route — the route of a parameter that lives in this process alone (ParameterRoute): its optimizer runs here,
// before the next use. LocalUpdater is the servers' code on the parameter's own spans, so that the same gradients lead
// to the same bits here and there.

import type { Arena } from "../../kernel/arena.ts";
import type { OptimizerKernels } from "../../kernel/optimizer-kernels.ts";
import type { Parameter } from "../../nn/parameter.ts";
import type { Workspace } from "../../nn/workspace.ts";
import { TensorShape } from "../../store/tensor-shape.ts";
import { clipScale, gradientNorm } from "../../store/updaters/gradient-norm.ts";
import type { ResolvedOptimizer } from "../../store/updaters/optimizer-spec.ts";
import { triedRun } from "../../store/updaters/trial.ts";
import { Updater } from "../../store/updaters/updater.ts";
import type { ParameterRoute } from "./parameter-route.ts";

export class LocalRoute implements ParameterRoute {
  readonly parameter: Parameter;
  readonly acknowledged: Promise<void> = Promise.resolve();
  readonly updater: LocalUpdater;
  readonly #clock: () => number;
  /** The clock of a gradient that was pushed and not applied, and its greatest magnitude, if it is known. */
  #pushedAt: number | undefined;
  #magnitude: number | undefined;

  constructor(parameter: Parameter, updater: LocalUpdater, clock: () => number) {
    this.parameter = parameter;
    this.updater = updater;
    this.#clock = clock;
  }

  async open(): Promise<void> {
    await Promise.resolve(); // the values are here
  }

  push(magnitude?: number): void {
    this.#pushedAt = this.#clock();
    this.#magnitude = magnitude;
  }

  skip(): void {
    this.#pushedAt = undefined;
  }

  repeat(): void {
    // Every pushed gradient is here.
  }

  settle(): undefined {
    const clock = this.#pushedAt;
    this.#pushedAt = undefined;
    if (clock !== undefined) this.updater.apply(clock, this.#magnitude);
    return undefined;
  }

  close(): void {
    this.updater.close();
  }
}

export class LocalUpdater {
  readonly #arena: Arena;
  readonly #parameter: Parameter;
  readonly #updater: Updater;
  readonly #rowCount: number;
  /** Slot after slot; empty if the optimizer has none. */
  readonly slots: Float32Array;
  readonly #slotsAt: number;
  /** Updates applied so far. */
  step = 0;

  /** The parameter has its first values already. Throws ARENA_FULL. */
  constructor(workspace: Workspace, parameter: Parameter, optimizer: ResolvedOptimizer, kernels: OptimizerKernels) {
    const shape = new TensorShape(parameter.shape);
    const width = shape.hasRows ? shape.width : 1;
    this.#arena = workspace.arena;
    this.#parameter = parameter;
    this.#rowCount = shape.floatCount / width;
    const owner = { kind: "tensor", width } as const;
    this.#updater = new Updater(workspace.arena, kernels, optimizer, owner);
    const byteCount = this.#updater.blockSlotBytes(this.#rowCount);
    this.#slotsAt = byteCount === 0 ? 0 : workspace.arena.allocate(byteCount);
    this.slots = new Float32Array(workspace.arena.memory.buffer, this.#slotsAt, byteCount / Float32Array.BYTES_PER_ELEMENT);
    this.#updater.startBlock(parameter.address, this.#slotsAt, this.#rowCount);
  }

  /**
   * Applies the parameter's gradient, with the learning rate of `clock`. `known`: its greatest magnitude. Throws
   * NOT_FINITE and changes nothing.
   */
  apply(clock: number, known: number = Number.NaN): void {
    const { address, gradientAddress, gradient } = this.#parameter;
    const magnitude = Number.isFinite(known) ? known : this.#updater.admit(gradientAddress, gradient.length);
    if (magnitude === undefined) return;
    const { clipNorm = null } = this.#updater.spec;
    const gradientScale = clipNorm === null ? 1 : clipScale(gradientNorm(gradient), clipNorm);
    this.#updater.begin({ step: this.step + 1, scheduleStep: clock, gradientScale, workerRank: undefined, magnitude });
    const block = { target: address, source: address, slots: this.#slotsAt, rowCount: this.#rowCount };
    const update = (): void => this.#updater.updateBlock(block, gradientAddress);
    const isApplied =
      !this.#updater.isTried ||
      this.#updater.attempt((trial) => {
        trial.save(triedRun(this.#updater, block, { from: 0, to: this.#rowCount, gradient: gradientAddress }));
        update();
      });
    if (!this.#updater.isTried) update();
    if (isApplied) this.step++;
  }

  close(): void {
    this.#updater.close();
    if (this.#slotsAt !== 0) this.#arena.release(this.#slotsAt, this.slots.byteLength);
  }
}
