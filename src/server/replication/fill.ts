// fill — the head's side of filling a standby that was not there from the start, while training goes on
// (docs/decisions/0068). What is sent: fill-state.ts. The standby's side: log-repeater.ts.
//
//   FILL, entries … ──► PARTS, entries, PARTS, entries … ──► DIGEST … ──► FILLED ── acknowledged ──► the scheduler
//   hears
//   everything that is the server's       part after part       all parts      answers; from here on output waits
//
// All of it are entries of the log, between those of requests, so order, resending and bounds are the log's. From FILL
// on the standby repeats every entry. What it makes of a part that has not come is of no use, and replaced when it
// comes.
//
// Invariants:
//   Fill.F1. A turn copies a bounded share: workers wait for one batch, not for the copy.
//   Fill.F2. What is under way to the standby is bounded: the next batch is made when it has the last one.
//   Fill.F3. Before FILLED, all parts were compared: a standby that differs from its head never counts.
//   Fill.F4. From the turn of FILLED on, output waits for the standby (ReplicaLog.I1); the scheduler hears of it when
//       the standby has FILLED. So the standby has all that anybody was told before it may take over, and all after it.
//   Fill.F5. A read in several frames that came whole before FILL, and whose answer its worker may not have, is unknown
//       to the standby: FILLED waits until the worker has it. A worker that says nothing is given up to LATE_MS.

import type { Clock } from "../../base/clock.ts";
import { freeBuffer } from "../../base/free-buffer.ts";
import { PART_COUNT } from "../../keys/part.ts";
import type { Channel } from "../../peer/channel.ts";
import { freePages } from "../parameters/part-state.ts";
import { type FilledImage, type FilledServer, saveParts, saveServer } from "./fill-state.ts";
import { EntryKind } from "./log-entry.ts";
import type { ReplicaLog } from "./replica-log.ts";
import { digestOfParts } from "./state-digest.ts";

/** Fill.F1: of state, and of parts, which may be many and small. */
const BATCH_BYTES = 512 * 1024;
const BATCH_PARTS = 256;
/** Fill.F5 */
const LOOK_AGAIN_MS = 20;
const LATE_MS = 5000;

export type FillOptions = {
  readonly server: FilledServer;
  readonly log: ReplicaLog;
  readonly clock: Clock;
  /** Called before FILL, once it is known that there can be a copy. */
  readonly begin: () => void;
  /** The last request of each worker that was a read in several frames. */
  readonly longReads: ReadonlyMap<Channel, number>;
  /** The answers that are kept now, and what users' functions keep. */
  readonly answers: () => FilledImage;
  /** The standby has everything, and output waits for it (Fill.F4). */
  readonly filled: () => void;
  /** It cannot be filled, for this reason. */
  readonly failed: (error: unknown) => void;
  readonly batchBytes?: number | undefined;
};

export class Fill {
  readonly #options: FillOptions;
  /** Fill.F5: those that came before FILL. */
  readonly #longReads: readonly (readonly [Channel, number])[];
  #isOver = false;

  /** The number of FILL. */
  readonly position: number;
  /** How many bytes FILL and PARTS came to. */
  byteCount = 0;

  /** Sends FILL, and goes on by itself. Throws HANDLER_FAILED for a parameter whose updater has failed. */
  constructor(options: FillOptions) {
    this.#options = options;
    const { server, log, longReads, begin } = options;
    const failure = server.parameters.all.find((parameter) => parameter.failure !== undefined)?.failure;
    if (failure !== undefined) throw failure;
    this.#longReads = [...longReads];
    begin();
    this.byteCount = log.appendPacked(EntryKind.FILL, saveServer(server));
    this.position = log.position;
    log.whenAcknowledged(() => this.#copy(0));
  }

  /** Sends nothing more. */
  stop(): void {
    this.#isOver = true;
  }

  #copy(from: number): void {
    this.#batch({
      send: ({ server, log, batchBytes: bytesMax = BATCH_BYTES }) => {
        const partsMax = Math.min(BATCH_PARTS, PART_COUNT - from);
        const image = saveParts(server.parameters, from, { partsMax, bytesMax });
        this.byteCount += log.appendPacked(EntryKind.PARTS, image);
        freePages(image.pages);
        for (const [, { payloads }] of image.sums) freeBuffer(payloads);
        return image.to;
      },
      next: (to) => (to < PART_COUNT ? this.#copy(to) : this.#compare(0)),
    });
  }

  /** Fill.F3 */
  #compare(from: number): void {
    this.#batch({
      send: ({ server, log, batchBytes: bytesMax = BATCH_BYTES }) => {
        const partsMax = Math.min(BATCH_PARTS, PART_COUNT - from);
        const { to, digest } = digestOfParts(server.parameters, from, { partsMax, bytesMax });
        log.appendText(EntryKind.DIGEST, { part: from, to, digest });
        return to;
      },
      next: (to) => (to < PART_COUNT ? this.#compare(to) : this.#finish(this.#options.clock.nowMs() + LATE_MS)),
    });
  }

  /** Fill.F1, Fill.F2. In a turn of its own: the acknowledgement came among the input of others. */
  #batch({ send, next }: { send: (options: FillOptions) => number; next: (to: number) => void }): void {
    const { clock, log, failed } = this.#options;
    clock.afterInput(() => {
      if (this.#isOver) return;
      try {
        const to = send(this.#options);
        log.whenAcknowledged(() => next(to));
      } catch (thrown) {
        this.stop();
        failed(thrown);
      }
    });
  }

  #finish(untilMs: number): void {
    if (this.#isOver) return;
    const { clock, log, answers, filled } = this.#options;
    const isKnown = this.#longReads.every(([channel, request]) => {
      const { ended, received, parkedCount } = channel;
      return ended !== undefined || received.settled > request || (parkedCount === 0 && clock.nowMs() >= untilMs);
    });
    if (!isKnown) {
      clock.after(LOOK_AGAIN_MS, () => this.#finish(untilMs)); // Fill.F5
      return;
    }
    log.appendPacked(EntryKind.FILLED, answers());
    log.holdsBack = true; // Fill.F4
    log.whenAcknowledged(filled);
  }
}
