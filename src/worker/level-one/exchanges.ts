// exchanges — brings results of level 1 to level 2, in the thread of the owner, and back. Which result is next is
// decided in key-rounds.ts.
//
// Invariants:
//   Exchanges.E1. What level 2 throws fails the round; it ends no thread (LevelOne.L2).

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import type { RowArray } from "../../kernel/row-element.ts";
import type { KeyRounds } from "./key-rounds.ts";
import type { CompletedRound, LevelTwo } from "./level-two.ts";
import { type KeyPlan, type TaskBackend, versionOf } from "./model-backend.ts";
import type { ModelMeter } from "./model-meter.ts";
import type { ModelWords } from "./model-words.ts";

type ExchangesParts = {
  readonly words: ModelWords;
  readonly rounds: KeyRounds;
  readonly meter: ModelMeter;
  readonly backend: Pick<TaskBackend, "borrowResult" | "returnResult">;
  readonly levelTwo: LevelTwo;
  readonly timeline: () => number;
  readonly planOf: (keyIndex: number) => KeyPlan;
  /** A round is over. */
  readonly ended: () => void;
};

export class Exchanges {
  readonly #parts: ExchangesParts;

  constructor(parts: ExchangesParts) {
    this.#parts = parts;
  }

  /** With the lock: the results that are to be exchanged, the first first. Each is begun once. */
  claim(claimed: number[]): void {
    const { rounds } = this.#parts;
    for (let keyIndex = rounds.claimExchange(); keyIndex >= 0; keyIndex = rounds.claimExchange()) claimed.push(keyIndex);
  }

  begin(keyIndex: number): void {
    void this.#exchange(keyIndex);
  }

  async #exchange(keyIndex: number): Promise<void> {
    const { words, rounds, meter, timeline, planOf, ended } = this.#parts;
    const plan = planOf(keyIndex);
    const inHand = words.locked(() => rounds.roundInHand(keyIndex));
    const fromMs = timeline();
    const failure = await this.#tried({ plan, ...inHand });
    if (!words.isOpen) return;
    words.locked(() => {
      meter.note("exchange", keyIndex, -1, fromMs, timeline());
      rounds.exchanged(keyIndex, failure === undefined ? 0 : words.keepFailure(failure));
    });
    ended();
  }

  /** What it failed with (Exchanges.E1). */
  async #tried(completed: Omit<CompletedRound, "values">): Promise<WeighbridgeError | undefined> {
    const { backend, levelTwo } = this.#parts;
    const { plan, round } = completed;
    const version = versionOf(round);
    try {
      const values: RowArray = await backend.borrowResult(plan, version);
      await levelTwo.exchange({ ...completed, values });
      await backend.returnResult(plan, version, values);
      return undefined;
    } catch (thrown) {
      if (isWeighbridgeError(thrown)) return thrown;
      return new WeighbridgeError("HANDLER_FAILED", `round ${round} of key ${plan.key}: ${reasonOf(thrown)}`, { cause: thrown });
    }
  }
}
