// key-rounds — who has pushed which key, which rounds are complete, what is to be done for them and by whom. Decisions
// on the words of a model, made by whichever thread has the lock; no data move here, nothing waits.
//
//   a round      open: devices push → complete → reduced: any threads, share by share → (exchanged: the owner) → there
//   a pull       waits for its round  →  served by the reduce, or handed out by a task, or copied by its home  →  ended
//
//   record       key | length | facts | complete | there | arrived | open priority | priority of r, at r % 2 | reduce
//   of a device  push of r: place, round, at r % 2 | last pushed | dropped | pull: state, round, target | hand-out
//   work         state | next share | shares done | shares | threads at it | failure | priority | sequence
//
// Invariants:
//   KeyRounds.R1. A round is complete when every live device has pushed; a device pushes once in a round.
//   KeyRounds.R2. Rounds of a key are reduced, exchanged and there one after the other.
//   KeyRounds.R3. The result of round r lies in version r % 2. Round r + 2 is not reduced before every pull of round r
//       has ended, and not pushed to before round r is there.
//   KeyRounds.R4. A pull is bound to the last round that its device pushed; without a push, to round 0 if the key has
//       weights, else to round 1.
//   KeyRounds.R5. A push that was dropped (its round failed) makes the pulls of that device fail until it pushes again.
//   KeyRounds.R6. A task has at most `threadsMax` threads at it; without preemption (one lane) it keeps its place until
//       all its shares are claimed.

import { WeighbridgeError } from "../../base/errors.ts";
import { type ModelWords, OWNER } from "./model-words.ts";
import { comesBefore, TaskHeap } from "./task-heap.ts";

// Of a key.
const KEY = 0;
const LENGTH = 1;
const FACTS = 2;
const COMPLETE = 3;
const THERE = 4;
const ARRIVED = 5;
const OPEN_PRIORITY = 6;
const ROUND_PRIORITY = 7; // and 8
const REDUCE = 10;
const KEY_WORDS = 20;

// Of a device, for a key.
const SOURCE = 0; // and 1
const SOURCE_ROUND = 2; // and 3
const PUSHED = 4;
const DROPPED = 5;
const PULL_STATE = 6;
const PULL_ROUND = 7;
const PULL_TARGET = 8;
const HAND_OUT = 9;
const DEVICE_WORDS = 18;

// Of work.
const WORK_STATE = 0;
const NEXT = 1;
const DONE = 2;
const COUNT = 3;
const ACTIVE = 4;
const FAILURE = 5;
const PRIORITY = 6;
const SEQUENCE = 7;

const IDLE = 0;
const QUEUED = 1;
const RUNNING = 2;
const EXCHANGING = 3;

const PULL_NONE = 0;
const PULL_WAITS = 1;
const PULL_HANDED = 2;
const PULL_SERVED = 3;
const PULL_HOME = 4;
const PULL_ENDED = 5;
const PULL_FAILED = 6;

const FACT_GATHER = 1;
const FACT_WEIGHTS = 2;
const FACT_EXCHANGE = 4;

const PRIORITY_MIN = -(2 ** 31);
const PRIORITY_MAX = 2 ** 31 - 1;

export function keyWordsFor(deviceCount: number): number {
  return KEY_WORDS + deviceCount * DEVICE_WORDS;
}

