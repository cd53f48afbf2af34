// raw-rows — a table's rows with their optimizer's slots and words, read and written by a worker that applies the optimizer itself. Calls are cut by
// server and into frames of about a block, as table-client's. Not a cache: training/cached-rows is one.
//
// Invariants:
//   W1. What is written is acknowledged by every server it concerns, or the call rejects; then some of it may be there, and writing it again is
//       harmless. A read of this worker sees what it wrote before.
//   W2. Rows are written under the newest claim alone. A worker whose claim is over gets FENCED.

import type { WaitOptions } from "../base/deferred.ts";
import { reasonOf, WeighbridgeError } from "../base/errors.ts";
import { rawRowsClaim, rawRowsRead, rawRowsSync, rawRowsWrite } from "../contracts/raw-rows.ts";
import type { Arena } from "../kernel/arena.ts";
import type { TableSpec } from "../store/parameter-spec.ts";
import { type TrainingState, trainingShape } from "../store/training-state.ts";
import { type SlotLayout, slotLayoutOf } from "../store/updaters/slot-layout.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import type { FunctionClient } from "./function-client.ts";
import type { HeldParameter } from "./held-parameter.ts";
import { type RowPlan, RowPlanner } from "./row-plan.ts";
import { cutPart, type RowFrame } from "./table-client.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

export type RawRowsOptions = {
  readonly functions: FunctionClient;
  /** Who owns which key, and what keys the hash of repeated keys. */
  readonly planner: Pick<RowPlanner, "placement" | "secret">;
  readonly held: HeldParameter;
  readonly spec: TableSpec;
  /** Where plans are made. */
  readonly arena: Arena;
  /** The worker's clock. */
  readonly clock: () => number;
  /** What a gradient is multiplied with, as for a push. */
  readonly clipScaleOf: (gradient: Float32Array) => number;
};

/** What the servers said of a table, each by itself. */
export type RawClaim = { readonly claims: readonly number[]; readonly training: readonly TrainingState[] };

export class RawRows {
  readonly spec: TableSpec;
  readonly planner: RowPlanner;
  /** Floats of a row: values, slots and words. */
  readonly rowFloats: number;
  readonly #options: RawRowsOptions;
  readonly #subject: HeldParameter;
  readonly #parameter: number;
  #claims: readonly number[] = [];
  #lives: readonly number[];

  constructor(options: RawRowsOptions) {
    const { planner, spec, arena, functions, held } = options;
    this.#options = options;
    this.spec = spec;
    this.planner = new RowPlanner(arena, planner.placement, planner.secret);
    this.rowFloats = spec.width + extraFloats(slotLayoutOf(spec.optimizer, { kind: "table", width: spec.width, workerCount: 1 }));
    this.#subject = held;
    this.#parameter = held.parameter;
    this.#lives = Array.from({ length: functions.serverCount }, (_, server) => functions.lifeOf(server));
  }

  get serverCount(): number {
    return this.#options.functions.serverCount;
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

  /** Whether a server was restarted since this was asked last: what it was told may be gone. */
  get wasRestarted(): boolean {
    const { functions } = this.#options;
    const lives = this.#lives.map((_, server) => functions.lifeOf(server));
    const isChanged = lives.some((life, server) => life !== this.#lives[server]);
    this.#lives = lives;
    return isChanged;
  }

  /** Begins a new claim on every server: older ones are void (W2). */
  async claim(): Promise<RawClaim> {
    const { functions } = this.#options;
    const parameter = this.#parameter;
    const answers = await functions.callAll(rawRowsClaim, { parameter }, { scope: parameter, subject: this.#subject });
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
    const requests = this.#claims.map((claim, server) => ({
      server,
      request: { parameter, claim, step },
      scope: parameter,
      answered: (answer: { readonly training: string }) => {
        training[server] = this.#training(answer.training);
      },
    }));
    await functions.callEach(rawRowsSync, requests, { subject: this.#subject });
    return training;
  }

  /** Fills `into`, rowFloats for each of the keys, none of which is named twice. */
  async read(keys: BigUint64Array, into: Float32Array): Promise<void> {
    if (keys.length === 0) return;
    await this.#withPlan(keys, async (plan) => {
      const { functions } = this.#options;
      const parameter = this.#parameter;
      const landed = plan.landing(into, this.rowFloats);
      const requests = this.#frames(plan).map(({ server, keys: own, from, to }) => ({
        server,
        request: { parameter, keys: own },
        scope: parameter,
        into: landed.subarray(from * this.rowFloats, to * this.rowFloats),
      }));
      await functions.callEach(rawRowsRead, requests, { subject: this.#subject });
      plan.deliver(landed, into, this.rowFloats);
    });
  }

  /** Writes rowFloats for each of the keys, none of which is named twice (W1, W2). The arrays lie still until it has ended. */
  async write(keys: BigUint64Array, rows: Float32Array): Promise<void> {
    if (keys.length === 0) return;
    await this.#withPlan(keys, async (plan) => {
      const { functions, clock } = this.#options;
      const parameter = this.#parameter;
      const sorted = plan.gradients(rows, this.rowFloats);
      const requests = this.#frames(plan).map(({ server, keys: own, from, to }) => ({
        server,
        request: {
          parameter,
          clock: clock(),
          claim: this.#claims[server] ?? 0,
          keys: own,
          rows: sorted.subarray(from * this.rowFloats, to * this.rowFloats),
        },
        scope: parameter,
      }));
      await functions.callEach(rawRowsWrite, requests, { subject: this.#subject });
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

  #frames(plan: RowPlan): RowFrame[] {
    const rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.rowFloats * FLOAT_BYTES)));
    return plan.parts.flatMap((part) => cutPart(part, rowsPerFrame));
  }

  #training(json: string): TrainingState {
    try {
      return trainingShape(JSON.parse(json), `the state of ${this.spec.name}`);
    } catch (cause) {
      throw new WeighbridgeError("BAD_REQUEST", `a server's state of ${this.spec.name} makes no sense: ${reasonOf(cause)}`, { cause });
    }
  }
}

function extraFloats({ starts, slotFloats, wordsPerRow }: SlotLayout): number {
  return starts.length * slotFloats + wordsPerRow;
}
