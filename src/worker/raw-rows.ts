// raw-rows — a table's rows with their optimizer's slots and words, read and written by a worker that applies the
// optimizer itself. Calls are cut by server and into frames of about a block, as those of embedding.ts. Not a cache:
// training/tiered-rows is one.
//
// Invariants:
//   RawRows.W1. What is written is acknowledged by every server it concerns, or the call rejects; then some of it may
//       be there, and writing it again is harmless. A read of this worker sees what it wrote before.
//   RawRows.W2. Rows are written under the newest claim alone. A worker whose claim is over gets FENCED.

import type { WaitOptions } from "../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { rawRowsClaim, rawRowsRead, rawRowsWrite } from "../contracts/raw-values.ts";
import type { Arena } from "../kernel/arena.ts";
import { FLOAT_BYTES, KEY_BYTES } from "../kernel/elements.ts";
import type { TableSpec } from "../store/parameter-spec.ts";
import { type TrainingState, trainingShape } from "../store/training-state.ts";
import { rowSlotFloats, type SlotLayout, slotLayoutOf } from "../store/updaters/slot-layout.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import type { FunctionClient } from "./function-client.ts";
import type { ParameterHandle } from "./parameter-handle.ts";
import type { AnyRequest, Recut } from "./router/function-request.ts";
import type { RowFrame, RowPlan, RowPlanner } from "./router/row-plan.ts";
import { requestOf } from "./router.ts";

/** One that no server has given: 0 would begin another. */
const NO_CLAIM = 2 ** 32 - 1;

export type RawRowsOptions = {
  readonly functions: FunctionClient;
  /** Who owns which key, and what keys the hash of repeated keys. */
  readonly planner: RowPlanner;
  readonly handle: ParameterHandle;
  readonly spec: TableSpec;
  /** Where plans are made. */
  readonly arena: Arena;
  /** The worker's clock. */
  readonly clock: () => number;
  /** What a gradient is multiplied with, as for a push. */
  readonly clipScaleOf: (gradient: Float32Array) => number;
};

/** Makes something of what a table knows of its rows. */
export type RawRowsOpener<T> = (options: RawRowsOptions) => T;

/** For a table whose caller reads and writes its rows with their slots (`Embedding.raw`). */
export function openRawRows(options: RawRowsOptions): RawRows {
  return new RawRows(options);
}

/** What the servers said of a table, each by itself. */
export type RawClaim = { readonly claims: readonly number[]; readonly training: readonly TrainingState[] };

export class RawRows {
  readonly spec: TableSpec;
  readonly planner: RowPlanner;
  /** Floats of a row: values, slots and words. */
  readonly rowFloats: number;
  readonly #options: RawRowsOptions;
  readonly #subject: ParameterHandle;
  readonly #parameter: number;
  #claims: readonly number[] = [];
  #holders: readonly number[];

  constructor(options: RawRowsOptions) {
    const { planner, spec, arena, functions, handle } = options;
    this.#options = options;
    this.spec = spec;
    this.planner = planner.inArena(arena);
    this.rowFloats = spec.width + extraFloats(slotLayoutOf(spec.optimizer, { kind: "table", width: spec.width }));
    this.#subject = handle;
    this.#parameter = handle.parameter;
    this.#holders = functions.servers.map((server) => functions.incarnationOf(server));
  }

  get serverCount(): number {
    return this.#options.functions.servers.length;
  }

  get clock(): number {
    return this.#options.clock();
  }

  /** Waits for something that goes on even when nobody waits for it any more. */
  async wait<T>(promise: Promise<T>, wait: WaitOptions): Promise<T> {
    return await this.#options.functions.wait(promise, `cached rows of ${this.spec.name}`, { ...wait, subject: this.#subject });
  }

  /** What a gradient is multiplied with so that its norm is at most what the optimizer allows. */
  clipScaleOf(gradient: Float32Array): number {
    return this.#options.clipScaleOf(gradient);
  }

