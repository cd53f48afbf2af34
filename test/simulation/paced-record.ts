// paced-record — what really happened in a simulated job: every update, where it is, and what every read was owed. It
// knows all and decides nothing; the checks are written from spec/consistency.md and ask no piece of the code that they
// check.

import assert from "node:assert/strict";

export const VALUES = 3;

/** How a parameter is kept from a clock on. */
export type Era = { readonly from: number; readonly isSync: boolean; readonly staleness: number };

export type Parameter = {
  readonly id: number;
  readonly server: number;
  /** By rising clocks; the first is the one it began with. */
  eras: readonly Era[];
  /** The highest clock of an update that its server took. */
  clockTop: number;
  /** Reads were answered that count on having seen every update stamped up to this clock. */
  promisedClock: number;
  readonly values: Float32Array;
};

export function eraAt({ eras }: Parameter, clock: number): Era {
  return eras.findLast(({ from }) => from <= clock) ?? (eras[0] as Era);
}

export type PushState = "flying" | "gathered" | "applied" | "refused" | "dropped" | "lost";

export type Push = {
  readonly holder: Holder;
  readonly parameter: Parameter;
  readonly clock: number;
  readonly values: Float32Array;
  state: PushState;
};

/** One incarnation of one worker, as it really is. */
export class Holder {
  readonly worker: number;
  readonly incarnation: number;
  clock = 0;
  state: "alive" | "left" | "crashed" = "alive";
  /** False once somebody took it for dead although it lived: then updates may be refused, and it is told so. */
  isTrusted = true;
  /** Its updates of each parameter, in the order they were made. */
  readonly pushes: Push[][];
  /** How many of them, from the first on, have come to rest. */
  readonly #settled: number[];
  readonly #byClock: Map<number, Push[]>[];

  constructor({ worker, incarnation, parameterCount }: { worker: number; incarnation: number; parameterCount: number }) {
    this.worker = worker;
    this.incarnation = incarnation;
    this.pushes = Array.from({ length: parameterCount }, () => []);
    this.#settled = new Array<number>(parameterCount).fill(0);
    this.#byClock = Array.from({ length: parameterCount }, () => new Map());
  }

  /** It makes an update at its present clock. */
  push(parameter: Parameter, values: Float32Array): Push {
    const push: Push = { holder: this, parameter, clock: this.clock, values, state: "flying" };
    (this.pushes[parameter.id] as Push[]).push(push);
    const byClock = this.#byClock[parameter.id] as Map<number, Push[]>;
    const sameClock = byClock.get(this.clock);
    if (sameClock === undefined) byClock.set(this.clock, [push]);
    else sameClock.push(push);
    return push;
  }

  get name(): string {
    return `worker ${this.worker} incarnation ${this.incarnation}`;
  }

  /**
   * The position of the oldest update of this parameter that is still on its way or gathered; that of the next one, if
   * there is none.
   */
  oldestOpen(parameter: Parameter): number {
    const pushes = this.pushes[parameter.id] as Push[];
    let at = this.#settled[parameter.id] as number;
    while (at < pushes.length && isSettled(pushes[at] as Push)) at++;
    this.#settled[parameter.id] = at;
    return at;
  }

  /** What it made of one clock and was not refused. */
  takenAt(parameter: Parameter, clock: number): Push[] {
    return (this.#byClock[parameter.id]?.get(clock) ?? []).filter(({ state }) => state !== "refused" && state !== "lost");
  }
}

function isSettled({ state }: Push): boolean {
  return state !== "flying" && state !== "gathered";
}

export type Read = {
  readonly holder: Holder;
  readonly parameter: Parameter;
  readonly clock: number;
  /** How many updates its worker had made of this parameter before it asked. */
  readonly ownCount: number;
};

export class Record {
  readonly holders: Holder[] = [];
  readonly counts = {
    pushes: 0,
    reads: 0,
    clocks: 0,
    parked: 0,
    rounds: 0,
    joins: 0,
    crashes: 0,
    suspicions: 0,
    refused: 0,
    boundChanges: 0,
    modeChanges: 0,
  };

  get operationCount(): number {
    return this.counts.pushes + this.counts.reads + this.counts.clocks;
  }

  /** The read is answered now: nothing it is owed may be missing (spec/consistency.md, W3). */
  checkRead({ holder: reader, parameter, clock, ownCount }: Read): void {
    const { staleness } = eraAt(parameter, clock);
    const owedClock = clock - staleness - 1;
    parameter.promisedClock = Math.max(parameter.promisedClock, owedClock);
    for (const holder of this.holders) {
      // What comes of these later is checked when it is applied.
      if (holder.state === "crashed" || !holder.isTrusted) continue;
      const open = holder.pushes[parameter.id]?.[holder.oldestOpen(parameter)];
      if (open === undefined || open.clock > owedClock) continue;
      assert.fail(
        `${reader.name} at clock ${clock}, staleness ${staleness}, misses an update of ${holder.name} stamped ${open.clock}: ${open.state}`,
      );
    }
    if (!reader.isTrusted) return;
    const own = (reader.pushes[parameter.id] as Push[]).slice(reader.oldestOpen(parameter), ownCount);
    const missed = own.find((push) => !isSettled(push) && !eraAt(parameter, push.clock).isSync);
    assert.equal(missed, undefined, `${reader.name} does not see its own update of parameter ${parameter.id}`);
  }

  /** The update becomes visible now: no answered read may have counted on it already. */
  apply(push: Push): void {
    const { holder, parameter, clock, state } = push;
    assert.equal(
      state,
      eraAt(parameter, clock).isSync ? "gathered" : "flying",
      "every update is applied once, as its clock asks (spec/consistency.md, M1)",
    );
    assert.ok(
      clock > parameter.promisedClock,
      `an update of ${holder.name} stamped ${clock} comes after a read that was promised all up to ${parameter.promisedClock}`,
    );
    push.state = "applied";
  }

  /**
   * The contributions to a round of a sync parameter: in order, whole, nobody forgotten (spec/consistency.md, U2, U3).
   */
  checkRound(parameter: Parameter, clock: number, contributions: readonly { holder: Holder; pushes: readonly Push[] }[]): void {
    let before: Holder | undefined;
    for (const { holder, pushes } of contributions) {
      const isAfter =
        before === undefined ||
        before.worker < holder.worker ||
        (before.worker === holder.worker && before.incarnation < holder.incarnation);
      assert.ok(isAfter, `round ${clock}: ${holder.name} comes after ${before?.name}`);
      before = holder;
      const expected = holder.takenAt(parameter, clock).filter(({ state }) => state !== "dropped");
      assert.deepEqual(
        pushes.length,
        expected.length,
        `round ${clock} of parameter ${parameter.id} has a part of ${holder.name}'s updates`,
      );
    }
    const counted = new Set(contributions.map(({ holder }) => holder));
    for (const holder of this.holders) {
      if (holder.state === "crashed" || !holder.isTrusted || counted.has(holder)) continue;
      assert.equal(holder.takenAt(parameter, clock).length, 0, `round ${clock} of parameter ${parameter.id} forgot ${holder.name}`);
    }
  }

  /** Everybody is gone: each update of who was never taken for dead was applied, whatever became of the others. */
  checkEnd(): void {
    for (const holder of this.holders) {
      assert.notEqual(holder.state, "alive", `${holder.name} never came to its end: it stands at clock ${holder.clock}`);
      if (holder.state === "crashed" || !holder.isTrusted) continue;
      for (const push of holder.pushes.flat()) assert.equal(push.state, "applied", `an update of ${holder.name} stamped ${push.clock}`);
    }
  }
}
