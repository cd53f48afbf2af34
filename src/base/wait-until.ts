// wait-until — the options of a wait that ends at a time, rather than after one.

import type { Clock } from "./clock.ts";
import type { WaitOptions } from "./deferred.ts";

export function waitUntil(untilMs: number, clock: Clock): WaitOptions {
  return { timeoutMs: Math.max(0, untilMs - clock.nowMs()) };
}
