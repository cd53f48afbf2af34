// memory-collective — workers that exchange bytes within one process, for tests of code on top of a Collective. As in
// a real one, order alone identifies an operation. One that a member does not call ends only when that member is dead.

import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";

type Round = { readonly outgoing: (readonly Uint8Array[] | undefined)[]; readonly done: Deferred<void> };

/** What all members share. */
export class MemoryCollectives {
  readonly #rounds: Round[] = [];
  #members: readonly number[];
  #generation = 1;
  #dead: number | undefined;

  constructor(ranks: readonly number[]) {
    this.#members = ranks;
  }

  get members(): readonly number[] {
    return this.#members;
  }

  get generation(): number {
    return this.#generation;
  }

  /** What is open fails, and so does all that is called before `reform`. */
  kill(rank: number): void {
    this.#dead = rank;
    for (const { done } of this.#rounds) done.reject(this.#death());
  }

  /** The next generation, without the dead. To be called once no member has anything open. */
  reform(ranks: readonly number[]): void {
    this.#members = ranks;
    this.#generation++;
    this.#dead = undefined;
    this.#rounds.length = 0;
  }

  async exchange(number: number, position: number, outgoing: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    if (this.#dead !== undefined) throw this.#death();
    const round = this.#rounds[number] ?? { outgoing: this.#members.map(() => undefined), done: new Deferred() };
    this.#rounds[number] = round;
    round.outgoing[position] = outgoing.map((bytes) => bytes.slice());
    if (round.outgoing.every((sent) => sent !== undefined)) round.done.resolve();
    await round.done.promise;
    return round.outgoing.map((sent) => sent?.[position]?.slice() ?? new Uint8Array(0));
  }

  #death(): WeighbridgeError {
    return new WeighbridgeError("NODE_DEAD", `worker ${this.#dead} is dead`);
  }
}

/** One member's end. */
export class MemoryCollective {
  readonly #shared: MemoryCollectives;
  readonly #rank: number;
  #generation = 0;
  #next = 0;

  constructor(shared: MemoryCollectives, rank: number) {
    this.#shared = shared;
    this.#rank = rank;
  }

  get members(): readonly number[] {
    return this.#shared.members;
  }

  get generation(): number {
    return this.#shared.generation;
  }

  async exchange(outgoing: readonly Uint8Array[]): Promise<readonly Uint8Array[]> {
    if (this.#generation !== this.generation) this.#next = 0;
    this.#generation = this.generation;
    return await this.#shared.exchange(this.#next++, this.members.indexOf(this.#rank), outgoing);
  }
}
