// rest-of — what is left of a deadline that several waits share.

import type { Clock } from "../base/clock.ts";

/** What is left of a deadline that begins now. */
export function restOf(deadlineMs: number | undefined, clock: Clock): () => number | undefined {
  const fromMs = clock.nowMs();
  return () => (deadlineMs === undefined ? undefined : Math.max(0, deadlineMs - (clock.nowMs() - fromMs)));
}