/** How tasks are shared out. */
export type RoundRules = {
  /** The threads that reduce one round, or hand it out, together. */
  readonly threadsMax: number;
  /** Whether a reduce that has begun goes first, whatever comes; the same of hand-outs. */
  readonly oneReduceAtATime: boolean;
  readonly oneHandOutAtATime: boolean;
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

/** A share of a task that this thread has to do. `device` is -1 for a reduce. */
export type Claim = { readonly keyIndex: number; readonly device: number; readonly share: number; readonly round: number };

/** What the home of a device hears of a pull. */
export type PullNews =
  | { readonly kind: "copy"; readonly keyIndex: number; readonly round: number; readonly priority: number; readonly sequence: number }
  | { readonly kind: "ended"; readonly keyIndex: number }
  | { readonly kind: "failed"; readonly keyIndex: number; readonly failure: number };

export class KeyRounds {
  readonly #model: ModelWords;
  readonly #words: Int32Array;
  readonly #rules: RoundRules;
  readonly #reduces: TaskHeap;
  readonly #handOuts: TaskHeap;
  readonly #exchanges: TaskHeap;
  readonly #begins: TaskBegin;

  constructor(model: ModelWords, rules: RoundRules, begins: TaskBegin) {
    this.#model = model;
    this.#words = model.words;
    this.#rules = rules;
    this.#reduces = new TaskHeap(model, 0);
    this.#handOuts = new TaskHeap(model, 1);
    this.#exchanges = new TaskHeap(model, 2);
    this.#begins = begins;
  }

  // Keys

  open(key: number, length: number, facts: KeyFacts): number {
    const keyIndex = this.#model.addKey();
    const at = this.#model.keyAt(keyIndex);
    const words = this.#words;
    words[at + KEY] = key;
    words[at + LENGTH] = length;
    words[at + FACTS] =
      (facts.isGather ? FACT_GATHER : 0) | (facts.hasWeights ? FACT_WEIGHTS : 0) | (facts.isExchanged ? FACT_EXCHANGE : 0);
    words[at + OPEN_PRIORITY] = PRIORITY_MIN;
    return keyIndex;
  }

  keyOf(keyIndex: number): { readonly key: number; readonly length: number } & KeyFacts {
    const at = this.#model.keyAt(keyIndex);
    const facts = this.#words[at + FACTS] as number;
    return {
      ...{ key: this.#words[at + KEY] as number, length: (this.#words[at + LENGTH] as number) >>> 0 },
      isGather: (facts & FACT_GATHER) !== 0,
      hasWeights: (facts & FACT_WEIGHTS) !== 0,
      isExchanged: (facts & FACT_EXCHANGE) !== 0,
    };
  }

  /** The last round whose result is there, and whether another is being made. */
  stateOf(keyIndex: number): { readonly round: number; readonly isBusy: boolean } {
    const at = this.#model.keyAt(keyIndex);
    return { round: this.#words[at + THERE] as number, isBusy: this.#words[at + REDUCE + WORK_STATE] !== IDLE };
  }

  // Pushes

  /** The round that a push of this device would be part of. Throws what `push` would. */
  checkPush(keyIndex: number, device: number): number {
    const at = this.#model.keyAt(keyIndex);
    const own = this.#deviceAt(keyIndex, device);
    const open = (this.#words[at + COMPLETE] as number) + 1;
    this.#checkLive(device);
    const key = this.#words[at + KEY];
    if (this.#hasPushed(own, open))
      throw bad(`device ${this.#name(device)} has pushed key ${key} in this round already; others have not yet`);
    if ((this.#words[at + THERE] as number) < open - 2)
      throw new WeighbridgeError(
        "QUEUE_FULL",
        `key ${key}: two rounds are under way; device ${this.#name(device)} can push again when the first of them is reduced`,
        { retryable: true },
      );
    return open;
  }

  push(keyIndex: number, device: number, place: number, priority: number): void {
    const words = this.#words;
    const round = this.checkPush(keyIndex, device);
    const at = this.#model.keyAt(keyIndex);
    const own = this.#deviceAt(keyIndex, device);
    words[own + SOURCE + (round & 1)] = place;
    words[own + SOURCE_ROUND + (round & 1)] = round;
    words[own + PUSHED] = round;
    words[own + DROPPED] = 0;
    words[at + OPEN_PRIORITY] = Math.max(words[at + OPEN_PRIORITY] as number, priority);
    const arrived = (words[at + ARRIVED] as number) + 1;
    words[at + ARRIVED] = arrived;
    if (arrived < this.#model.liveCount) return;
    words[at + COMPLETE] = round;
    words[at + ARRIVED] = 0;
    words[at + ROUND_PRIORITY + (round & 1)] = words[at + OPEN_PRIORITY] as number;
    words[at + OPEN_PRIORITY] = PRIORITY_MIN;
    this.#queueReduce(keyIndex);
  }

  /** What was pushed in a round, in the order of devices; 0 for one that was lost. */
  sourcesOf(keyIndex: number, round: number): number[] {
    const sources: number[] = [];
    const version = round & 1;
    for (let device = 0, own = this.#deviceAt(keyIndex, 0); device < this.#model.deviceCount; device++, own += DEVICE_WORDS)
      sources.push(this.#hasPushed(own, round) ? (this.#words[own + SOURCE + version] as number) >>> 0 : 0);
    return sources;
  }

  /** The pulls that the reduce which has begun serves. */
  servedTargets(keyIndex: number): number[] {
    const targets: number[] = [];
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#deviceAt(keyIndex, device);
      if (this.#words[own + PULL_STATE] === PULL_SERVED) targets.push((this.#words[own + PULL_TARGET] as number) >>> 0);
    }
    return targets;
  }

  // Pulls

  /** `target` 0: the home of the device copies. Throws NODE_DEAD and whatever made a round fail. */
  pull(keyIndex: number, device: number, target: number, priority: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const own = this.#deviceAt(keyIndex, device);
    this.#checkNotLost(device);
    const dropped = words[own + DROPPED] as number;
    const pushed = words[own + PUSHED] as number;
    const bound = pushed > 0 || ((words[at + FACTS] as number) & FACT_WEIGHTS) !== 0 ? pushed : 1; // R4
    const isThere = (words[at + THERE] as number) >= bound;
    if (dropped === 0 && !isThere) this.#checkLive(device);
    words[own + PULL_ROUND] = bound;
    words[own + PULL_TARGET] = target;
    words[own + HAND_OUT + PRIORITY] = priority;
    words[own + HAND_OUT + SEQUENCE] = this.#model.nextSequence();
    words[own + PULL_STATE] = PULL_WAITS;
    if (dropped !== 0) this.#failPull(keyIndex, device, dropped);
    else if (isThere) this.#release(keyIndex, device);
  }

  targetOf(keyIndex: number, device: number): number {
    return (this.#words[this.#deviceAt(keyIndex, device) + PULL_TARGET] as number) >>> 0;
  }

  /** The next of what this thread, the home of the device, has to know; undefined if there is none. */
  hear(device: number): PullNews | undefined {
    const keyIndex = this.#model.hear(device);
    if (keyIndex < 0) return undefined;
    const words = this.#words;
    const own = this.#deviceAt(keyIndex, device);
    const state = words[own + PULL_STATE];
    if (state === PULL_HOME) {
      const [priority, sequence] = [words[own + HAND_OUT + PRIORITY] as number, words[own + HAND_OUT + SEQUENCE] as number];
      return { kind: "copy", keyIndex, round: words[own + PULL_ROUND] as number, priority, sequence };
    }
    words[own + PULL_STATE] = PULL_NONE;
    if (state === PULL_FAILED) return { kind: "failed", keyIndex, failure: words[own + HAND_OUT + FAILURE] as number };
    this.#queueReduce(keyIndex); // R3
    return { kind: "ended", keyIndex };
  }

  /** The home has copied. */
  copied(keyIndex: number, device: number): void {
    this.#words[this.#deviceAt(keyIndex, device) + PULL_STATE] = PULL_NONE;
    this.#queueReduce(keyIndex); // R3
  }

  // Tasks

  /** Of what comes next, to compare with what only this thread can do; undefined if nothing does. */
  next(): { readonly priority: number; readonly sequence: number } | undefined {
    const heap = this.#nextHeap();
    return heap === undefined ? undefined : { priority: heap.firstPriority, sequence: heap.firstSequence };
  }

  /** A share of the task that comes first; undefined if there is none. The thread has to call `finish` or `fail`. */
  claim(): Claim | undefined {
    const heap = this.#nextHeap();
    if (heap === undefined) return undefined;
    const words = this.#words;
    const task = heap.first;
    const { keyIndex, device } = this.#taskOf(task);
    const work = this.#workAt(keyIndex, device);
    if (words[work + WORK_STATE] === QUEUED) this.#begin(keyIndex, device, heap);
    const share = words[work + NEXT] as number;
    words[work + NEXT] = share + 1;
    const active = (words[work + ACTIVE] as number) + 1;
    words[work + ACTIVE] = active;
    const left = (words[work + COUNT] as number) - share - 1;
    if (left === 0 || active >= this.#rules.threadsMax)
      heap.removeFirst(); // R6
    else this.#model.ringSleepers(Math.min(left, this.#rules.threadsMax - active));
    this.#model.setClaim(task + 1);
    return { keyIndex, device, share, round: this.#roundOf(keyIndex, device) };
  }

  /** This thread has done its share. */
  finish({ keyIndex, device }: Claim): void {
    this.#model.setClaim(0);
    const work = this.#workAt(keyIndex, device);
    this.#words[work + DONE] = (this.#words[work + DONE] as number) + 1;
    this.#leave(keyIndex, device);
  }

  /** A share came to nothing: the whole task fails once nobody is at it. */
  fail({ keyIndex, device }: Pick<Claim, "keyIndex" | "device">, failure: number): void {
    this.#model.setClaim(0);
    const work = this.#workAt(keyIndex, device);
    this.#words[work + FAILURE] = failure;
    this.#leave(keyIndex, device);
  }

  /** Whether this thread alone has something to look at: pulls of its devices, or, as the owner, results to exchange. */
  get hasNews(): boolean {
    return this.#model.hasNews || (this.#model.thread === OWNER && this.#exchanges.size > 0);
  }

  /** A result that the owner has to exchange; -1 if there is none. It calls `exchanged`. */
  claimExchange(): number {
    if (this.#exchanges.size === 0) return -1;
    const { keyIndex } = this.#taskOf(this.#exchanges.first);
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
    const round = (this.#words[at + THERE] as number) + 1;
    const deviceCount = this.sourcesOf(keyIndex, round).filter((place) => place !== 0).length;
    return { round, priority: this.#words[at + ROUND_PRIORITY + (round & 1)] as number, deviceCount };
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

  /** A thread has ended within a share: that task fails. Returns it; undefined if there was none. */
  abandon(thread: number, failure: number): { readonly keyIndex: number; readonly device: number } | undefined {
    const claimed = this.#model.claimOf(thread);
    if (claimed === 0) return undefined;
    this.#model.setClaim(0, thread);
    const claim = this.#taskOf(claimed - 1);
    const work = this.#workAt(claim.keyIndex, claim.device);
    this.#words[work + FAILURE] = failure;
    this.#leave(claim.keyIndex, claim.device);
    return claim;
  }

  #loseFrom(keyIndex: number, device: number, failure: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const open = (words[at + COMPLETE] as number) + 1;
    const lost = this.#deviceAt(keyIndex, device);
    const ownPull = words[lost + PULL_STATE];
    if (ownPull !== PULL_HANDED && ownPull !== PULL_SERVED) words[lost + PULL_STATE] = PULL_NONE;
    const hadPushed = this.#hasPushed(lost, open);
    if (hadPushed) {
      words[lost + SOURCE_ROUND + (open & 1)] = 0;
      words[at + ARRIVED] = (words[at + ARRIVED] as number) - 1;
    }
    if (hadPushed && this.#rules.goesOn) return;
    for (let other = 0; other < this.#model.deviceCount; other++) {
      const own = this.#deviceAt(keyIndex, other);
      if (other === device || !this.#model.isLive(other)) continue;
      if (this.#hasPushed(own, open)) {
        words[own + SOURCE_ROUND + (open & 1)] = 0;
        words[own + PUSHED] = open - 1;
        words[own + DROPPED] = failure; // R5
      } else if (this.#rules.goesOn) continue;
      if (words[own + PULL_STATE] === PULL_WAITS && words[own + PULL_ROUND] === open) this.#failPull(keyIndex, other, failure);
    }
    words[at + ARRIVED] = 0;
    words[at + OPEN_PRIORITY] = PRIORITY_MIN;
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
    return this.#words[own + SOURCE_ROUND + (round & 1)] === round;
  }

  /** The first round that is not there, if it is complete and its version is free (R2, R3). */
  #queueReduce(keyIndex: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const work = at + REDUCE;
    const round = (words[at + THERE] as number) + 1;
    if (words[work + WORK_STATE] !== IDLE || round > (words[at + COMPLETE] as number)) return;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#deviceAt(keyIndex, device);
      const isOpen = words[own + PULL_STATE] !== PULL_NONE && words[own + PULL_STATE] !== PULL_FAILED;
      if (isOpen && words[own + PULL_STATE] !== PULL_ENDED && words[own + PULL_ROUND] === round - 2) return;
    }
    this.#queue(this.#reduces, work, keyIndex, -1, words[at + ROUND_PRIORITY + (round & 1)] as number, this.#model.nextSequence());
  }

  #queue(heap: TaskHeap, work: number, keyIndex: number, device: number, priority: number, sequence: number): void {
    const words = this.#words;
    words[work + WORK_STATE] = QUEUED;
    words[work + PRIORITY] = priority;
    words[work + SEQUENCE] = sequence;
    words[work + FAILURE] = 0;
    heap.insert(this.#taskAt(keyIndex, device), priority, sequence);
    this.#model.ringSleepers(1);
  }

  /** A task begins: its shares are counted, and which pulls a reduce serves is decided. */
  #begin(keyIndex: number, device: number, heap: TaskHeap): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const work = this.#workAt(keyIndex, device);
    words[work + WORK_STATE] = RUNNING;
    words[work + NEXT] = 0;
    words[work + DONE] = 0;
    words[work + ACTIVE] = 0;
    words[work + COUNT] = this.#begins(keyIndex, device < 0 ? (words[at + THERE] as number) + 1 : 0);
    if (device < 0 ? this.#rules.oneReduceAtATime : this.#rules.oneHandOutAtATime) {
      heap.keepFirst();
      words[work + PRIORITY] = PRIORITY_MAX;
    }
    if (device >= 0 || ((words[at + FACTS] as number) & FACT_EXCHANGE) !== 0) return;
    const round = (words[at + THERE] as number) + 1;
    for (let other = 0; other < this.#model.deviceCount; other++) {
      const own = this.#deviceAt(keyIndex, other);
      const isServed = words[own + PULL_STATE] === PULL_WAITS && words[own + PULL_ROUND] === round && words[own + PULL_TARGET] !== 0;
      if (isServed) words[own + PULL_STATE] = PULL_SERVED;
    }
  }

  /** A thread leaves a task: it may be the last, or others may take its place. */
  #leave(keyIndex: number, device: number): void {
    const words = this.#words;
    const work = this.#workAt(keyIndex, device);
    const heap = device < 0 ? this.#reduces : this.#handOuts;
    const active = (words[work + ACTIVE] as number) - 1;
    const wasFull = active + 1 >= this.#rules.threadsMax;
    words[work + ACTIVE] = active;
    const hasFailed = words[work + FAILURE] !== 0;
    const isLeft = (words[work + NEXT] as number) < (words[work + COUNT] as number);
    if (isLeft && hasFailed) words[work + NEXT] = words[work + COUNT] as number;
    if (isLeft && !hasFailed) {
      if (wasFull) heap.insert(this.#taskAt(keyIndex, device), words[work + PRIORITY] as number, words[work + SEQUENCE] as number);
      return;
    }
    if (active > 0) return;
    if (!hasFailed && (words[work + DONE] as number) < (words[work + COUNT] as number)) return;
    if (device >= 0) this.#endHandOut(keyIndex, device);
    else this.#endReduce(keyIndex);
  }

  #endReduce(keyIndex: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const failure = words[at + REDUCE + FAILURE] as number;
    if (failure !== 0 || ((words[at + FACTS] as number) & FACT_EXCHANGE) === 0) {
      this.#end(keyIndex, failure);
      return;
    }
    words[at + REDUCE + WORK_STATE] = EXCHANGING;
    this.#exchanges.insert(this.#taskAt(keyIndex, -1), words[at + REDUCE + PRIORITY] as number, words[at + REDUCE + SEQUENCE] as number);
    this.#model.ring(OWNER);
  }

  #endHandOut(keyIndex: number, device: number): void {
    const words = this.#words;
    const own = this.#deviceAt(keyIndex, device);
    const failure = words[own + HAND_OUT + FAILURE] as number;
    words[own + HAND_OUT + WORK_STATE] = IDLE;
    if (failure !== 0) this.#failPull(keyIndex, device, failure);
    else this.#endPull(keyIndex, device, PULL_ENDED);
  }

  /** The round in hand is over: its result is there, or it failed. */
  #end(keyIndex: number, failure: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const round = (words[at + THERE] as number) + 1;
    words[at + THERE] = round;
    words[at + REDUCE + WORK_STATE] = IDLE;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#deviceAt(keyIndex, device);
      const state = words[own + PULL_STATE];
      if (failure !== 0 && words[own + PUSHED] === round) words[own + DROPPED] = failure; // R5
      if (!(state === PULL_WAITS || state === PULL_SERVED) || words[own + PULL_ROUND] !== round) continue;
      if (failure !== 0) this.#failPull(keyIndex, device, failure);
      else if (state === PULL_SERVED) this.#endPull(keyIndex, device, PULL_ENDED);
      else this.#release(keyIndex, device);
    }
    this.#queueReduce(keyIndex);
  }

  /** The result that a pull waits for is there. */
  #release(keyIndex: number, device: number): void {
    const words = this.#words;
    const own = this.#deviceAt(keyIndex, device);
    if (words[own + PULL_TARGET] === 0) {
      this.#endPull(keyIndex, device, PULL_HOME);
      return;
    }
    words[own + PULL_STATE] = PULL_HANDED;
    const work = own + HAND_OUT;
    this.#queue(this.#handOuts, work, keyIndex, device, words[work + PRIORITY] as number, words[work + SEQUENCE] as number);
  }

  #failPull(keyIndex: number, device: number, failure: number): void {
    this.#words[this.#deviceAt(keyIndex, device) + HAND_OUT + FAILURE] = failure;
    this.#endPull(keyIndex, device, PULL_FAILED);
  }

  #endPull(keyIndex: number, device: number, state: number): void {
    this.#words[this.#deviceAt(keyIndex, device) + PULL_STATE] = state;
    this.#model.tell(device, keyIndex);
  }

  /** The heap whose first task comes next. */
  #nextHeap(): TaskHeap | undefined {
    const [reduces, handOuts] = [this.#withoutFailed(this.#reduces), this.#withoutFailed(this.#handOuts)];
    if (reduces.size === 0) return handOuts.size === 0 ? undefined : handOuts;
    if (handOuts.size === 0) return reduces;
    const isReduce = comesBefore(reduces.firstPriority, reduces.firstSequence, handOuts.firstPriority, handOuts.firstSequence);
    return isReduce ? reduces : handOuts;
  }

  /** A task that failed while it had shares left stays in its heap until it comes first. */
  #withoutFailed(heap: TaskHeap): TaskHeap {
    for (; heap.size > 0; heap.removeFirst()) {
      const { keyIndex, device } = this.#taskOf(heap.first);
      const work = this.#workAt(keyIndex, device);
      const state = this.#words[work + WORK_STATE];
      if (state === QUEUED || (state === RUNNING && (this.#words[work + NEXT] as number) < (this.#words[work + COUNT] as number))) break;
    }
    return heap;
  }

  #taskAt(keyIndex: number, device: number): number {
    return keyIndex * (this.#model.deviceCount + 1) + device + 1;
  }

  #taskOf(task: number): { readonly keyIndex: number; readonly device: number } {
    const perKey = this.#model.deviceCount + 1;
    return { keyIndex: Math.floor(task / perKey), device: (task % perKey) - 1 };
  }

  #workAt(keyIndex: number, device: number): number {
    return device < 0 ? this.#model.keyAt(keyIndex) + REDUCE : this.#deviceAt(keyIndex, device) + HAND_OUT;
  }

  #roundOf(keyIndex: number, device: number): number {
    const at = device < 0 ? this.#model.keyAt(keyIndex) + THERE : this.#deviceAt(keyIndex, device) + PULL_ROUND;
    return (this.#words[at] as number) + (device < 0 ? 1 : 0);
  }

  #deviceAt(keyIndex: number, device: number): number {
    return this.#model.keyAt(keyIndex) + KEY_WORDS + device * DEVICE_WORDS;
  }
}

function bad(message: string): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", message);
}
