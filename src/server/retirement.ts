// retirement — what a server that no part is left to waits for before it leaves: that every worker and guest knows the
// placement without it, and has nothing open there. Not when it is to leave: scaling-part.ts.
//
//   retired ──► RETIRE to every client ──► it answers: nothing is open ──► the server leaves
//                    ▲                          │ something is: it is refused, or answered, meanwhile
//                    └──────────────────────────┘
//
// Invariants:
//   Retirement.R1. No call of a client that answers within PART_MS is open at a server that has left: a server that
//       leaves in order fails nothing, also of a guest whose event loop was busy while parts moved.
//   Retirement.R2. A client that does not answer, or speaks of no RETIRE, holds the server for PART_MS at most. One
//       that is dead or forgotten does not hold it: its calls end with the roster.

import type { Clock } from "../base/clock.ts";
import { sleep } from "../base/deferred.ts";
import { RETIRE } from "../contracts/coordination.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { PlacementView } from "../wire/roster.ts";
import { PART_MS } from "./stop-bounds.ts";

const ASK_AGAIN_MS = 5;

/** Ends once these clients have no use for this server any more. Never rejects. */
export async function partFrom(clients: readonly Channel[], placement: PlacementView, clock: Clock): Promise<void> {
  const untilMs = clock.nowMs() + PART_MS;
  await Promise.all(clients.map((client) => part(client, placement, clock, untilMs)));
}

async function part(client: Channel, placement: PlacementView, clock: Clock, untilMs: number): Promise<void> {
  try {
    for (let nowMs = clock.nowMs(); nowMs < untilMs; nowMs = clock.nowMs()) {
      const { openCount } = await callJson(client, RETIRE, { placement }, clock, { timeoutMs: untilMs - nowMs });
      if (openCount === 0) return;
      await sleep(clock, ASK_AGAIN_MS);
    }
  } catch {
    // Retirement.R2
  }
}
