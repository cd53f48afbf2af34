// real-clock — the Clock of a running process: monotonic time, timers, and the two points of the event loop that the
// data plane uses (nextTick: before further input; setImmediate: after the input of this turn).

import type { CancelTimer, Clock } from "../base/clock.ts";

/** The longest delay that setTimeout accepts, 24.8 days. What is longer, Infinity included, fires then. */
const DELAY_MS_MAX = 2 ** 31 - 1;

/** All of its timers keep the process alive. */
export function realClock(): Clock {
  return REAL_CLOCK;
}

/** Those of the background do not. */
export function backgroundClock(): Clock {
  return BACKGROUND_CLOCK;
}

/** None of its timers keeps the process alive. */
export function idleClock(): Clock {
  return IDLE_CLOCK;
}

const REAL_CLOCK: Clock = {
  nowMs: performance.now.bind(performance),

  after(delayMs: number, fire: () => void): CancelTimer {
    const timer = setTimeout(fire, Math.min(delayMs, DELAY_MS_MAX));
    return () => clearTimeout(timer);
  },

  soon: process.nextTick,
  afterInput: setImmediate,
};

const BACKGROUND_CLOCK: Clock = {
  ...REAL_CLOCK,

  after(delayMs: number, fire: () => void, isBackground = false): CancelTimer {
    const timer = setTimeout(fire, Math.min(delayMs, DELAY_MS_MAX));
    if (isBackground) timer.unref();
    return () => clearTimeout(timer);
  },
};

const IDLE_CLOCK: Clock = { ...REAL_CLOCK, after: (delayMs, fire) => BACKGROUND_CLOCK.after(delayMs, fire, true) };
