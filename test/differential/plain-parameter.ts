// plain-parameter — a parameter as its guarantees describe it, in float64 and a map of rows: no servers, frames, blocks in arenas, codecs or caches. What the
// cluster is compared with. It shares nothing with it but the cutting of tensors into blocks, by which Adam counts steps.
//
//   async   an update is applied when it comes
//   sync    updates of a clock wait for its end, are summed by row over workers, in any order, and applied as one

import type { ResolvedSchedule } from "../../src/store/updaters/learning-rate-schedule.ts";
import type { ResolvedOptimizer } from "../../src/store/updaters/optimizer-spec.ts";
import { newRow64, type Row64, update64 } from "../conformance/float64-optimizers.ts";

/** Gradients by row. Rows have their keys as text: a table's may be any u64. */
export type PlainGradients = ReadonlyMap<string, Float64Array>;

export type PlainMode = { readonly updates: "async" | "sync"; readonly reduce: "sum" | "mean" };

export type PlainPush = { readonly worker: number; readonly clock: number; readonly scale: number; readonly gradients: PlainGradients };

export type PlainOptions = {
  readonly optimizer: ResolvedOptimizer;
  readonly mode: PlainMode;
  /** The values that a row begins with. */
  readonly initial: (row: string) => ArrayLike<number>;
  /** Of a tensor: the block that holds a row. */
  readonly blockOf?: ((row: string) => number) | undefined;
};

type Settings = { learningRate: number | undefined; schedule: ResolvedSchedule | undefined };
/** What a table's rows or a tensor's are at one moment. */
export type PlainState = {
  readonly rows: Map<string, Row64>;
  readonly steps: Map<number, number>;
  readonly settings: Settings;
};

/** The table's own count of steps, where a tensor has one for each block. */
const WHOLE_TABLE = -1;

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
    this.#state = { rows: new Map(), steps: new Map(), settings: { learningRate, schedule } };
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
    if (this.modeAt(push.clock).updates === "async") this.#apply(push);
    else this.#gather(push);
  }

  /** So many workers go on with it. DC-ASGD keeps something for each on a tensor: one that was not there begins with the values. */
  seat(workerCount: number): void {
    this.#workerCount = workerCount;
    if (this.#options.blockOf === undefined) return;
    for (const { memory, values } of this.#state.rows.values()) {
      for (const name of [...memory.keys()]) if (Number(name) >= workerCount) memory.delete(name);
      for (let rank = 0; rank < workerCount; rank++) if (!memory.has(`${rank}`)) memory.set(`${rank}`, values.slice());
    }
  }

  /** DC-ASGD: a worker has seen these rows of a tensor. */
  notePull(worker: number, rows: readonly string[]): void {
    if (this.#options.blockOf === undefined || this.#options.optimizer.type !== "dcAsgd") return;
    for (const name of rows) {
      const row = this.#state.rows.get(name);
      row?.memory.set(`${worker}`, row.values.slice());
    }
  }

  /** Every worker has ended this clock. */
  endClock(clock: number): void {
    const round = this.#rounds.get(clock);
    if (round === undefined) return;
    this.#rounds.delete(clock);
    const blockOf = this.#options.blockOf ?? (() => WHOLE_TABLE);
    const blocks = new Set([...round.values()].flatMap((one) => [...one.keys()].map(blockOf)));
    for (const block of blocks) {
      const gradients = new Map<string, Float64Array>();
      const own = [...round.values()].map((one) => new Map([...one].filter(([row]) => blockOf(row) === block)));
      for (const one of own) addInto(gradients, one, 1);
      const scale = this.modeAt(clock).reduce === "mean" ? 1 / own.filter((one) => one.size > 0).length : 1;
      this.#apply({ worker: 0, clock, scale, gradients });
    }
  }

  save(): PlainState {
    return copyOf(this.#state);
  }

  load(state: PlainState, workerCount: number): void {
    this.#state = copyOf(state);
    this.seat(workerCount);
  }

  #gather({ worker, clock, scale, gradients }: PlainPush): void {
    const round = this.#rounds.get(clock) ?? new Map<number, Map<string, Float64Array>>();
    this.#rounds.set(clock, round);
    const own = round.get(worker) ?? new Map<string, Float64Array>();
    round.set(worker, own);
    addInto(own, gradients, scale);
  }

  #apply({ worker, clock, scale, gradients }: PlainPush): void {
    const { optimizer, blockOf: blockOfRow } = this.#options;
    const { steps, settings } = this.#state;
    const isTable = blockOfRow === undefined;
    const blockOf = blockOfRow ?? (() => WHOLE_TABLE);
    for (const block of new Set([...gradients.keys()].map(blockOf))) steps.set(block, (steps.get(block) ?? 0) + 1);
    const spec = { ...optimizer, ...definedOf(settings) };
    for (const [name, gradient] of gradients) {
      const row = this.#rowOf(name);
      const countsItself = isTable && optimizer.type !== "lazyAdam";
      update64(spec, row, {
        gradient,
        step: countsItself ? row.updateCount + 1 : (steps.get(blockOf(name)) as number),
        scheduleStep: clock,
        gradientScale: scale,
        backup: isTable ? { name: "table", old: true } : { name: `${worker}`, old: false },
      });
    }
  }

  #rowOf(name: string): Row64 {
    const known = this.#state.rows.get(name);
    if (known !== undefined) return known;
    const row = newRow64(this.#options.initial(name));
    const ranks = Array.from({ length: this.#workerCount }, (_, rank) => `${rank}`);
    const backups = this.#options.blockOf === undefined ? ["table"] : ranks;
    for (const backup of backups) row.memory.set(backup, Float64Array.from(row.values));
    this.#state.rows.set(name, row);
    return row;
  }
}

/** Adds gradients, times `scale`, row by row. */
export function addInto(target: Map<string, Float64Array>, gradients: PlainGradients, scale: number): void {
  for (const [row, gradient] of gradients) {
    const sum = target.get(row) ?? new Float64Array(gradient.length);
    for (let j = 0; j < gradient.length; j++) sum[j]! += scale * (gradient[j] as number);
    target.set(row, sum);
  }
}

function definedOf(settings: Settings): Partial<ResolvedOptimizer> {
  const { learningRate, schedule } = settings;
  return { ...(learningRate === undefined ? {} : { learningRate }), ...(schedule === undefined ? {} : { schedule }) };
}

function copyOf({ rows, steps, settings }: PlainState): PlainState {
  const copies = [...rows].map(([name, { values, memory, updateCount }]): [string, Row64] => [
    name,
    { values: values.slice(), memory: new Map([...memory].map(([slot, floats]) => [slot, floats.slice()])), updateCount },
  ]);
  return { rows: new Map(copies), steps: new Map(steps), settings: { ...settings } };
}
