// device-control — what the owner of a training and the threads of its devices tell each other in every step, in shared
// memory: which samples, and that it has begun; the losses. Gradients are level 1's (gradient-sums.ts).
//
//   words     step | samples of each device: first, count     i32
//   numbers   divisor | loss of each device                   f64
//
// Invariants:
//   DeviceControl.D1. The owner writes samples and divisor before it raises `step`; a device writes its loss before it
//       pushes its gradients. Nobody writes what another may still read: a step begins after the one before is summed.

/** Plain data: it can be posted to another thread. */
export type ControlMemory = { readonly words: Int32Array; readonly numbers: Float64Array };

const STEP = 0;
const SAMPLES = 1;
const LOSSES = 1;

export function createControlMemory(deviceCount: number): ControlMemory {
  return {
    words: new Int32Array(new SharedArrayBuffer((SAMPLES + 2 * deviceCount) * Int32Array.BYTES_PER_ELEMENT)),
    numbers: new Float64Array(new SharedArrayBuffer((LOSSES + deviceCount) * Float64Array.BYTES_PER_ELEMENT)),
  };
}

/** Samples `from` to `to` of a unit, for one of `deviceCount` devices. The first device has one if there is any. */
export function shareOf(sampleCount: number, device: number, deviceCount: number): { readonly from: number; readonly to: number } {
  const start = (of: number): number => Math.ceil((of * sampleCount) / deviceCount);
  return { from: start(device), to: start(device + 1) };
}

export class DeviceControl {
  readonly #words: Int32Array;
  readonly #numbers: Float64Array;
  readonly #deviceCount: number;

  constructor({ words, numbers }: ControlMemory) {
    this.#words = words;
    this.#numbers = numbers;
    this.#deviceCount = numbers.length - LOSSES;
  }

  /** The owner deals the samples of a unit and lets all devices begin (D1). */
  begin(sampleCount: number, divisor: number): void {
    this.#numbers[0] = divisor;
    for (let device = 0; device < this.#deviceCount; device++) {
      const { from, to } = shareOf(sampleCount, device, this.#deviceCount);
      this.#words[SAMPLES + 2 * device] = from;
      this.#words[SAMPLES + 2 * device + 1] = to - from;
    }
    Atomics.add(this.#words, STEP, 1);
  }

  /** The number of the step that was begun last; wraps around. */
  get step(): number {
    return Atomics.load(this.#words, STEP);
  }

  samplesOf(device: number): { readonly from: number; readonly count: number } {
    return { from: this.#words[SAMPLES + 2 * device]!, count: this.#words[SAMPLES + 2 * device + 1]! };
  }

  get divisor(): number {
    return this.#numbers[0]!;
  }

  setLoss(device: number, loss: number): void {
    this.#numbers[LOSSES + device] = loss;
  }

  /** Of all devices but the owner's. */
  get otherLosses(): number {
    let sum = 0;
    for (let device = 1; device < this.#deviceCount; device++) sum += this.#numbers[LOSSES + device]!;
    return sum;
  }
}
