// paced-cluster — a whole simulated job on the pure pieces of consistency: workers, several servers with clocks of their own, delays, reordering,
// crashes and restarts, workers wrongly taken for dead, late joins, early leaves, bounds that change. One seed for what the workers do, one
// for when things happen. Throws at the first broken promise.

import { Random } from "../../src/base/random.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { idOf } from "../../src/wire/node-id.ts";
import { Life, type Parameter, Record, VALUES } from "./paced-record.ts";
import { PacedServer } from "./paced-server.ts";
import { PacedWorker } from "./paced-worker.ts";

export type JobOptions = {
  readonly scriptSeed: number;
  readonly delaySeed: number;
  readonly serverCount: number;
  readonly workerCount: number;
  readonly clockTarget: number;
  /** The bound of each parameter, and how its updates are applied. */
  readonly parameters: readonly { readonly staleness: number; readonly isSync: boolean }[];
  readonly delayMsMax: number;
  readonly readsAll?: boolean;
  readonly parkedReadsMax?: number;
  /** How many of each happen, at random moments. */
  readonly faults?: { readonly crashes: number; readonly suspicions: number; readonly joins: number; readonly boundChanges: number };
};

export type JobOutcome = { readonly record: Record; readonly transcript: Transcript };

/** The bits of everything that was read and made of sync parameters: by whom and of what, in the order of each. */
export type Transcript = { readonly reads: Map<string, Uint32Array[]>; readonly rounds: Map<number, Uint32Array[]> };

const START_MS_MAX = 200;
const BOUNDS = [0, 1, 2, 3, 5, 10, Infinity];

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
    this.#parameters = options.parameters.map(({ staleness, isSync }, id) => {
      const values = new Float32Array(VALUES);
      const parameter = { id, server: id % serverCount, isSync, staleness, promisedClock: -1, values };
      this.#servers[parameter.server]?.add(parameter);
      return parameter;
    });
  }

  run(): void {
    const { workerCount } = this.#options;
    for (let rank = 0; rank < workerCount; rank++) {
      this.#incarnations[rank] = 0;
      this.#clock.after(this.#random.fraction() * START_MS_MAX, () => this.#start(rank)); // The early ones must wait for the late.
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
    const life = new Life({ worker: idOf("worker", rank), incarnation, parameterCount: this.#parameters.length });
    this.record.lives.push(life);
    const worker = new PacedWorker({
      clock: this.#clock,
      record: this.record,
      servers: this.#servers,
      parameters: this.#parameters,
      life,
      scriptSeed,
      delay: { msMax: delayMsMax, random: this.#random },
      computeMsMax: this.#random.chance(0.2) ? 20 : 2,
      readsAll,
      clockTarget: this.#clockTarget(rank),
      onRead: ({ id, isSync }, values) => {
        if (isSync) append(this.transcript.reads, `${life.name} reads ${id}`, values);
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
  }

  #anyAlive(): PacedWorker | undefined {
    const alive = this.#workers.filter(({ life }) => life.state === "alive");
    return alive[this.#random.below(alive.length)];
  }

  /** Servers hear of it at different moments; a restart may be quicker than the news. */
  #crash(): void {
    const worker = this.#anyAlive();
    if (worker === undefined) return;
    this.record.counts.crashes++;
    worker.crash();
    for (const server of this.#servers) this.#clock.after(this.#random.fraction() * 100, () => server.died(worker.life));
    const rank = (worker.life.worker - idOf("worker", 0)) / 2;
    if (this.#random.chance(0.7)) this.#clock.after(this.#random.fraction() * 100, () => this.#start(rank));
  }

  /** Some servers, perhaps all, take a worker for dead that lives; later they hear of it again. */
  #suspect(): void {
    const worker = this.#anyAlive();
    if (worker === undefined) return;
    this.record.counts.suspicions++;
    worker.life.isTrusted = false;
    for (const server of this.#servers) {
      if (this.#random.chance(0.3)) continue;
      const diedMs = this.#random.fraction() * 20;
      this.#clock.after(diedMs, () => server.died(worker.life));
      this.#clock.after(diedMs + this.#random.fraction() * 40, () => {
        if (worker.life.state === "alive") server.revived(worker.life);
      });
    }
  }

  #changeBound(): void {
    const parameter = this.#parameters[this.#random.below(this.#parameters.length)] as Parameter;
    this.record.counts.boundChanges++;
    this.#servers[parameter.server]?.changeStaleness(parameter, BOUNDS[this.#random.below(BOUNDS.length)] as number);
  }
}

/** Throws at the first broken promise; nobody may be left waiting. */
export function runJob(options: JobOptions): JobOutcome {
  const job = new Job(options);
  job.run();
  return job;
}

function append<K>(lists: Map<K, Uint32Array[]>, key: K, values: Float32Array): void {
  const list = lists.get(key) ?? [];
  list.push(new Uint32Array(values.slice().buffer));
  lists.set(key, list);
}
