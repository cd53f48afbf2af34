// resumed-feed — the units of an epoch that was interrupted (UnitFeed): those of batches that were done before are passed over and reported as done.

import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { Unit, UnitFeed } from "./unit-feed.ts";

/** The units from batch `firstBatch` on. */
export function resumedFeed(feed: UnitFeed, firstBatch: number): UnitFeed {
  return firstBatch === 0 ? feed : new LateFeed(feed, firstBatch);
}

class LateFeed implements UnitFeed {
  readonly #feed: UnitFeed;
  readonly #firstBatch: number;

  constructor(feed: UnitFeed, firstBatch: number) {
    this.#feed = feed;
    this.#firstBatch = firstBatch;
  }

  get repeatedCount(): number {
    return this.#feed.repeatedCount;
  }

  get isStocked(): boolean {
    return this.#feed.isStocked;
  }

  async next(wait?: WaitOptions): Promise<Unit | "idle" | "over"> {
    for (;;) {
      const unit = await this.#feed.next(wait);
      if (typeof unit === "string" || unit.batch >= this.#firstBatch) return unit;
      this.#feed.done(unit.unit);
    }
  }

  done(unit: number): void {
    this.#feed.done(unit);
  }

  close(): void | Promise<void> {
    return this.#feed.close();
  }
}

/** Throws BAD_ARGUMENT. */
export function checkFirstStep(firstStep: number, batchCount: number): void {
  if (Number.isSafeInteger(firstStep) && firstStep >= 0 && firstStep < batchCount) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `an epoch has steps 0 to ${batchCount - 1}: it cannot begin with ${firstStep}`);
}
