// key-rounds — who has pushed which key, which rounds are complete, and what follows when a device ends. What becomes
// of pulls is key-pulls.ts; what is to be done for a round, and by whom, task-queue.ts. Decisions on the words of a
// model (key-record.ts), made by whichever thread has the lock; no data move here, nothing waits.
//
//   a round      open: devices push → complete → reduced: any threads, share by share → (exchanged: the owner) → there
//
// Invariants:
//   KeyRounds.R1. A round is complete when every live device has pushed; a device pushes once in a round.
//   KeyRounds.R2. Rounds of a key are reduced, exchanged and there one after the other.
//   KeyRounds.R3. The result of round r lies in version r % 2. Round r + 2 is not reduced before every pull of round r
//       has ended, and not pushed to before round r is there.
//   KeyRounds.R4. A pull is bound to the last round that its device pushed; without a push, to round 0 if the key has
//       weights, else to round 1.
//   KeyRounds.R5. A push that was dropped (its round failed) makes the pulls of that device fail until it pushes again.

import { badArgument, WeighbridgeError } from "../../base/errors.ts";
import { KeyPulls, type PullNews } from "./key-pulls.ts";
import { DEVICE, FACT, KeyRecords, PRIORITY_MIN, RECORD, WORK, WORK_STATE } from "./key-record.ts";
import { type ModelWords, OWNER } from "./model-words.ts";
import { TaskHeap } from "./task-heap.ts";
import { TaskQueue, type TaskRules } from "./task-queue.ts";

/** How tasks are shared out, and what a device that ends means. */
export type RoundRules = TaskRules & {
  /** Whether rounds go on with the devices that are left when one ends. */
  readonly goesOn: boolean;
  /** The devices as users number them, by their positions. */
  readonly devices: readonly number[];
};

/**
 * Called, with the lock, when a task begins: returns into how many shares it is cut. `round` is that of a reduce, 0 for
 * a hand-out.
 */
export type TaskBegin = (keyIndex: number, round: number) => number;

export type KeyFacts = { readonly isGather: boolean; readonly hasWeights: boolean; readonly isExchanged: boolean };

export class KeyRounds {
  readonly tasks: TaskQueue;
  readonly #model: ModelWords;
  readonly #words: Int32Array;
  readonly #records: KeyRecords;
  readonly #rules: RoundRules;
  readonly #pulls: KeyPulls;
  readonly #exchanges: TaskHeap;

