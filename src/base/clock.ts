// clock — time as a dependency. Decisions never read the wall clock or set a timer by themselves: they get a Clock, so
// that a simulated one can drive a whole cluster from a seed.

/** Ends a timer; calling it twice, or after the timer fired, does nothing. */
export type CancelTimer = () => void;

/** What time is measured by. */
export type Clock = {
  /** Milliseconds since an arbitrary moment; never goes back. */
  nowMs(): number;
  /**
   * Calls `fire` once, `delayMs` from now. A timer that runs keeps the process alive; one of the background, which only
   * watches over something, does not where the process ends with its session.
   */
  after(delayMs: number, fire: () => void, isBackground?: boolean): CancelTimer;
  /** Calls `run` soon, after the current call stack and before further input is read. */
  soon(run: () => void): void;
  /** Calls `run` once the input that is ready now has been handled, so that the answers to it can share a write. */
  afterInput(run: () => void): void;
};