  /** Whether a server was restarted since the last call of this: what it knew may be gone. */
  get wasRestarted(): boolean {
    const { functions } = this.#options;
    const holders = functions.servers.map((server) => functions.incarnationOf(server));
    const isChanged = holders.some((holder, i) => holder !== this.#holders[i]);
    this.#holders = holders;
    return isChanged;
  }

  /** Begins a new claim on every server: older ones are void (RawRows.W2). */
  async claim(): Promise<RawClaim> {
    const { functions } = this.#options;
    const parameter = this.#parameter;
    const answers = await functions.callAll(rawRowsClaim, { parameter, claim: 0, step: 0 }, { scope: parameter, subject: this.#subject });
    this.#claims = answers.map(({ claim }) => claim);
    return { claims: this.#claims, training: answers.map(({ training }) => this.#training(training)) };
  }

  /** Takes part in a claim that another worker began. */
  join(claims: readonly number[]): void {
    this.#claims = claims;
  }

  /** Tells each server how many steps the table has seen; answers how the optimizer is set there. */
  async sync(step: number): Promise<readonly TrainingState[]> {
    const { functions } = this.#options;
    const parameter = this.#parameter;
    const training: TrainingState[] = [];
    const requests = functions.servers.map((server, i) => ({
      to: { server },
      request: { parameter, claim: this.#claims[i] ?? NO_CLAIM, step },
      scope: parameter,
      answered: (answer: { readonly training: string }) => {
        training[i] = this.#training(answer.training);
      },
    }));
    await functions.callEach(rawRowsClaim, requests, { subject: this.#subject });
    return training;
  }

  /** Fills `into`, rowFloats for each of the keys, none of which is named twice. */
  async read(keys: BigUint64Array, into: Float32Array): Promise<void> {
    if (keys.length === 0) return;
    await this.#withPlan(keys, async (plan) => {
      const landed = plan.landing(into, this.rowFloats);
      await this.#send(this.#reads(plan, landed), "read");
      plan.deliver(landed, into, this.rowFloats);
    });
  }

  /**
   * Writes rowFloats for each key, each named once (RawRows.W1, RawRows.W2). The arrays stay unchanged until it has
   * ended.
   */
  async write(keys: BigUint64Array, rows: Float32Array): Promise<void> {
    if (keys.length === 0) return;
    await this.#withPlan(keys, async (plan) => {
      await this.#send(this.#writes(plan, plan.gradients(rows, this.rowFloats), this.clock), "write");
    });
  }

  async #withPlan(keys: BigUint64Array, run: (plan: RowPlan) => Promise<void>): Promise<void> {
    const plan = this.planner.plan(keys);
    try {
      await run(plan);
    } finally {
      plan.release();
    }
  }

  async #send(requests: readonly AnyRequest[], what: string): Promise<void> {
    await this.#options.functions.callMixed(requests, `the ${what} of ${JSON.stringify(this.spec.name)}`, { subject: this.#subject });
  }

  #reads(plan: RowPlan, landed: Float32Array): AnyRequest[] {
    const [parameter, scope] = [this.#parameter, this.#parameter];
    return this.#frames(plan).map((frame) => {
      const into = this.#rowsOf(landed, frame);
      const cutAgain = (): Recut =>
        this.planner.again(frame.keys, (next) => {
          const landing = next.landing(into, this.rowFloats);
          return { requests: this.#reads(next, landing), answered: () => next.deliver(landing, into, this.rowFloats) };
        });
      return requestOf(rawRowsRead, { to: frame, request: { parameter, keys: frame.keys }, scope, into, cutAgain });
    });
  }

  /** Each server gets the claim that it gave (RawRows.W2). */
  #writes(plan: RowPlan, sorted: Float32Array, clock: number): AnyRequest[] {
    const [parameter, scope] = [this.#parameter, this.#parameter];
    const { servers } = this.#options.functions;
    return this.#frames(plan).map((frame) => {
      const rows = this.#rowsOf(sorted, frame);
      const cutAgain = (): Recut =>
        this.planner.again(frame.keys, (next) => ({ requests: this.#writes(next, next.gradients(rows, this.rowFloats), clock) }));
      const claim = this.#claims[servers.indexOf(frame.server)] ?? 0;
      return requestOf(rawRowsWrite, { to: frame, request: { parameter, clock, claim, keys: frame.keys, rows }, scope, cutAgain });
    });
  }

  #rowsOf(rows: Float32Array, { from, to }: RowFrame): Float32Array {
    return rows.subarray(from * this.rowFloats, to * this.rowFloats);
  }

  #frames(plan: RowPlan): RowFrame[] {
    return plan.frames(Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.rowFloats * FLOAT_BYTES))));
  }

  #training(json: string): TrainingState {
    try {
      return trainingShape(JSON.parse(json), `the state of ${this.spec.name}`);
    } catch (cause) {
      throw new WeighbridgeError("BAD_REQUEST", `a server's state of ${this.spec.name} makes no sense: ${reasonOf(cause)}`, { cause });
    }
  }
}

function extraFloats(layout: SlotLayout): number {
  return rowSlotFloats(layout) + layout.wordsPerRow;
}
