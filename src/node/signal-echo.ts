// signal-echo — tells a signal that was sent again from one that came twice. Ctrl-C reaches all processes of a
// terminal, and npx, `timeout` and bin/weighbridge.mjs pass it on to the process that has it already: that is one
// Ctrl-C, and must not end at once what ends in order.

/** Passing on takes milliseconds; a person who presses the keys again takes longer. */
export const ECHO_MS = 300;

export class SignalEcho {
  readonly #nowMs: () => number;
  #signal: NodeJS.Signals | undefined;
  #heardAtMs = -Infinity;

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Whether this is the signal before, which another process has passed on. Each other one is remembered. */
  isEcho(signal: NodeJS.Signals): boolean {
    const nowMs = this.#nowMs();
    if (signal === this.#signal && nowMs - this.#heardAtMs < ECHO_MS) return true;
    this.#signal = signal;
    this.#heardAtMs = nowMs;
    return false;
  }
}
