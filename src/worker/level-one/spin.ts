// spin — looks at a word that another thread is about to change, without sleeping: to be woken takes 50 to 100 µs. A
// core that looks leaves its means to the other thread of the same core, where the engine can say so.

/** Looks between two looks at the clock. */
const LOOKS = 64;

/** Between two looks. */
const pauseCore: () => void = (Atomics as { readonly pause?: () => void }).pause ?? (() => {});

/** Looks for so long at most; whether it is there. */
export function lookUntil(isThere: () => boolean, lookMs: number, nowMs: () => number): boolean {
  const untilMs = nowMs() + lookMs;
  do
    for (let look = 0; look < LOOKS; look++) {
      if (isThere()) return true;
      pauseCore();
    }
  while (nowMs() < untilMs);
  return false;
}
