// key-plans — what a thread knows of the keys of a model, and what of it goes to the backend with a task: the owner and
// the devices of the thread have named some, the words of the model tell the others.

import type { KeyRounds } from "./key-rounds.ts";
import { type HandOutTask, type KeyPlan, type ModelTask, type PushOperation, type ReduceTask, versionOf } from "./model-backend.ts";
import type { Claim } from "./task-queue.ts";

export class KeyPlans {
  readonly #rounds: Pick<KeyRounds, "keyOf" | "targetOf" | "sourcesOf" | "servedTargets">;
  readonly #deviceCount: number;
  readonly #plans: KeyPlan[] = [];

  constructor(rounds: Pick<KeyRounds, "keyOf" | "targetOf" | "sourcesOf" | "servedTargets">, deviceCount: number) {
    this.#rounds = rounds;
    this.#deviceCount = deviceCount;
  }

  know(plan: KeyPlan): KeyPlan {
    this.#plans[plan.index] = plan;
    return plan;
  }

  /** Of any key: a thread may do a share of one that its own device has not named. */
  at(keyIndex: number): KeyPlan {
    const known = this.#plans[keyIndex];
    if (known !== undefined) return known;
    const { key, length, isGather } = this.#rounds.keyOf(keyIndex);
    const operation: PushOperation = isGather ? "gather" : "sum";
    const resultLength = isGather ? length * this.#deviceCount : length;
    return this.know({ key, index: keyIndex, shape: [length], length, resultLength, operation });
  }

  /** With the lock. */
  taskOf({ keyIndex, device, round }: Claim): ModelTask {
    const plan = this.at(keyIndex);
    if (device >= 0) {
      const target = this.#rounds.targetOf(keyIndex, device);
      return { kind: "handOut", plan, version: versionOf(round), device, target } satisfies HandOutTask;
    }
    const sources = this.#rounds.sourcesOf(keyIndex, round);
    const targets = this.#rounds.servedTargets(keyIndex);
    return { kind: "reduce", plan, round, version: versionOf(round), sources, targets } satisfies ReduceTask;
  }
}
