// server-pacer — the pacer of a server, and what it gathers: updates of parameters with sync updates, until every worker's has come.

import type { Clock } from "../../base/clock.ts";
import { Pacer } from "../../consistency/pacer.ts";
import type { PushCounter } from "../../consistency/push-counts.ts";
import type { CompleteRound } from "../../consistency/update-rounds.ts";

/** Of a block or of rows (consistency/update-rounds.ts). */
export interface ServerUpdate {
  applyRound(round: CompleteRound<ServerUpdate>): void;
  free(): void;
}

export type ServerPacer = Pacer<ServerUpdate>;

const PARKED_READS_MAX = 65_536;
const PARKED_BYTES_MAX = 2 ** 28;
const CONTRIBUTIONS_MAX = 2 ** 20;
const GATHERED_BYTES_MAX = 2 ** 31;

export function serverPacer(clock: Clock, workerCount: number, counter: PushCounter): ServerPacer {
  return new Pacer<ServerUpdate>({
    clock,
    counter,
    expectedCount: workerCount,
    parkedReadsMax: PARKED_READS_MAX,
    parkedBytesMax: PARKED_BYTES_MAX,
    contributionsMax: CONTRIBUTIONS_MAX,
    gatheredBytesMax: GATHERED_BYTES_MAX,
  });
}
