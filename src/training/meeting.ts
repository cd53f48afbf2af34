// meeting — the workers of a training wait for each other at the end of an epoch, and tell their clocks. As a barrier, but nobody waits for the dead: every worker
// has one unit, its presence, and it is held when all of them are done; units of the dead are dealt to the others. Once held it stays so, for everybody who asks.
//
//   a row for each worker, on the servers      meetings it has come to (of this training) | its clock div 2^24 | its clock mod 2^24
//
// Invariants:
//   A1. All who meet read the same rows: each writes its own before it says that it is there.
//   A2. A meeting ends: when all who live are there, or with DEADLINE and the ranks of those who are not.

import type { Embedding } from "../api/embedding.ts";
import type { Session } from "../api/session.ts";
import type { WaitOptions } from "../base/deferred.ts";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import type { Unit, UnitFeed } from "../worker/unit-feed.ts";

/** Float32 counts exactly up to here: a clock is written as two numbers below it. */
const HALF = 2 ** 24;
const ROW_FLOATS = 3;
/** How long a worker waits before it asks again. */
const IDLE_MS = 1000;
/** How long it is asked who is missing, after a deadline has passed. */
const LOOK_DEADLINE_MS = 1000;

/** Which meeting of which training: no two are the same. */
export type MeetingName = { readonly name: string; readonly epoch: number };

export class Meeting {
  readonly #session: Session;
  readonly #name: MeetingName;
  readonly #presence: Embedding;
  readonly #feed: UnitFeed;
  readonly #wait: WaitOptions;
  readonly #until: number;

  private constructor(session: Session, name: MeetingName, wait: WaitOptions, parts: { presence: Embedding; feed: UnitFeed }) {
    this.#session = session;
    this.#name = name;
    this.#presence = parts.presence;
    this.#feed = parts.feed;
    this.#wait = wait;
    this.#until = performance.now() + (wait.deadlineMs ?? Infinity);
  }

  /** This worker is there from now on; it may leave, and come again. `idleMs`: how long one ask waits for the others. */
  static async open(session: Session, meeting: MeetingName, wait: WaitOptions, idleMs: number = IDLE_MS): Promise<Meeting> {
    const { clocks, rank, workerCount: partCount } = session;
    const { name, epoch } = meeting;
    // Not as many rows as there are workers: a training may go on from its checkpoint with more or fewer of them.
    const options = { dim: ROW_FLOATS, optimizer: { type: "assign" }, consistency: "asp" } as const;
    const presence = await session.embedding(`${name}.meeting`, options, wait);
    await presence.push([rank], Float32Array.of(epoch + 1, Math.floor(clocks / HALF), clocks % HALF), wait); // A1
    const { deadlineMs = Infinity } = wait;
    const units = { epoch, batchCount: 1, partCount, assignment: "even", idleMs: Math.min(idleMs, deadlineMs / 4) } as const;
    const feed = await session.units(`${name}.meeting`, units, wait);
    return new Meeting(session, meeting, wait, { presence, feed });
  }

  /** Whether all who live have come; asks once, and waits for them a little. Rejects with DEADLINE (A2). */
  async isHeld(): Promise<boolean> {
    for (;;) {
      const unit = await this.#next();
      if (unit === "over") return true;
      if (unit !== "idle") this.#feed.done(unit.unit);
      else if (performance.now() < this.#until) return false;
      else throw await this.#missed();
    }
  }

  /** The highest clock that anybody came with. Of a meeting that was held. */
  async highestClock(): Promise<number> {
    const rows = await this.#presence.pull(this.#ranks, undefined, this.#wait);
    return this.#ranks.reduce((most, rank) => Math.max(most, rows[rank * ROW_FLOATS + 1]! * HALF + rows[rank * ROW_FLOATS + 2]!), 0);
  }

  async close(): Promise<void> {
    await this.#feed.close();
  }

  get #ranks(): number[] {
    return Array.from({ length: this.#session.workerCount }, (_, rank) => rank);
  }

  async #next(): Promise<Unit | "idle" | "over"> {
    try {
      return await this.#feed.next(this.#wait);
    } catch (thrown) {
      throw isWeighbridgeError(thrown, "DEADLINE") ? await this.#missed() : thrown;
    }
  }

  async #missed(): Promise<WeighbridgeError> {
    const { name, epoch } = this.#name;
    const message = `waited ${this.#wait.deadlineMs} ms at the end of epoch ${epoch + 1} of "${name}" for ${await this.#missing()}`;
    return new WeighbridgeError("DEADLINE", message, { retryable: true });
  }

  /** Those who have not come, the dead among them. */
  async #missing(): Promise<string> {
    try {
      const rows = await this.#presence.pull(this.#ranks, undefined, { deadlineMs: LOOK_DEADLINE_MS });
      const absent = this.#ranks.filter((rank) => rows[rank * ROW_FLOATS]! <= this.#name.epoch);
      return absent.length === 0
        ? "all workers to be told that they are there"
        : `worker${absent.length > 1 ? "s" : ""} ${absent.join(", ")}`;
    } catch {
      return "the other workers"; // the servers do not say
    }
  }
}
