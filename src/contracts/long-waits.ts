// long-waits — from when on a wait for clocks is long, and what a server tells a worker whose reads wait so long
// (docs/decisions/0085).

import { contract } from "./contract.ts";
import type { WorkerFunction } from "./worker-function.ts";

/** From when on a wait is long. */
export const LONG_MS = 5000;

/** What the reads wait for, in words. */
const awaited = { waits: "string" } as const;
const nothing = {} as const;

/** What a worker serves: its reads have waited for clocks for so long that a person should know what for. */
export const clockAwaited: WorkerFunction<typeof awaited, typeof nothing> = {
  ...contract({ name: "wb/clock/awaited", target: "worker", effect: "update", request: awaited, response: nothing }),
  isInPlace: false,
};
