// plain-parameter — a parameter as its guarantees describe it, in float64 and a map of rows: no servers, frames, blocks
// in arenas, codecs or caches. What the cluster is compared with. It shares nothing with it.
//
//   async   an update is applied when it comes
//   sync    updates of a clock wait for its end, become one by row over workers, in the order of their ranks, and are
//           applied as one
//   steps   adam and adamW count the updates of each row, lazyAdam the pushes to the parameter, or the clocks with any

import type { ResolvedSchedule } from "../../src/store/updaters/learning-rate-schedule.ts";
import type { ResolvedOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { newRow64, notePull64, type Row64, update64 } from "../conformance/float64-optimizers.ts";

/** Gradients by row. Rows have their keys as text: a table's may be any u64. */
export type PlainGradients = ReadonlyMap<string, Float64Array>;

export type PlainMode = { readonly updates: "async" | "sync"; readonly reduce: "sum" | "mean" };

export type PlainPush = { readonly worker: number; readonly clock: number; readonly scale: number; readonly gradients: PlainGradients };

export type PlainOptions = {
  readonly optimizer: ResolvedOptimizer;
  readonly mode: PlainMode;
  /** The values that a row begins with. */
  readonly initial: (row: string) => ArrayLike<number>;
};

type Settings = { learningRate: number | undefined; schedule: ResolvedSchedule | undefined };
/** What a table's rows or a tensor's are at one moment. */
export type PlainState = {
  readonly rows: Map<string, Row64>;
  /** Pushes, or clocks with any. */
  step: number;
  readonly settings: Settings;
};

export class PlainParameter {
  readonly #options: PlainOptions;
  readonly #modes: { readonly from: number; readonly mode: PlainMode }[];
  #state: PlainState;
  #workerCount = 1;
  /** Of open clocks, by worker. */
  readonly #rounds = new Map<number, Map<number, Map<string, Float64Array>>>();

  constructor(options: PlainOptions) {
    this.#options = options;
    this.#modes = [{ from: 0, mode: options.mode }];
    const { learningRate, schedule } = options.optimizer;
    this.#state = { rows: new Map(), step: 0, settings: { learningRate, schedule } };
  }

  /** What is there of a row, or would be. */
  valuesOf(row: string): Float64Array {
    return this.#state.rows.get(row)?.values ?? Float64Array.from(this.#options.initial(row));
  }

  get rowCount(): number {
    return this.#state.rows.size;
  }

  modeAt(clock: number): PlainMode {
    return (this.#modes.findLast(({ from }) => from <= clock) as { readonly mode: PlainMode }).mode;
  }

  changeMode(from: number, mode: PlainMode): void {
    this.#modes.push({ from, mode });
  }

  set(settings: Partial<Settings>): void {
    Object.assign(this.#state.settings, settings);
  }

  push(push: PlainPush): void {
    if (push.gradients.size === 0) return;
    if (this.modeAt(push.clock).updates === "async") {
      this.#state.step++;
      this.#apply(push);
    } else this.#gather(push);
  }

  /**
   * So many workers begin with it, or go on with what was restored: for DC-ASGD each counts as having pulled what is
   * there.
   */
  setWorkers(workerCount: number): void {
    this.#workerCount = workerCount;
    for (const { memory, values } of this.#state.rows.values())
      for (let rank = 0; rank < workerCount; rank++) memory.set(`${rank}`, values.slice());
  }

  /** DC-ASGD: a worker has seen these rows. */
  notePull(worker: number, rows: readonly string[]): void {
    if (this.#options.optimizer.type !== "dcAsgd") return;
    for (const name of rows) {
      const row = this.#state.rows.get(name);
      if (row !== undefined) notePull64(row, `${worker}`);
    }
  }

  /** Every worker has ended this clock. */
  endClock(clock: number): void {
    const round = this.#rounds.get(clock);
    if (round === undefined) return;
    this.#rounds.delete(clock);
    this.#state.step++;
    const ranked = [...round].sort(([one], [other]) => one - other).map(([, own]) => own);
    const gradients = new Map<string, Float64Array>();
    for (const one of ranked) joinInto(gradients, one, 1, this.#options.optimizer.type);
    const scale = this.modeAt(clock).reduce === "mean" ? 1 / ranked.length : 1;
    this.#apply({ worker: undefined, clock, scale, gradients });
  }

  save(): PlainState {
    return copyOf(this.#state);
  }

  load(state: PlainState, workerCount: number): void {
    this.#state = copyOf(state);
    this.setWorkers(workerCount);
  }

  #gather({ worker, clock, scale, gradients }: PlainPush): void {
    const round = this.#rounds.get(clock) ?? new Map<number, Map<string, Float64Array>>();
    this.#rounds.set(clock, round);
    const own = round.get(worker) ?? new Map<string, Float64Array>();
    round.set(worker, own);
    joinInto(own, gradients, scale, this.#options.optimizer.type);
  }

  #apply({ worker, clock, scale, gradients }: Omit<PlainPush, "worker"> & { readonly worker: number | undefined }): void {
    const { optimizer } = this.#options;
    const { step, settings } = this.#state;
    const spec = { ...optimizer, ...definedOf(settings) };
    for (const [name, gradient] of gradients) {
      const row = this.#rowOf(name);
      update64(spec, row, {
        gradient,
        step: optimizer.type === "lazyAdam" ? step : row.updateCount + 1,
        scheduleStep: clock,
        gradientScale: scale,
        pulled: worker === undefined ? undefined : `${worker}`,
      });
    }
  }

  #rowOf(name: string): Row64 {
    const known = this.#state.rows.get(name);
    if (known !== undefined) return known;
    const row = newRow64(this.#options.initial(name));
    for (let rank = 0; rank < this.#workerCount; rank++) notePull64(row, `${rank}`);
    this.#state.rows.set(name, row);
    return row;
  }
}

const MERGES: Readonly<Record<string, (one: number, other: number) => number>> = {
  assign: (_, last) => last,
  min: Math.min,
  max: Math.max,
};

/** Adds gradients, times `scale`, row by row; of values takes the last, the least or the greatest. */
export function joinInto(
  target: Map<string, Float64Array>,
  gradients: PlainGradients,
  scale: number,
  type: ResolvedOptimizer["type"],
): void {
  const merge = MERGES[type] ?? ((one, other) => one + scale * other);
  for (const [row, gradient] of gradients) {
    const known = target.get(row);
    if (known === undefined) target.set(row, type in MERGES ? gradient.slice() : gradient.map((x) => scale * x));
    else for (let j = 0; j < gradient.length; j++) known[j] = merge(known[j] as number, gradient[j] as number);
  }
}

function definedOf(settings: Settings): Partial<ResolvedOptimizer> {
  const { learningRate, schedule } = settings;
  return { ...(learningRate === undefined ? {} : { learningRate }), ...(schedule === undefined ? {} : { schedule }) };
}

function copyOf({ rows, step, settings }: PlainState): PlainState {
  const copies = [...rows].map(([name, { values, memory, updateCount }]): [string, Row64] => [
    name,
    { values: values.slice(), memory: new Map([...memory].map(([slot, floats]) => [slot, floats.slice()])), updateCount },
  ]);
  return { rows: new Map(copies), step, settings: { ...settings } };
}
