// loss-monitor — prints the loss (MindSpore: LossMonitor), in MindSpore's words: "epoch: 1 step: 1, loss is 2.302287".

import { WeighbridgeError } from "../../../base/errors.ts";
import type { StepEvent, TrainingCallback } from "./callback.ts";

export class LossMonitor implements TrainingCallback {
  readonly #perPrintTimes: number;
  readonly #print: (line: string) => void;
  #stepCount = 0;
  /** Of the last line that was due. */
  #last = { epoch: 0, globalStep: 0 };

  /** A line for the first step and then for every `perPrintTimes`-th; 0: none. Throws BAD_ARGUMENT. */
  constructor(perPrintTimes = 1, print: (line: string) => void = (line) => console.log(line)) {
    if (!(Number.isSafeInteger(perPrintTimes) && perPrintTimes >= 0)) {
      throw new WeighbridgeError("BAD_ARGUMENT", `perPrintTimes is a whole number from 0 on, not ${perPrintTimes}`);
    }
    this.#perPrintTimes = perPrintTimes;
    this.#print = print;
  }

  /** Of each global step one line at most: a part that is made up for after a death is none of its own. */
  stepEnd({ epoch, globalStep, loss }: StepEvent): void {
    if (epoch === this.#last.epoch && globalStep === this.#last.globalStep) return;
    this.#last = { epoch, globalStep };
    this.#stepCount++;
    if (this.#perPrintTimes === 0 || (this.#stepCount > 1 && this.#stepCount % this.#perPrintTimes !== 0)) return;
    this.#print(`epoch: ${epoch} step: ${globalStep}, loss is ${loss.toFixed(6)}`);
  }
}
