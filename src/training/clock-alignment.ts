// clock-alignment — brings the clocks of all workers together, at the end of an epoch: a worker that had nothing to do may have ended more or fewer of them than others,
// and rounds of the next epoch have to be of one batch again. The highest wins, as no clock goes back.
//
//   a row for each worker, on the servers      meetings it has come to (of this training) | its clock div 2^24 | its clock mod 2^24
//
// Invariants:
//   A1. All who meet read the same rows: each writes its own before it says that it is there.
//   A2. A meeting ends: when all who live are there, or with DEADLINE and the ranks of those who are not.

import type { Embedding } from "../api/embedding.ts";
import type { Session } from "../api/session.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";

/** Float32 counts exactly up to here: a clock is written as two numbers below it. */
const HALF = 2 ** 24;
const ROW_FLOATS = 3;
/** How long a worker waits before it asks again. */
const IDLE_MS = 1000;
/** How long it is asked who is missing, after a deadline has passed. */
const LOOK_DEADLINE_MS = 1000;

/** Which meeting of which training: no two are the same. */
export type Meeting = { readonly name: string; readonly epoch: number };

/** Every worker calls it. Rejects with DEADLINE (A2). */
export async function alignClocks(session: Session, meeting: Meeting, wait: WaitOptions): Promise<void> {
  if (session.workerCount === 1) return;
  const { clocks, rank, workerCount: rows } = session;
  const options = { dim: ROW_FLOATS, rows, optimizer: { type: "assign" }, consistency: "asp" } as const;
  const presence = await session.embedding(`${meeting.name}.meeting`, options, wait);
  await presence.push([rank], Float32Array.of(meeting.epoch + 1, Math.floor(clocks / HALF), clocks % HALF), wait); // A1
  await meet(session, presence, meeting, wait);
  const highest = clocksOf(await presence.pull(ranksOf(session), undefined, wait)).reduce((most, clock) => Math.max(most, clock), 0);
  while (session.clocks < highest) session.clock();
}

/**
 * Waits for those who live, as a barrier does for all: every worker has one unit, its presence, and it is over when all of them are done. Units of the dead are
 * dealt to the others, so that nobody waits for them.
 */
async function meet(session: Session, presence: Embedding, { name, epoch }: Meeting, wait: WaitOptions): Promise<void> {
  const { deadlineMs = Infinity } = wait;
  const until = performance.now() + deadlineMs;
  const idleMs = Math.min(IDLE_MS, deadlineMs / 4);
  const options = { epoch, batchCount: 1, partCount: session.workerCount, assignment: "even", idleMs } as const;
  const feed = await session.units(`${name}.meeting`, options, wait);
  try {
    for (let unit = await feed.next(wait); unit !== "over"; unit = await feed.next(wait)) {
      if (unit !== "idle") feed.done(unit.unit);
      else if (performance.now() >= until) {
        const who = await missing(session, presence, epoch);
        const message = `waited ${deadlineMs} ms at the end of epoch ${epoch + 1} of "${name}" for ${who}`;
        throw new WeighbridgeError("DEADLINE", message, { retryable: true });
      }
    }
  } finally {
    await feed.close();
  }
}

/** Those who have not come to this meeting, the dead among them. */
async function missing(session: Session, presence: Embedding, epoch: number): Promise<string> {
  try {
    const rows = await presence.pull(ranksOf(session), undefined, { deadlineMs: LOOK_DEADLINE_MS });
    const absent = ranksOf(session).filter((rank) => rows[rank * ROW_FLOATS]! <= epoch);
    return absent.length === 0
      ? "all workers to be told that they are there"
      : `worker${absent.length > 1 ? "s" : ""} ${absent.join(", ")}`;
  } catch {
    return "the other workers"; // the servers do not say
  }
}

function ranksOf({ workerCount }: Session): number[] {
  return Array.from({ length: workerCount }, (_, rank) => rank);
}

function clocksOf(rows: Float32Array): number[] {
  return Array.from({ length: rows.length / ROW_FLOATS }, (_, rank) => rows[rank * ROW_FLOATS + 1]! * HALF + rows[rank * ROW_FLOATS + 2]!);
}
