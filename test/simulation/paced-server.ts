// paced-server — a simulated server around a Pacer: it applies what the pacer lets through, and checks every decision
// against a plain copy of the clocks that it keeps by itself.

import assert from "node:assert/strict";
import type { Clock } from "../../src/base/clock.ts";
import type { WeighbridgeError } from "../../src/base/errors.ts";
import { type ConsistencyMode, ConsistencyPhases } from "../../src/consistency/consistency-phases.ts";
import { Pacer } from "../../src/consistency/pacer.ts";
import type { CompleteRound, SyncUpdate } from "../../src/consistency/update-rounds.ts";
import { type Era, eraAt, type Holder, type Parameter, type Push, type Read, type Record, VALUES } from "./paced-record.ts";

/** What one incarnation has pushed to one round so far: the sum, and of what. */
type Sum = SyncUpdate<Sum> & { readonly holder: Holder; readonly values: Float32Array; readonly pushes: Push[] };

/** Called once, later or at once, with the values as they are then, or the failure. */
export type Answer = (values: Float32Array | WeighbridgeError) => void;

export type PacedServerOptions = {
  readonly clock: Clock;
  readonly record: Record;
  readonly expectedCount: number;
  readonly parkedReadsMax: number;
  /** Sees every sync parameter after every round. */
  readonly onRound: (parameter: Parameter) => void;
};

const READ_DEADLINE_MS = 1e9; // Beyond every run: whoever meets it was forgotten.

export class PacedServer {
  readonly #options: PacedServerOptions;
  readonly #pacer: Pacer<Sum>;
  readonly #parameters = new Map<number, Parameter>();
  readonly #phases = new Map<Parameter, ConsistencyPhases>();
  /** The clocks as told, by worker. */
  readonly #known = new Map<number, { holder: Holder; clock: number }>();
  /** The clock at which each incarnation was heard of last, gone ones included. */
  readonly #lastClocks = new Map<Holder, number>();
  /** The workers that have joined or are gone. */
  readonly #heardOf = new Set<number>();
  readonly #parked = new Set<Read>();
  #highestClock = 0;
  #minimumBefore = 0;
  #turn = 0;

