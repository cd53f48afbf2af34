// prefetches — rows of a table that a thread has asked for and does not wait for yet.
//
// Invariants:
//   Prefetches.P1. At most 256 are open; a thread that starts another waits for one of them.

const OPEN_MAX = 256;

export class Prefetches {
  readonly #open = new Set<Promise<void>>();

  /**
   * `coming` is one more. A promise if its caller has to wait (P1). One that fails is over as well: who reads the row
   * is told.
   */
  add(coming: Promise<void>): Promise<void> | undefined {
    const open = this.#open;
    const tracked: Promise<void> = coming.catch(() => {}).then(() => void open.delete(tracked));
    open.add(tracked);
    return open.size > OPEN_MAX ? Promise.race(open) : undefined;
  }

  /** All of them have come, or failed. */
  async wait(): Promise<void> {
    while (this.#open.size > 0) await Promise.all(this.#open);
  }
}
