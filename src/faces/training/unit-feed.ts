// unit-feed — which units of an epoch this worker takes, one after the other (docs/decisions/0014). With a session the scheduler lends them; alone there is
// one part, and its batches come in their order.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import { nextTurnOf } from "./event-loop.ts";

/** Part `part` of global batch `batch`. */
export type Unit = { readonly unit: number; readonly batch: number; readonly part: number };

/** Of a session, the units that the scheduler lends. */
export type FeedOptions = {
  readonly name: string;
  readonly epoch: number;
  readonly batchCount: number;
  readonly partCount: number;
  /** Whether each worker has its own part of every batch, or whoever is ready takes the next unit. */
  readonly assignment: "even" | "free";
};

export interface UnitFeed {
  /** "idle": nothing for this worker now, but the epoch is not over. */
  next(wait?: WaitOptions): Promise<Unit | "idle" | "over">;
  /** Whether `next` has a unit at hand. If not it asks, and what was done should have been told before. */
  readonly isStocked: boolean;
  /** Its updates are acknowledged. */
  done(unit: number): void;
  /** Units that had been begun by a worker that died. */
  readonly repeatedCount: number;
  close(): void | Promise<void>;
}

/** Longer than the others take to say that their last unit is done, so that nobody is idle at the end of an ordinary epoch. */
const IDLE_MS = 150;

export async function openFeed(session: Session | undefined, { name, ...options }: FeedOptions, wait: WaitOptions): Promise<UnitFeed> {
  return session === undefined ? new WholeFeed(options.batchCount) : await session.units(name, { ...options, idleMs: IDLE_MS }, wait);
}

/** Throws BAD_ARGUMENT when this worker has trained an epoch of this name to its end: nothing would be trained. */
export function checkNotEnded(
  session: Session | undefined,
  name: string,
  { firstEpoch, epochCount }: { readonly firstEpoch: number; readonly epochCount: number },
): void {
  const epoch = session?.nextEpochOver(name, firstEpoch) ?? Infinity;
  if (epoch >= epochCount) return;
  const text = `epoch ${epoch + 1} of "${name}" was trained in this session: a second training has another name, or a firstEpoch behind it`;
  throw new WeighbridgeError("BAD_ARGUMENT", text);
}

/** All batches, whole, in their order. Nobody is waited for, so it is here that the process comes to its other events. */
class WholeFeed implements UnitFeed {
  readonly repeatedCount = 0;
  readonly #batchCount: number;
  #batch = 0;

  constructor(batchCount: number) {
    this.#batchCount = batchCount;
  }

  get isStocked(): boolean {
    return this.#batch < this.#batchCount;
  }

  async next({ signal }: WaitOptions = {}): Promise<Unit | "over"> {
    await nextTurnOf(`before step ${this.#batch + 1} of the epoch`, signal);
    if (this.#batch >= this.#batchCount) return "over";
    const batch = this.#batch++;
    return { unit: batch, batch, part: 0 };
  }

  done(): void {
    // Nobody else would do it.
  }

  close(): void {
    // Nothing is held.
  }
}
