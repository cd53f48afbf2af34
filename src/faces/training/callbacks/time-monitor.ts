// time-monitor — prints how long an epoch took (MindSpore: TimeMonitor), in MindSpore's words.

import type { EpochEvent, TrainingCallback } from "./callback.ts";

export class TimeMonitor implements TrainingCallback {
  readonly #print: (line: string) => void;

  constructor(print: (line: string) => void = (line) => console.log(line)) {
    this.#print = print;
  }

  epochEnd({ seconds, step }: EpochEvent): void {
    const milliseconds = seconds * 1000;
    this.#print(`epoch time: ${milliseconds.toFixed(3)} ms, per step time: ${(milliseconds / Math.max(1, step)).toFixed(3)} ms`);
  }
}