  constructor(model: ModelWords, rules: RoundRules, begins: TaskBegin) {
    this.#model = model;
    this.#words = model.words;
    this.#records = new KeyRecords(model);
    this.#rules = rules;
    this.tasks = new TaskQueue(model, rules, {
      begins: (keyIndex, device) => {
        const isReduce = device < 0;
        const count = begins(keyIndex, isReduce ? this.#nextRound(keyIndex) : 0);
        if (isReduce && !this.#hasFact(keyIndex, FACT.exchange)) this.#pulls.serve(keyIndex, this.#nextRound(keyIndex));
        return count;
      },
      ended: (keyIndex, device, failure) => {
        if (device < 0) this.#endReduce(keyIndex, failure);
        else this.#pulls.endHandOut(keyIndex, device, failure);
      },
    });
    this.#pulls = new KeyPulls(model, this.tasks);
    this.#exchanges = new TaskHeap(model, 2);
  }

  // Keys

  open(key: number, length: number, facts: KeyFacts): number {
    const keyIndex = this.#model.addKey();
    const at = this.#model.keyAt(keyIndex);
    const words = this.#words;
    words[at + RECORD.key] = key;
    words[at + RECORD.length] = length;
    words[at + RECORD.facts] =
      (facts.isGather ? FACT.gather : 0) | (facts.hasWeights ? FACT.weights : 0) | (facts.isExchanged ? FACT.exchange : 0);
    words[at + RECORD.openPriority] = PRIORITY_MIN;
    return keyIndex;
  }

  keyOf(keyIndex: number): { readonly key: number; readonly length: number } & KeyFacts {
    const at = this.#model.keyAt(keyIndex);
    const facts = this.#words[at + RECORD.facts] as number;
    return {
      ...{ key: this.#words[at + RECORD.key] as number, length: (this.#words[at + RECORD.length] as number) >>> 0 },
      isGather: (facts & FACT.gather) !== 0,
      hasWeights: (facts & FACT.weights) !== 0,
      isExchanged: (facts & FACT.exchange) !== 0,
    };
  }

  /** The last round whose result is there, and whether another is being made. */
  stateOf(keyIndex: number): { readonly round: number; readonly isBusy: boolean } {
    const at = this.#model.keyAt(keyIndex);
    return { round: this.#words[at + RECORD.there] as number, isBusy: this.#words[at + RECORD.reduce + WORK.state] !== WORK_STATE.idle };
  }

  // Pushes

  /** The round that a push of this device would be part of. Throws what `push` would. */
  checkPush(keyIndex: number, device: number): number {
    const at = this.#model.keyAt(keyIndex);
    const own = this.#records.deviceAt(keyIndex, device);
    const open = (this.#words[at + RECORD.complete] as number) + 1;
    this.#checkLive(device);
    const key = this.#words[at + RECORD.key];
    if (this.#hasPushed(own, open))
      throw badArgument(`device ${this.#name(device)} has pushed key ${key} in this round already; others have not yet`);
    if ((this.#words[at + RECORD.there] as number) < open - 2)
      throw new WeighbridgeError(
        "QUEUE_FULL",
        `key ${key}: two rounds are under way; device ${this.#name(device)} can push again when the first of them is reduced`,
        { retryable: true },
      );
    return open;
  }

  push(keyIndex: number, device: number, ref: number, priority: number): void {
    const words = this.#words;
    const round = this.checkPush(keyIndex, device);
    const at = this.#model.keyAt(keyIndex);
    const own = this.#records.deviceAt(keyIndex, device);
    words[own + DEVICE.source + (round & 1)] = ref;
    words[own + DEVICE.sourceRound + (round & 1)] = round;
    words[own + DEVICE.pushed] = round;
    words[own + DEVICE.dropped] = 0;
    words[at + RECORD.openPriority] = Math.max(words[at + RECORD.openPriority] as number, priority);
    const arrived = (words[at + RECORD.arrived] as number) + 1;
    words[at + RECORD.arrived] = arrived;
    if (arrived < this.#model.liveCount) return;
    words[at + RECORD.complete] = round;
    words[at + RECORD.arrived] = 0;
    words[at + RECORD.roundPriority + (round & 1)] = words[at + RECORD.openPriority] as number;
    words[at + RECORD.openPriority] = PRIORITY_MIN;
    this.#queueReduce(keyIndex);
  }

  /** What was pushed in a round, in the order of devices; 0 for one that was lost. */
  sourcesOf(keyIndex: number, round: number): number[] {
    const sources = Array<number>(this.#model.deviceCount);
    const version = round & 1;
    for (let device = 0; device < sources.length; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      sources[device] = this.#hasPushed(own, round) ? (this.#words[own + DEVICE.source + version] as number) >>> 0 : 0;
    }
    return sources;
  }

  /** The pulls that the reduce which has begun serves. */
  servedTargets(keyIndex: number): number[] {
    return this.#pulls.servedTargets(keyIndex);
  }

  // Pulls

  /** `target` 0: the home of the device copies. Throws NODE_DEAD and whatever made a round fail. */
  pull(keyIndex: number, device: number, target: number, priority: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const own = this.#records.deviceAt(keyIndex, device);
    this.#checkNotLost(device);
    const dropped = words[own + DEVICE.dropped] as number;
    const pushed = words[own + DEVICE.pushed] as number;
    const round = pushed > 0 || this.#hasFact(keyIndex, FACT.weights) ? pushed : 1; // KeyRounds.R4
    const isThere = (words[at + RECORD.there] as number) >= round;
    if (dropped === 0 && !isThere) this.#checkLive(device);
    this.#pulls.open(keyIndex, device, { round, target, priority });
    if (dropped !== 0) this.#pulls.fail(keyIndex, device, dropped);
    else if (isThere) this.#pulls.release(keyIndex, device);
  }

  targetOf(keyIndex: number, device: number): number {
    return this.#pulls.targetOf(keyIndex, device);
  }

  /** The next of what this thread, the home of the device, has to know; undefined if there is none. */
  hear(device: number): PullNews | undefined {
    const news = this.#pulls.hear(device);
    if (news?.kind === "ended") this.#queueReduce(news.keyIndex); // KeyRounds.R3
    return news;
  }

  /** The home has copied. */
  copied(keyIndex: number, device: number): void {
    this.#pulls.copied(keyIndex, device);
    this.#queueReduce(keyIndex); // KeyRounds.R3
  }

  // Exchanges

  /** A result that the owner has to exchange; -1 if there is none. It calls `exchanged`. */
  claimExchange(): number {
    if (this.#exchanges.size === 0) return -1;
    const keyIndex = this.#records.keyOfTask(this.#exchanges.first);
    this.#exchanges.removeFirst();
    return keyIndex;
  }

  /** `failure` 0: the result is there. */
  exchanged(keyIndex: number, failure: number): void {
    this.#end(keyIndex, failure);
  }

  /** The round that is being made, and the priority that it has. */
  roundInHand(keyIndex: number): { readonly round: number; readonly priority: number; readonly deviceCount: number } {
    const at = this.#model.keyAt(keyIndex);
    const round = (this.#words[at + RECORD.there] as number) + 1;
    const deviceCount = this.sourcesOf(keyIndex, round).filter((ref) => ref !== 0).length;
    return { round, priority: this.#words[at + RECORD.roundPriority + (round & 1)] as number, deviceCount };
  }

  // Devices that end

  /**
   * A device has ended, with this failure: rounds that wait for it fail, unless nobody else has pushed. What it has
   * pushed to rounds that are not complete is dropped.
   */
  lose(device: number, failure: number): void {
    if (!this.#model.isLive(device)) return;
    this.#model.setLive(device, false, failure);
    for (let keyIndex = 0; keyIndex < this.#model.keyCount; keyIndex++) this.#loseFrom(keyIndex, device, failure);
  }

  #loseFrom(keyIndex: number, device: number, failure: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const open = (words[at + RECORD.complete] as number) + 1;
    const lost = this.#records.deviceAt(keyIndex, device);
    this.#pulls.drop(keyIndex, device);
    const hadPushed = this.#hasPushed(lost, open);
    if (hadPushed) {
      words[lost + DEVICE.sourceRound + (open & 1)] = 0;
      words[at + RECORD.arrived] = (words[at + RECORD.arrived] as number) - 1;
    }
    if (hadPushed && this.#rules.goesOn) return;
    for (let other = 0; other < this.#model.deviceCount; other++) {
      const own = this.#records.deviceAt(keyIndex, other);
      if (other === device || !this.#model.isLive(other)) continue;
      if (this.#hasPushed(own, open)) {
        words[own + DEVICE.sourceRound + (open & 1)] = 0;
        words[own + DEVICE.pushed] = open - 1;
        words[own + DEVICE.dropped] = failure; // KeyRounds.R5
      } else if (this.#rules.goesOn) continue;
      this.#pulls.failWaiting(keyIndex, other, open, failure);
    }
    words[at + RECORD.arrived] = 0;
    words[at + RECORD.openPriority] = PRIORITY_MIN;
  }

  #checkNotLost(device: number): void {
    if (!this.#model.isLive(device)) throw this.#model.failure(this.#model.lossOf(device));
  }

  /** Throws NODE_DEAD if the device has ended, or if another has and the model does not go on. */
  #checkLive(device: number): void {
    this.#checkNotLost(device);
    if (this.#rules.goesOn || this.#model.liveCount === this.#model.deviceCount) return;
    let first = 0;
    for (let other = 0; other < this.#model.deviceCount; other++) {
      const loss = this.#model.lossOf(other);
      if (!this.#model.isLive(other) && (first === 0 || loss < first)) first = loss; // others ended because of it
    }
    throw this.#model.failure(first);
  }

  /** As users number it. */
  #name(device: number): number {
    return this.#rules.devices[device] as number;
  }

  // What follows from what

  #hasPushed(own: number, round: number): boolean {
    return this.#words[own + DEVICE.sourceRound + (round & 1)] === round;
  }

  /** The first round that is not there, if it is complete and its version is free (KeyRounds.R2, KeyRounds.R3). */
  #queueReduce(keyIndex: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const work = at + RECORD.reduce;
    const round = (words[at + RECORD.there] as number) + 1;
    if (words[work + WORK.state] !== WORK_STATE.idle || round > (words[at + RECORD.complete] as number)) return;
    if (this.#pulls.isReading(keyIndex, round - 2)) return;
    this.tasks.add(keyIndex, -1, words[at + RECORD.roundPriority + (round & 1)] as number, this.#model.nextSequence());
  }

  #endReduce(keyIndex: number, failure: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    if (failure !== 0 || !this.#hasFact(keyIndex, FACT.exchange)) {
      this.#end(keyIndex, failure);
      return;
    }
    words[at + RECORD.reduce + WORK.state] = WORK_STATE.exchanging;
    this.#exchanges.insert(
      this.#records.taskAt(keyIndex, -1),
      words[at + RECORD.reduce + WORK.priority] as number,
      words[at + RECORD.reduce + WORK.sequence] as number,
    );
    this.#model.ring(OWNER);
  }

  /** The round in hand is over: its result is there, or it failed. */
  #end(keyIndex: number, failure: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const round = (words[at + RECORD.there] as number) + 1;
    words[at + RECORD.there] = round;
    words[at + RECORD.reduce + WORK.state] = WORK_STATE.idle;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      if (failure !== 0 && words[own + DEVICE.pushed] === round) words[own + DEVICE.dropped] = failure; // KeyRounds.R5
    }
    this.#pulls.endRound(keyIndex, round, failure);
    this.#queueReduce(keyIndex);
  }

  #hasFact(keyIndex: number, fact: number): boolean {
    return ((this.#words[this.#model.keyAt(keyIndex) + RECORD.facts] as number) & fact) !== 0;
  }

  /** The round that comes after what is there. */
  #nextRound(keyIndex: number): number {
    return (this.#words[this.#model.keyAt(keyIndex) + RECORD.there] as number) + 1;
  }
}
