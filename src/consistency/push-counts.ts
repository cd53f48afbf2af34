// push-counts — counts the pushes of workers to each parameter, as far as one server knows them, including pushes to
// rows on other servers: how many each worker made, and who pushed at which clock. Pure: the caller derives the steps
// of lazyAdam and the mean over workers.
//
// A worker numbers its pushes to each parameter 1, 2, 3 … (worker/worker-clock.ts). A server learns a number from a
// frame of that push or, if the push has no row here, from the message with which the worker ends the clock, joins or
// leaves (spec/consistency.md, N1, N2).
//
// Invariants:
//   PushCounts.C1. A push is counted once, whichever message brings its number first, in whatever order they come
//       (spec/consistency.md, N3).
//   PushCounts.C2. The server learns who pushed at a clock when the worker ends that clock: its message follows its
//       pushes. Pushes of a clock that a worker did not finish here, for instance because it died, do not count
//       (spec/consistency.md, N4).
//   PushCounts.C3. An incarnation that the server does not know is counted from the numbers that its join brings, a
//       known one from those it had (spec/consistency.md, N5).
//   PushCounts.C4. Memory is bounded: the numbers of each worker's last incarnation, by parameter, and the clocks of
//       sync parameters that are not over.
//   PushCounts.C5. A push that this server refused is not counted here, unless its number comes again with another
//       frame of it (spec/consistency.md, N3).

import type { WorkerIncarnation } from "./worker-incarnations.ts";

/** A worker's report of its pushes: at `clocks[i]`, rising, its pushes to `parameters[i]` reached `numbers[i]`. */
export type PushReport = { readonly clocks: Uint32Array; readonly parameters: Uint32Array; readonly numbers: Uint32Array };

/** What counts pushes to whole parameters. */
export type PushCounter = {
  /**
   * A worker made so many more pushes at this clock than were known here. Returns whether they wait for those of other
   * workers; undefined for a parameter that is not here.
   */
  pushed(parameter: number, clock: number, count: number): boolean | undefined;
  /**
   * The clock is over, and somebody pushed to the parameter at it. Called before the rounds of that clock are applied.
   */
  roundOver(parameter: number, clock: number): void;
};

type Holder = {
  readonly incarnation: number;
  readonly numbers: Map<number, number>;
  /** By parameter: the pushes that were refused here (PushCounts.C5). Undefined as long as none was. */
  refused: Map<number, Set<number>> | undefined;
};

type NumberPairs = readonly (readonly [number, number])[];

/**
 * What a server knows of pushes, in lists of pairs: numbers by parameter, refused ones by parameter, pushers by clock.
 */
export type PushCountsImage = {
  readonly isCounted: boolean;
  readonly holders: readonly (WorkerIncarnation & {
    readonly numbers: NumberPairs;
    readonly refused: readonly (readonly [number, readonly number[]])[];
  })[];
  readonly pushers: readonly (readonly [number, NumberPairs])[];
};

/** The server remembers so many refused pushes of a worker to a parameter, the newest: more than one has in flight. */
const REFUSED_MAX = 64;

export const NO_PUSHES: PushReport = { clocks: new Uint32Array(0), parameters: new Uint32Array(0), numbers: new Uint32Array(0) };

export class PushCounts {
  readonly #counter: PushCounter;
  readonly #holders = new Map<number, Holder>();
  /** By clock and parameter: how many incarnations pushed. */
  readonly #pushers = new Map<number, Map<number, number>>();
  /** Whether anything depends on the counts: the counter sets it. Before that, reports of workers are ignored. */
  isCounted = false;
  /** The clocks that are not over, and at which somebody pushed. */
  readonly openClocks: { readonly size: number } = this.#pushers;

  constructor(counter: PushCounter) {
    this.#counter = counter;
  }

  /** PushCounts.C3 */
  join(holder: WorkerIncarnation, { parameters, numbers }: Omit<PushReport, "clocks">, clock: number): void {
    const isKnown = this.#holders.get(holder.worker)?.incarnation === holder.incarnation;
    const own = this.#numbersOf(holder);
    for (const [i, parameter] of parameters.entries()) {
      const number = numbers[i] as number;
      if (isKnown) this.#note(own, { parameter, clock, number });
      else own.set(parameter, number);
    }
  }

  /** A frame of a push came: by how many pushes its worker is ahead of what was known here (PushCounts.C1). */
  rise(holder: WorkerIncarnation, parameter: number, number: number): number {
    const own = this.#holderOf(holder);
    const known = own.numbers.get(parameter) ?? 0;
    // PushCounts.C5
    if (number <= known) return own.refused !== undefined && own.refused.get(parameter)?.delete(number) === true ? 1 : 0;
    own.numbers.set(parameter, number);
    return number - known;
  }

