// paced-cluster — a whole simulated job on the pure pieces of consistency: workers, several servers with clocks of
// their own, delays, reordering, crashes and restarts, workers wrongly taken for dead, late joins, early leaves, bounds
// and consistencies that change. One seed for what the workers do, one for when things happen. Throws at the first
// broken promise.

import { Random } from "../../src/base/random.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { type Era, eraAt, Holder, type Parameter, Record, VALUES } from "./paced-record.ts";
import { PacedServer } from "./paced-server.ts";
import { PacedWorker } from "./paced-worker.ts";

export type JobOptions = {
  readonly scriptSeed: number;
  readonly delaySeed: number;
  readonly serverCount: number;
  readonly workerCount: number;
  readonly clockTarget: number;
  /**
   * The bound of each parameter, and how its updates are applied; `later` at later clocks, as is known from the
   * beginning on.
   */
  readonly parameters: readonly (Omit<Era, "from"> & { readonly later?: readonly Era[] })[];
  readonly delayMsMax: number;
  readonly readsAll?: boolean;
  readonly parkedReadsMax?: number;
  /** How many of each happen, at random moments. */
  readonly faults?: { readonly [name in "crashes" | "suspicions" | "joins" | "boundChanges"]: number } & { readonly modeChanges?: number };
};

export type JobOutcome = { readonly record: Record; readonly transcript: Transcript };

/** The bits of everything that was read and made of sync parameters: by whom and of what, in the order of each. */
export type Transcript = { readonly reads: Map<string, Uint32Array[]>; readonly rounds: Map<number, Uint32Array[]> };

const START_MS_MAX = 200;
const BOUNDS = [0, 1, 2, 3, 5, 10, Infinity];

/** The values of a parameter as bits: arrays that are copied from here stay in the heap of the engine. */
const FLOATS = new Float32Array(VALUES);
const BITS = new Uint32Array(FLOATS.buffer);

class Job {
  readonly record = new Record();
  readonly transcript: Transcript = { reads: new Map(), rounds: new Map() };
  readonly #options: JobOptions;
  readonly #clock = new SimClock();
  readonly #random: Random;
  readonly #servers: readonly PacedServer[];
  readonly #parameters: readonly Parameter[];
  readonly #workers: PacedWorker[] = [];
  readonly #incarnations: number[] = [];

