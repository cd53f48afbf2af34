// server-pacer — the pacer of a server, and what it gathers: updates of parameters with sync updates, until every worker's has come.

import type { Clock } from "../../base/clock.ts";
import { Pacer } from "../../consistency/pacer.ts";
import type { PushCounter } from "../../consistency/push-counts.ts";
import type { Contribution } from "../../consistency/update-rounds.ts";

/** What one worker pushed at one clock to one thing that is reduced as a whole. */
export interface GatheredUpdate {
  /** Applies this and the others of its round, in their order, as one update, and frees all of them. */
  applyRound(contributions: readonly Contribution<GatheredUpdate>[]): void;
  free(): void;
}

export type ServerPacer = Pacer<GatheredUpdate>;

const PARKED_READS_MAX = 65_536;
const PARKED_BYTES_MAX = 2 ** 28;
const CONTRIBUTIONS_MAX = 2 ** 20;
const GATHERED_BYTES_MAX = 2 ** 31;

export function serverPacer(clock: Clock, workerCount: number, counter: PushCounter): ServerPacer {
  return new Pacer<GatheredUpdate>({
    clock,
    counter,
    expectedCount: workerCount,
    parkedReadsMax: PARKED_READS_MAX,
    parkedBytesMax: PARKED_BYTES_MAX,
    contributionsMax: CONTRIBUTIONS_MAX,
    gatheredBytesMax: GATHERED_BYTES_MAX,
    applyRound: ({ contributions }) => contributions[0]?.handle.applyRound(contributions),
    discard: (update) => update.free(),
  });
}
