// task-queue — the tasks of a model that are ready, and the threads that work on them: which task comes next, which
// thread has which share, when a task is over. key-rounds.ts decides what a task is for. Decisions on the words of a
// model, made by the thread that has the lock.
//
// Invariants:
//   TaskQueue.Q1. Tasks are begun highest priority first, first come first served within one. A task has at most
//       `threadsMax` threads at it; without preemption (one lane) it keeps its place until all its shares are claimed.
//   TaskQueue.Q2. A run, what a thread claims in one go, is one share of a task that has several, or whole tasks that
//       have RUN_ELEMENTS_MAX elements together: an urgent task waits for no more than that.
//   TaskQueue.Q3. The claims of a thread are in its words until it has finished them: if it ends before, they fail.

import { DEVICE, KeyRecords, PRIORITY_MAX, RECORD, WORK, WORK_STATE } from "./key-record.ts";
import { CLAIMS_MAX, type ModelWords } from "./model-words.ts";
import { comesBefore, TaskHeap } from "./task-heap.ts";

/** A quarter of a share of f32. */
const RUN_ELEMENTS_MAX = 65_536;

/** How tasks are shared out. */
export type TaskRules = {
  /** The threads that reduce one round, or hand it out, together. */
  readonly threadsMax: number;
  /** Whether a reduce that has begun goes first, whatever comes; the same of hand-outs. */
  readonly oneReduceAtATime: boolean;
  readonly oneHandOutAtATime: boolean;
};

/** A share of a task that this thread has to do. */
export type Claim = {
  readonly keyIndex: number;
  /** -1 for a reduce. */
  readonly device: number;
  readonly share: number;
  readonly round: number;
  /** The failure of this share, before it is finished: the whole task fails once no thread works on it. */
  failure: number;
};

/** Called with the lock. */
type TaskEvents = {
  /** A task begins; returns into how many shares it is cut. */
  begins(keyIndex: number, device: number): number;
  /** No thread works on the task any more. `failure` 0: all its shares are done. */
  ended(keyIndex: number, device: number, failure: number): void;
};

export class TaskQueue {
  readonly #model: ModelWords;
  readonly #words: Int32Array;
  readonly #records: KeyRecords;
  readonly #rules: TaskRules;
  readonly #events: TaskEvents;
  readonly #reduces: TaskHeap;
  readonly #handOuts: TaskHeap;

  constructor(model: ModelWords, rules: TaskRules, events: TaskEvents) {
    this.#model = model;
    this.#words = model.words;
    this.#records = new KeyRecords(model);
    this.#rules = rules;
    this.#events = events;
    this.#reduces = new TaskHeap(model, 0);
    this.#handOuts = new TaskHeap(model, 1);
  }

  add(keyIndex: number, device: number, priority: number, sequence: number): void {
    const words = this.#words;
    const work = this.#records.workAt(keyIndex, device);
    words[work + WORK.state] = WORK_STATE.queued;
    words[work + WORK.priority] = priority;
    words[work + WORK.sequence] = sequence;
    words[work + WORK.failure] = 0;
    this.#heapOf(device).insert(this.#records.taskAt(keyIndex, device), priority, sequence);
    this.#model.ringSleepers(1);
  }

  /** The priority of what comes next, to compare with what only this thread can do; undefined if nothing waits. */
  next(): { readonly priority: number; readonly sequence: number } | undefined {
    const heap = this.#nextHeap();
    return heap === undefined ? undefined : { priority: heap.firstPriority, sequence: heap.firstSequence };
  }

