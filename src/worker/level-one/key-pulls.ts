// key-pulls — the pulls that devices have of keys: what each is bound to, who brings it the result, and how its home
// hears of its end. When a result is there is decided in key-rounds.ts. Decisions on the words of a model
// (key-record.ts), made by whichever thread has the lock.
//
//   none ──► waits ──► served by the reduce of its round ─────────────┐
//              │  ├──► handed: a task of its own copies the result ───┼──► ended ──► heard by its home: none
//              │  └──► home: only its own thread can copy ──► copied: none
//              └─────────────────────────────────────────────────────────► failed ──► heard by its home: none
//
// Invariants:
//   KeyPulls.U1. A pull comes to an end once, and its home hears of it once.

import { DEVICE, KeyRecords, PULL_STATE, WORK, WORK_STATE } from "./key-record.ts";
import type { ModelWords } from "./model-words.ts";
import type { TaskQueue } from "./task-queue.ts";

/** What the home of a device hears of a pull. */
export type PullNews =
  | { readonly kind: "copy"; readonly keyIndex: number; readonly round: number; readonly priority: number; readonly sequence: number }
  | { readonly kind: "ended"; readonly keyIndex: number }
  | { readonly kind: "failed"; readonly keyIndex: number; readonly failure: number };

export class KeyPulls {
  readonly #model: ModelWords;
  readonly #words: Int32Array;
  readonly #records: KeyRecords;
  readonly #tasks: Pick<TaskQueue, "add">;

  constructor(model: ModelWords, tasks: Pick<TaskQueue, "add">) {
    this.#model = model;
    this.#words = model.words;
    this.#records = new KeyRecords(model);
    this.#tasks = tasks;
  }

  /** A pull of a round begins: it waits. `target` 0: the home of the device copies. */
  open(keyIndex: number, device: number, { round, target, priority }: Readonly<Record<"round" | "target" | "priority", number>>): void {
    const words = this.#words;
    const own = this.#records.deviceAt(keyIndex, device);
    words[own + DEVICE.pullRound] = round;
    words[own + DEVICE.pullTarget] = target;
    words[own + DEVICE.handOut + WORK.priority] = priority;
    words[own + DEVICE.handOut + WORK.sequence] = this.#model.nextSequence();
    words[own + DEVICE.pullState] = PULL_STATE.waits;
  }

  targetOf(keyIndex: number, device: number): number {
    return (this.#words[this.#records.deviceAt(keyIndex, device) + DEVICE.pullTarget] as number) >>> 0;
  }

  /** Whether a pull needs the result of this round. */
  isReading(keyIndex: number, round: number): boolean {
    const words = this.#words;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      const state = words[own + DEVICE.pullState];
      const isOver = state === PULL_STATE.none || state === PULL_STATE.ended || state === PULL_STATE.failed;
      if (!isOver && words[own + DEVICE.pullRound] === round) return true;
    }
    return false;
  }

  /** The reduce of a round begins: those that wait for it, and that it can reach, are served by it. */
  serve(keyIndex: number, round: number): void {
    const words = this.#words;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      if (this.#isWaiting(own, round) && words[own + DEVICE.pullTarget] !== 0) words[own + DEVICE.pullState] = PULL_STATE.served;
    }
  }

  servedTargets(keyIndex: number): number[] {
    const targets = Array<number>(this.#model.deviceCount);
    let count = 0;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      if (this.#words[own + DEVICE.pullState] === PULL_STATE.served)
        targets[count++] = (this.#words[own + DEVICE.pullTarget] as number) >>> 0;
    }
    if (count < targets.length) targets.length = count;
    return targets;
  }

  /** A round is over: its result is there, or it failed. */
  endRound(keyIndex: number, round: number, failure: number): void {
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      const isServed = this.#words[own + DEVICE.pullState] === PULL_STATE.served && this.#words[own + DEVICE.pullRound] === round;
      if (!(isServed || this.#isWaiting(own, round))) continue;
      if (failure !== 0) this.fail(keyIndex, device, failure);
      else if (isServed) this.#end(keyIndex, device, PULL_STATE.ended);
      else this.release(keyIndex, device);
    }
  }

  /** The result that a pull waits for is there. */
  release(keyIndex: number, device: number): void {
    const words = this.#words;
    const own = this.#records.deviceAt(keyIndex, device);
    if (words[own + DEVICE.pullTarget] === 0) {
      this.#end(keyIndex, device, PULL_STATE.home);
      return;
    }
    words[own + DEVICE.pullState] = PULL_STATE.handed;
    const work = own + DEVICE.handOut;
    this.#tasks.add(keyIndex, device, words[work + WORK.priority] as number, words[work + WORK.sequence] as number);
  }

  /** `failure` 0: the task has copied the result. */
  endHandOut(keyIndex: number, device: number, failure: number): void {
    this.#words[this.#records.workAt(keyIndex, device) + WORK.state] = WORK_STATE.idle;
    if (failure !== 0) this.fail(keyIndex, device, failure);
    else this.#end(keyIndex, device, PULL_STATE.ended);
  }

  fail(keyIndex: number, device: number, failure: number): void {
    this.#words[this.#records.workAt(keyIndex, device) + WORK.failure] = failure;
    this.#end(keyIndex, device, PULL_STATE.failed);
  }

  /** The same, if it waits for this round. */
  failWaiting(keyIndex: number, device: number, round: number, failure: number): void {
    if (this.#isWaiting(this.#records.deviceAt(keyIndex, device), round)) this.fail(keyIndex, device, failure);
  }

  /** The device has ended: no waiter is left, unless a task works on it, which ends first. */
  drop(keyIndex: number, device: number): void {
    const own = this.#records.deviceAt(keyIndex, device);
    const state = this.#words[own + DEVICE.pullState];
    if (state !== PULL_STATE.handed && state !== PULL_STATE.served) this.#words[own + DEVICE.pullState] = PULL_STATE.none;
  }

  /** The next of what this thread, the home of the device, has to know; undefined if there is none (KeyPulls.U1). */
  hear(device: number): PullNews | undefined {
    const keyIndex = this.#model.hear(device);
    if (keyIndex < 0) return undefined;
    const words = this.#words;
    const own = this.#records.deviceAt(keyIndex, device);
    const work = own + DEVICE.handOut;
    const state = words[own + DEVICE.pullState];
    if (state === PULL_STATE.home) {
      const [priority, sequence] = [words[work + WORK.priority] as number, words[work + WORK.sequence] as number];
      return { kind: "copy", keyIndex, round: words[own + DEVICE.pullRound] as number, priority, sequence };
    }
    words[own + DEVICE.pullState] = PULL_STATE.none;
    if (state === PULL_STATE.failed) return { kind: "failed", keyIndex, failure: words[work + WORK.failure] as number };
    return { kind: "ended", keyIndex };
  }

  /** The home has copied. */
  copied(keyIndex: number, device: number): void {
    this.#words[this.#records.deviceAt(keyIndex, device) + DEVICE.pullState] = PULL_STATE.none;
  }

  #isWaiting(own: number, round: number): boolean {
    return this.#words[own + DEVICE.pullState] === PULL_STATE.waits && this.#words[own + DEVICE.pullRound] === round;
  }

  #end(keyIndex: number, device: number, state: number): void {
    this.#words[this.#records.deviceAt(keyIndex, device) + DEVICE.pullState] = state;
    this.#model.tell(device, keyIndex);
  }
}