  constructor(options: PacedServerOptions) {
    this.#options = options;
    const { clock, expectedCount, parkedReadsMax } = options;
    this.#pacer = new Pacer<Sum>({
      clock,
      expectedCount,
      parkedReadsMax,
      parkedBytesMax: 1e9,
      contributionsMax: 1e6,
      openBytesMax: 1e12,
    });
  }

  /** It has one era so far. */
  add(parameter: Parameter): void {
    this.#parameters.set(parameter.id, parameter);
    this.#phases.set(parameter, new ConsistencyPhases(modeOf(eraAt(parameter, 0))));
  }

  push(push: Push): void {
    const { holder, parameter, clock } = push;
    const phases = this.#phasesOf(parameter);
    this.#pacer.clocks.checkUpdate(holder, clock);
    phases.take(clock);
    parameter.clockTop = Math.max(parameter.clockTop, clock);
    if (phases.at(clock).updates === "async") {
      this.#options.record.apply(push);
      return;
    }
    const stamp = { worker: holder.worker, incarnation: holder.incarnation, parameter: parameter.id, clock };
    const sum = this.#pacer.rounds.find(stamp);
    if (sum === undefined) {
      this.#pacer.rounds.put(stamp, this.#sumOf(push), push.values.byteLength);
    } else {
      for (let i = 0; i < VALUES; i++) sum.values[i] = (sum.values[i] as number) + (push.values[i] as number);
      sum.pushes.push(push);
    }
    push.state = "gathered";
  }

  advance(holder: Holder, clock: number): void {
    const known = this.#known.get(holder.worker);
    if (known?.holder === holder && clock > known.clock) {
      known.clock = clock;
      this.#lastClocks.set(holder, clock);
      this.#highestClock = Math.max(this.#highestClock, clock);
    }
    this.#pacer.rounds.advance(holder, clock);
    this.#checkMinimum();
  }

  /** Throws NODE_DEAD, FENCED. */
  join(holder: Holder): number {
    const known = this.#known.get(holder.worker);
    if (known !== undefined && known.holder.incarnation <= holder.incarnation) this.#ended(known.holder);
    const expected = known?.holder === holder ? known.clock : this.#minimum();
    const clock = this.#pacer.join(holder);
    assert.equal(clock, expected, `${holder.name} joins at the minimum, or where it stands (spec/consistency.md, W5)`);
    this.#known.set(holder.worker, { holder, clock });
    this.#lastClocks.set(holder, clock);
    this.#heardOf.add(holder.worker);
    this.#checkMinimum();
    return clock;
  }

  /** It is dead, or is taken for dead. */
  died(holder: Holder): void {
    this.#ended(holder);
    this.#pacer.died(holder);
    this.#checkMinimum();
    for (const read of this.#parked) assert.notEqual(read.holder, holder, "who is dead waits for nothing");
  }

  /** It was taken for dead, and lives. */
  revived(holder: Holder): void {
    this.#pacer.revived(holder);
  }

  left(holder: Holder): void {
    const known = this.#known.get(holder.worker);
    if (known?.holder === holder) this.#highestClock = Math.max(this.#highestClock, known.clock + 1);
    this.#ended(holder);
    this.#pacer.leave(holder);
    this.#checkMinimum();
  }

  changeStaleness(parameter: Parameter, staleness: number): void {
    parameter.eras = parameter.eras.map((era) => ({ ...era, staleness }));
    this.#phasesOf(parameter).setStaleness(staleness);
    this.#judgeAnew(parameter);
  }

  /** The clock of the fastest worker, and of the newest update, as this server knows them. */
  fastestClock(parameter: Parameter): number {
    return Math.max(this.#phasesOf(parameter).clockTop, this.#pacer.clockMax);
  }

  /** Another era from `from` on, or from above what was taken (spec/consistency.md, M2). */
  changeMode(parameter: Parameter, { from, ...asked }: Era): void {
    const phases = this.#phasesOf(parameter);
    const era = { ...asked, from: Math.max(from, parameter.clockTop + 1) };
    const last = parameter.eras.at(-1) as Era;
    const isSame = last.isSync === era.isSync && last.staleness === era.staleness && last.from <= era.from;
    if (!isSame) parameter.eras = [...parameter.eras.filter((before) => before.from < era.from), era];
    phases.forgetBefore(this.#pacer.clockMin);
    const begins = phases.change({ mode: modeOf(era), clock: from, turn: ++this.#turn, worker: 9 });
    assert.equal(begins, isSame ? last.from : era.from, "a change begins above every update that was taken (spec/consistency.md, M2)");
    this.#judgeAnew(parameter);
  }

  #judgeAnew(parameter: Parameter): void {
    this.#pacer.changeStaleness(parameter.id, (clock) => this.#phasesOf(parameter).at(clock).staleness);
    this.#checkParked();
  }

  #phasesOf(parameter: Parameter): ConsistencyPhases {
    return this.#phases.get(parameter) as ConsistencyPhases;
  }

  /** Throws QUEUE_FULL, or that the worker is no member. */
  read(read: Read, answer: Answer): void {
    const { holder, parameter, clock } = read;
    const admitted = (): void => {
      this.#parked.delete(read);
      this.#options.record.checkRead(read);
      answer(parameter.values.slice());
    };
    const parked = this.#pacer.read({
      worker: holder.worker,
      incarnation: holder.incarnation,
      parameter: parameter.id,
      clock,
      staleness: this.#phasesOf(parameter).at(clock).staleness,
      bytes: 64,
      timeoutMs: READ_DEADLINE_MS,
      read: {
        admitted,
        failed: (error) => {
          this.#parked.delete(read);
          answer(error);
        },
      },
    });
    if (parked === undefined) {
      admitted();
      return;
    }
    this.#parked.add(read);
    this.#options.record.counts.parked++;
    const isSlowest = this.#hasFormed() && [...this.#known.values()].every((known) => known.clock >= clock);
    assert.ok(!isSlowest, `${holder.name} waits at clock ${clock}, and nobody is behind it (spec/consistency.md, W4)`);
  }

  checkEnd(): void {
    assert.equal(this.#pacer.lot.readCount, 0, "nobody waits any more");
    assert.equal(this.#pacer.rounds.contributionCount, 0, "no round is left open");
  }

  /** Of a first push. */
  #sumOf(push: Push): Sum {
    const { holder } = push;
    const pushes = [push];
    const free = (): void => {
      for (const dropped of pushes) {
        assert.ok(
          dropped.clock >= (this.#lastClocks.get(holder) ?? 0),
          `an update that ${holder.name} had finished was dropped (spec/consistency.md, U4)`,
        );
        dropped.state = "dropped";
      }
    };
    return { holder, values: push.values.slice(), pushes, applyRound: (round) => this.#applyRound(round), free };
  }

  #applyRound({ parameter: id, clock, contributions }: CompleteRound<Sum>): void {
    const { record, onRound } = this.#options;
    const parameter = this.#parameters.get(id) as Parameter;
    record.checkRound(
      parameter,
      clock,
      contributions.map(({ handle }) => handle),
    );
    const total = new Float32Array(VALUES);
    for (const { handle } of contributions) {
      for (let i = 0; i < VALUES; i++) total[i] = (total[i] as number) + (handle.values[i] as number);
      for (const push of handle.pushes) record.apply(push);
    }
    for (let i = 0; i < VALUES; i++) parameter.values[i] = (parameter.values[i] as number) * 0.75 + (total[i] as number);
    record.counts.rounds++;
    onRound(parameter);
  }

  #ended(holder: Holder): void {
    if (this.#known.get(holder.worker)?.holder === holder) this.#known.delete(holder.worker);
    this.#heardOf.add(holder.worker);
  }

  #hasFormed(): boolean {
    return this.#heardOf.size >= this.#options.expectedCount;
  }

  /** spec/consistency.md, W1, word for word. */
  #minimum(): number {
    if (!this.#hasFormed()) return 0;
    const clocks = [...this.#known.values()].map(({ clock }) => clock);
    return clocks.length === 0 ? this.#highestClock : Math.min(...clocks);
  }

  #checkMinimum(): void {
    const minimum = this.#pacer.clockMin;
    assert.equal(minimum, this.#minimum(), "the minimum is that of the members (spec/consistency.md, W1)");
    assert.ok(minimum >= this.#minimumBefore, "the minimum never falls (spec/consistency.md, W1)");
    this.#minimumBefore = minimum;
    this.#checkParked();
  }

  /** spec/consistency.md, P1: nobody waits for what has come. */
  #checkParked(): void {
    for (const { holder, parameter, clock } of this.#parked) {
      const { staleness } = eraAt(parameter, clock);
      assert.ok(clock - staleness > this.#minimum(), `${holder.name} still waits at clock ${clock}, staleness ${staleness}`);
    }
  }
}

function modeOf({ isSync, staleness }: Era): ConsistencyMode {
  return { updates: isSync ? "sync" : "async", reduce: "sum", staleness };
}