  constructor(options: JobOptions) {
    this.#options = options;
    this.#random = new Random(options.delaySeed);
    const { serverCount, workerCount, parkedReadsMax = 1e6 } = options;
    this.#servers = Array.from({ length: serverCount }, () => {
      const onRound = (parameter: Parameter): void => append(this.transcript.rounds, parameter.id, parameter.values);
      return new PacedServer({ clock: this.#clock, record: this.record, expectedCount: workerCount, parkedReadsMax, onRound });
    });
    this.#parameters = options.parameters.map(({ staleness, isSync, later = [] }, id) => {
      const values = new Float32Array(VALUES);
      const eras = [{ from: 0, isSync, staleness }];
      const parameter: Parameter = { id, server: id % serverCount, eras, clockTop: -1, promisedClock: -1, values };
      this.#servers[parameter.server]?.add(parameter);
      for (const era of later) this.#servers[parameter.server]?.changeMode(parameter, era);
      return parameter;
    });
  }

  run(): void {
    const { workerCount } = this.#options;
    for (let rank = 0; rank < workerCount; rank++) {
      this.#incarnations[rank] = 0;
      // The early ones must wait for the late.
      this.#clock.after(this.#random.fraction() * START_MS_MAX, () => this.#start(rank));
    }
    this.#planFaults();
    while (this.#clock.step()) {
      // The checks throw by themselves.
    }
    this.record.checkEnd();
    for (const server of this.#servers) server.checkEnd();
  }

  #start(rank: number): void {
    const { scriptSeed, delayMsMax, readsAll = false } = this.#options;
    const incarnation = (this.#incarnations[rank] ?? 0) + 1;
    this.#incarnations[rank] = incarnation;
    const holder = new Holder({ worker: idOf("worker", rank), incarnation, parameterCount: this.#parameters.length });
    this.record.holders.push(holder);
    const worker = new PacedWorker({
      clock: this.#clock,
      record: this.record,
      servers: this.#servers,
      parameters: this.#parameters,
      holder,
      scriptSeed,
      delay: { msMax: delayMsMax, random: this.#random },
      computeMsMax: this.#random.chance(0.2) ? 20 : 2,
      readsAll,
      clockTarget: this.#clockTarget(rank),
      onRead: (parameter, values) => {
        if (eraAt(parameter, holder.clock).isSync) append(this.transcript.reads, `${holder.name} reads ${parameter.id}`, values);
      },
    });
    this.#workers.push(worker);
    worker.join();
  }

  /** In a job with faults some leave early. */
  #clockTarget(rank: number): number {
    const { clockTarget, faults } = this.#options;
    return faults !== undefined && rank % 4 === 3 ? Math.ceil(clockTarget / 2) : clockTarget;
  }

  #planFaults(): void {
    const { faults, clockTarget } = this.#options;
    if (faults === undefined) return;
    const spanMs = clockTarget * 20;
    const plan = (count: number, happen: () => void): void => {
      for (let i = 0; i < count; i++) this.#clock.after(this.#random.fraction() * spanMs, happen);
    };
    plan(faults.crashes, () => this.#crash());
    plan(faults.suspicions, () => this.#suspect());
    plan(faults.joins, () => this.#start(this.#incarnations.length));
    plan(faults.boundChanges, () => this.#changeBound());
    plan(faults.modeChanges ?? 0, () => this.#changeMode());
  }

  #anyAlive(): PacedWorker | undefined {
    const alive = this.#workers.filter(({ holder }) => holder.state === "alive");
    return alive[this.#random.below(alive.length)];
  }

  /** Servers hear of it at different moments; a restart may be quicker than the news. */
  #crash(): void {
    const worker = this.#anyAlive();
    if (worker === undefined) return;
    this.record.counts.crashes++;
    worker.crash();
    for (const server of this.#servers) this.#clock.after(this.#random.fraction() * 100, () => server.died(worker.holder));
    const rank = (worker.holder.worker - idOf("worker", 0)) / 2;
    if (this.#random.chance(0.7)) this.#clock.after(this.#random.fraction() * 100, () => this.#start(rank));
  }

  /** Some servers, perhaps all, take a worker for dead that lives; later they hear of it again. */
  #suspect(): void {
    const worker = this.#anyAlive();
    if (worker === undefined) return;
    this.record.counts.suspicions++;
    worker.holder.isTrusted = false;
    for (const server of this.#servers) {
      if (this.#random.chance(0.3)) continue;
      const diedMs = this.#random.fraction() * 20;
      this.#clock.after(diedMs, () => server.died(worker.holder));
      this.#clock.after(diedMs + this.#random.fraction() * 40, () => {
        if (worker.holder.state === "alive") server.revived(worker.holder);
      });
    }
  }

  #changeBound(): void {
    const parameter = this.#parameters[this.#random.below(this.#parameters.length)] as Parameter;
    this.record.counts.boundChanges++;
    this.#servers[parameter.server]?.changeStaleness(parameter, BOUNDS[this.#random.below(BOUNDS.length)] as number);
  }

  /** Somebody asks how far the workers are, and later names a clock near it; many are past it by then. */
  #changeMode(): void {
    const parameter = this.#parameters[this.#random.below(this.#parameters.length)] as Parameter;
    const server = this.#servers[parameter.server] as PacedServer;
    const from = server.fastestClock(parameter) + this.#random.below(4);
    const isSync = this.#random.chance(0.5);
    const staleness = isSync ? 0 : (BOUNDS[this.#random.below(BOUNDS.length)] as number);
    this.#clock.after(this.#random.fraction() * this.#options.delayMsMax, () => {
      this.record.counts.modeChanges++;
      server.changeMode(parameter, { from, isSync, staleness });
    });
  }
}

/** Throws at the first broken promise; nobody may be left waiting. */
export function runJob(options: JobOptions): JobOutcome {
  const job = new Job(options);
  job.run();
  return job;
}

function append<K>(lists: Map<K, Uint32Array[]>, key: K, values: Float32Array): void {
  FLOATS.set(values);
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [BITS.slice()]);
  else list.push(BITS.slice());
}
