// key-record — where the words of a key lie in the memory of a model, what they are called, and how tasks are numbered.
// No decisions: those are key-rounds.ts and task-queue.ts.
//
//   record       key | length | facts | complete | there | arrived | open priority | priority of r, at r % 2 | reduce
//   of a device  push of r: ref, round, at r % 2 | last pushed | dropped | pull: state, round, target | hand-out
//   work         state | next share | shares done | shares | threads at it | failure | priority | sequence
//
// A task is the work of a key's reduce, or of a device's hand-out of it.

import type { ModelWords } from "./model-words.ts";

/** Of a key. */
export const RECORD = {
  key: 0,
  length: 1,
  facts: 2,
  complete: 3,
  there: 4,
  arrived: 5,
  openPriority: 6,
  /** And the word behind it. */
  roundPriority: 7,
  reduce: 10,
} as const;
const RECORD_WORDS = 20;

/** Of a device, for a key. */
export const DEVICE = {
  /** And the word behind it. */
  source: 0,
  /** And the word behind it. */
  sourceRound: 2,
  pushed: 4,
  dropped: 5,
  pullState: 6,
  pullRound: 7,
  pullTarget: 8,
  handOut: 9,
} as const;
const DEVICE_WORDS = 18;

export const WORK = { state: 0, next: 1, done: 2, count: 3, active: 4, failure: 5, priority: 6, sequence: 7 } as const;

export const WORK_STATE = { idle: 0, queued: 1, running: 2, exchanging: 3 } as const;

export const PULL_STATE = { none: 0, waits: 1, handed: 2, served: 3, home: 4, ended: 5, failed: 6 } as const;

export const FACT = { gather: 1, weights: 2, exchange: 4 } as const;

export const PRIORITY_MIN: number = -(2 ** 31);
export const PRIORITY_MAX: number = 2 ** 31 - 1;

export function keyWordsFor(deviceCount: number): number {
  return RECORD_WORDS + deviceCount * DEVICE_WORDS;
}

/** Indexes of words, and numbers of tasks. `device` is -1 for the reduce of a key. */
export class KeyRecords {
  readonly #model: ModelWords;
  readonly #tasksPerKey: number;

  constructor(model: ModelWords) {
    this.#model = model;
    this.#tasksPerKey = model.deviceCount + 1;
  }

  deviceAt(keyIndex: number, device: number): number {
    return this.#model.keyAt(keyIndex) + RECORD_WORDS + device * DEVICE_WORDS;
  }

  workAt(keyIndex: number, device: number): number {
    return device < 0 ? this.#model.keyAt(keyIndex) + RECORD.reduce : this.deviceAt(keyIndex, device) + DEVICE.handOut;
  }

  taskAt(keyIndex: number, device: number): number {
    return keyIndex * this.#tasksPerKey + device + 1;
  }

  keyOfTask(task: number): number {
    return Math.floor(task / this.#tasksPerKey);
  }

  deviceOfTask(task: number): number {
    return (task % this.#tasksPerKey) - 1;
  }
}