  /** This server refused the push of this number after `rise` found it new: it does not count (PushCounts.C5). */
  refuse(holder: WorkerIncarnation, parameter: number, number: number): void {
    const own = this.#holderOf(holder);
    own.refused ??= new Map();
    const numbers = own.refused.get(parameter) ?? new Set();
    own.refused.set(parameter, numbers);
    numbers.add(number);
    const [oldest] = numbers;
    if (numbers.size > REFUSED_MAX && oldest !== undefined) numbers.delete(oldest);
  }

  /**
   * A frame of a push came from a worker that may not push now: that push does not count here, whichever message brings
   * its number later (PushCounts.C5); those before it do. An unknown incarnation is ignored: its join brings its
   * numbers.
   */
  refuseUnjoined(
    holder: WorkerIncarnation,
    parameter: number,
    { number, clock }: { readonly number: number; readonly clock: number },
  ): void {
    const own = this.#holders.get(holder.worker);
    if (own?.incarnation !== holder.incarnation || number <= (own.numbers.get(parameter) ?? 0)) return;
    this.#note(own.numbers, { parameter, clock, number: number - 1 });
    own.numbers.set(parameter, number);
    this.refuse(holder, parameter, number);
  }

  /** The incarnation has ended the clocks from `from` up to `to`, and reports its pushes (PushCounts.C2). */
  ended(
    holder: WorkerIncarnation,
    { clocks, parameters, numbers }: PushReport,
    { from, to }: { readonly from: number; readonly to: number },
  ): void {
    const own = this.#numbersOf(holder);
    for (const [i, parameter] of parameters.entries()) {
      const clock = clocks[i] as number;
      const waits = this.#note(own, { parameter, clock, number: numbers[i] as number });
      if (waits !== true || clock < from || clock >= to) continue; // the others were reported before
      const pushers = this.#pushers.get(clock) ?? new Map<number, number>();
      pushers.set(parameter, (pushers.get(parameter) ?? 0) + 1);
      this.#pushers.set(clock, pushers);
    }
  }

  /** How many incarnations pushed to the parameter at this clock, as far as they have ended it. */
  pusherCount(parameter: number, clock: number): number {
    return this.#pushers.get(clock)?.get(parameter) ?? 0;
  }

  /** The clocks below this one at which somebody pushed, ascending. */
  clocksBelow(clock: number): readonly number[] {
    return [...this.#pushers.keys()].filter((known) => known < clock).sort((a, b) => a - b);
  }

  /** The clock is over: calls the counter. Its pushers are known until `forget`. */
  end(clock: number): void {
    for (const parameter of this.#pushers.get(clock)?.keys() ?? []) this.#counter.roundOver(parameter, clock);
  }

  forget(clock: number): void {
    this.#pushers.delete(clock);
  }

  /** The worker has left the job (PushCounts.C4). */
  forgetWorker({ worker, incarnation }: WorkerIncarnation): void {
    if (this.#holders.get(worker)?.incarnation === incarnation) this.#holders.delete(worker);
  }

  /** Everything, for a standby that is filled. */
  save(): PushCountsImage {
    const holders = [...this.#holders].map(([worker, { incarnation, numbers, refused }]) => ({
      worker,
      incarnation,
      numbers: [...numbers],
      refused: [...(refused ?? [])].map(([parameter, of]) => [parameter, [...of]] as const),
    }));
    const pushers = [...this.#pushers].map(([clock, of]) => [clock, [...of]] as const);
    return { isCounted: this.isCounted, holders, pushers };
  }

  /** Of counts that have counted nothing. */
  load({ isCounted, holders, pushers }: PushCountsImage): void {
    this.isCounted = isCounted;
    this.#holders.clear();
    this.#pushers.clear();
    for (const { worker, incarnation, numbers, refused } of holders) {
      const of = new Map(refused.map(([parameter, list]) => [parameter, new Set(list)]));
      this.#holders.set(worker, { incarnation, numbers: new Map(numbers), refused: of.size === 0 ? undefined : of });
    }
    for (const [clock, of] of pushers) this.#pushers.set(clock, new Map(of));
  }

  #note(own: Map<number, number>, { parameter, clock, number }: { parameter: number; clock: number; number: number }): boolean | undefined {
    const known = own.get(parameter) ?? 0;
    const waits = this.#counter.pushed(parameter, clock, Math.max(0, number - known));
    if (waits !== undefined && number > known) own.set(parameter, number); // PushCounts.C4
    return waits;
  }

  #numbersOf(holder: WorkerIncarnation): Map<number, number> {
    return this.#holderOf(holder).numbers;
  }

  #holderOf({ worker, incarnation }: WorkerIncarnation): Holder {
    const known = this.#holders.get(worker);
    if (known?.incarnation === incarnation) return known;
    const holder = { incarnation, numbers: new Map<number, number>(), refused: undefined };
    this.#holders.set(worker, holder);
    return holder;
  }
}