  /** A run of shares (TaskQueue.Q2); empty if there is nothing to do. The thread has to call `finish`. */
  claim(): Claim[] {
    const run: Claim[] = [];
    for (let elements = 0; run.length < CLAIMS_MAX && elements < RUN_ELEMENTS_MAX; ) {
      const heap = this.#nextHeap();
      if (heap === undefined) break;
      const keyIndex = this.#records.keyOfTask(heap.first);
      const device = this.#records.deviceOfTask(heap.first);
      elements += this.#elementsOf(keyIndex);
      if (run.length > 0 && elements > RUN_ELEMENTS_MAX) break;
      const work = this.#records.workAt(keyIndex, device);
      if (this.#words[work + WORK.state] === WORK_STATE.queued) this.#begin(keyIndex, device, heap);
      const isWhole = this.#words[work + WORK.count] === 1;
      if (run.length > 0 && !isWhole) break;
      run.push(this.#claimShare(keyIndex, device, heap));
      if (!isWhole) break;
    }
    this.#model.setClaims(run.map(({ keyIndex, device }) => this.#records.taskAt(keyIndex, device)));
    return run;
  }

  /**
   * All tasks there are, in their order, for a thread that does them at once and does not end while the model is there.
   */
  claimAll(): Claim[] {
    const [reduces, handOuts] = [this.#reduces.drain(), this.#handOuts.drain()];
    const all: Claim[] = [];
    for (let r = 0, h = 0; r < reduces.length || h < handOuts.length; ) {
      const isReduce = h === handOuts.length || (r < reduces.length && this.#comesFirst(reduces[r] as number, handOuts[h] as number));
      this.#claimWhole((isReduce ? reduces[r++] : handOuts[h++]) as number, all);
    }
    return all;
  }

  /** This thread has done its shares, or those that have a failure came to nothing. */
  finish(claims: readonly Claim[]): void {
    if (claims.length > 0) this.#model.setClaims([]);
    for (const { keyIndex, device, failure } of claims) this.#finishShare(keyIndex, device, failure);
  }

  /** A thread has ended: the tasks of which it had shares fail. Returns the tasks. */
  abandon(thread: number, failure: number): { readonly keyIndex: number; readonly device: number }[] {
    const tasks = this.#model.claimsOf(thread).map((task) => ({
      ...{ keyIndex: this.#records.keyOfTask(task), device: this.#records.deviceOfTask(task) },
    }));
    this.#model.setClaims([], thread);
    for (const { keyIndex, device } of tasks) this.#finishShare(keyIndex, device, failure);
    return tasks;
  }

  /** A task of one share, unless it has failed. */
  #claimWhole(task: number, all: Claim[]): void {
    const words = this.#words;
    const keyIndex = this.#records.keyOfTask(task);
    const device = this.#records.deviceOfTask(task);
    const work = this.#records.workAt(keyIndex, device);
    if (words[work + WORK.state] !== WORK_STATE.queued) return;
    words[work + WORK.state] = WORK_STATE.running;
    words[work + WORK.next] = 1;
    words[work + WORK.done] = 0;
    words[work + WORK.active] = 1;
    words[work + WORK.count] = this.#events.begins(keyIndex, device);
    all.push({ keyIndex, device, share: 0, round: this.#roundOf(keyIndex, device), failure: 0 });
  }

  /** Of two tasks that wait. */
  #comesFirst(task: number, other: number): boolean {
    const words = this.#words;
    const [a, b] = [this.#workOf(task), this.#workOf(other)];
    return comesBefore(
      words[a + WORK.priority] as number,
      words[a + WORK.sequence] as number,
      words[b + WORK.priority] as number,
      words[b + WORK.sequence] as number,
    );
  }

  #workOf(task: number): number {
    return this.#records.workAt(this.#records.keyOfTask(task), this.#records.deviceOfTask(task));
  }

  #claimShare(keyIndex: number, device: number, heap: TaskHeap): Claim {
    const words = this.#words;
    const work = this.#records.workAt(keyIndex, device);
    const share = words[work + WORK.next] as number;
    words[work + WORK.next] = share + 1;
    const active = (words[work + WORK.active] as number) + 1;
    words[work + WORK.active] = active;
    const left = (words[work + WORK.count] as number) - share - 1;
    if (left === 0 || active >= this.#rules.threadsMax)
      heap.removeFirst(); // TaskQueue.Q1
    else this.#model.ringSleepers(Math.min(left, this.#rules.threadsMax - active));
    return { keyIndex, device, share, round: this.#roundOf(keyIndex, device), failure: 0 };
  }

  /** Its shares are counted. */
  #begin(keyIndex: number, device: number, heap: TaskHeap): void {
    const words = this.#words;
    const work = this.#records.workAt(keyIndex, device);
    words[work + WORK.state] = WORK_STATE.running;
    words[work + WORK.next] = 0;
    words[work + WORK.done] = 0;
    words[work + WORK.active] = 0;
    words[work + WORK.count] = this.#events.begins(keyIndex, device);
    if (device < 0 ? this.#rules.oneReduceAtATime : this.#rules.oneHandOutAtATime) {
      heap.keepFirst();
      words[work + WORK.priority] = PRIORITY_MAX;
    }
  }

  /** A thread leaves a task: it may be the last, or others may take its place. */
  #finishShare(keyIndex: number, device: number, failure: number): void {
    const words = this.#words;
    const work = this.#records.workAt(keyIndex, device);
    if (failure === 0) words[work + WORK.done] = (words[work + WORK.done] as number) + 1;
    else words[work + WORK.failure] = failure;
    const active = (words[work + WORK.active] as number) - 1;
    const wasFull = active + 1 >= this.#rules.threadsMax;
    words[work + WORK.active] = active;
    const hasFailed = words[work + WORK.failure] !== 0;
    const isLeft = (words[work + WORK.next] as number) < (words[work + WORK.count] as number);
    if (isLeft && hasFailed) words[work + WORK.next] = words[work + WORK.count] as number;
    if (isLeft && !hasFailed) {
      if (wasFull) {
        const [priority, sequence] = [words[work + WORK.priority] as number, words[work + WORK.sequence] as number];
        this.#heapOf(device).insert(this.#records.taskAt(keyIndex, device), priority, sequence);
      }
      return;
    }
    if (active > 0) return;
    if (!hasFailed && (words[work + WORK.done] as number) < (words[work + WORK.count] as number)) return;
    this.#events.ended(keyIndex, device, words[work + WORK.failure] as number);
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
      const work = this.#workOf(heap.first);
      const state = this.#words[work + WORK.state];
      if (state === WORK_STATE.queued) break;
      if (state === WORK_STATE.running && (this.#words[work + WORK.next] as number) < (this.#words[work + WORK.count] as number)) break;
    }
    return heap;
  }

  #heapOf(device: number): TaskHeap {
    return device < 0 ? this.#reduces : this.#handOuts;
  }

  #elementsOf(keyIndex: number): number {
    return (this.#words[this.#model.keyAt(keyIndex) + RECORD.length] as number) >>> 0;
  }

  #roundOf(keyIndex: number, device: number): number {
    if (device < 0) return (this.#words[this.#model.keyAt(keyIndex) + RECORD.there] as number) + 1;
    return this.#words[this.#records.deviceAt(keyIndex, device) + DEVICE.pullRound] as number;
  }
}
