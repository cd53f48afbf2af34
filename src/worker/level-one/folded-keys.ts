// folded-keys — the words of keys whose rounds are counted for a whole list (list-rounds.ts): whether a key may be
// folded, and what its words have to say when it is unfolded. Made with the lock, as all decisions on words.
//
// Invariants:
//   FoldedKeys.F1. A key is calm if every device has pushed to and pulled every round that was begun, and none failed:
//       then its words say no more than how many rounds there were.

import { DEVICE, FACT, KeyRecords, PULL_STATE, RECORD, WORK, WORK_STATE } from "./key-record.ts";
import type { ModelWords } from "./model-words.ts";
import type { Claim } from "./task-queue.ts";

/** A round whose reduce has begun, and which serves a pull of every device; by device. */
export type ServedRound = { readonly sources: readonly number[]; readonly targets: readonly number[]; readonly priority: number };

export class FoldedKeys {
  readonly #model: ModelWords;
  readonly #words: Int32Array;
  readonly #records: KeyRecords;

  constructor(model: ModelWords) {
    this.#model = model;
    this.#words = model.words;
    this.#records = new KeyRecords(model);
  }

  /** FoldedKeys.F1. False as well for a key whose rounds are exchanged or gathered, and when a device has ended. */
  isCalm(keyIndex: number): boolean {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const there = words[at + RECORD.there];
    if (this.#model.liveCount < this.#model.deviceCount) return false;
    if (((words[at + RECORD.facts] as number) & (FACT.exchange | FACT.gather)) !== 0) return false;
    if (words[at + RECORD.complete] !== there || words[at + RECORD.arrived] !== 0) return false;
    if (words[at + RECORD.reduce + WORK.state] !== WORK_STATE.idle) return false;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      if (words[own + DEVICE.pushed] !== there || words[own + DEVICE.dropped] !== 0) return false;
      if (words[own + DEVICE.pullState] !== PULL_STATE.none) return false;
    }
    return true;
  }

  /** How many rounds there were. */
  roundOf(keyIndex: number): number {
    return this.#words[this.#model.keyAt(keyIndex) + RECORD.there] as number;
  }

  /** The key is calm after this round. */
  advance(keyIndex: number, round: number): void {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    words[at + RECORD.there] = round;
    words[at + RECORD.complete] = round;
    for (let device = 0; device < this.#model.deviceCount; device++)
      words[this.#records.deviceAt(keyIndex, device) + DEVICE.pushed] = round;
  }

  /** The round after this one is being reduced, for a key that `advance` brought here. Returns the claim to finish. */
  begin(keyIndex: number, { sources, targets, priority }: ServedRound): Claim {
    const words = this.#words;
    const at = this.#model.keyAt(keyIndex);
    const round = this.roundOf(keyIndex) + 1;
    words[at + RECORD.complete] = round;
    words[at + RECORD.roundPriority + (round & 1)] = priority;
    for (let device = 0; device < this.#model.deviceCount; device++) {
      const own = this.#records.deviceAt(keyIndex, device);
      words[own + DEVICE.source + (round & 1)] = sources[device] as number;
      words[own + DEVICE.sourceRound + (round & 1)] = round;
      words[own + DEVICE.pushed] = round;
      words[own + DEVICE.pullRound] = round;
      words[own + DEVICE.pullTarget] = targets[device] as number;
      words[own + DEVICE.pullState] = PULL_STATE.served;
    }
    const work = at + RECORD.reduce;
    words[work + WORK.state] = WORK_STATE.running;
    words[work + WORK.next] = 1;
    words[work + WORK.done] = 0;
    words[work + WORK.count] = 1;
    words[work + WORK.active] = 1;
    words[work + WORK.failure] = 0;
    return { keyIndex, device: -1, share: 0, round, failure: 0 };
  }
}
