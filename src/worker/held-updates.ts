// held-updates — what the sessions of a worker keep back of the updates that they were given: rows of caches, what
// top-k has kept, and what threads added to tables. `close()` of a session sends them, and so does the end of a process
// that has not closed it (node/keep-process.ts). Not updates on their way: those are calls.

/** One that keeps updates back. */
export type UpdateHolder = {
  /** Whether an update is kept back now. */
  readonly hasHeld: boolean;
  /** Sends all of them. Rejects when not all have been acknowledged. */
  sendHeld(): Promise<unknown>;
};

/** All holders of a worker, as one. */
export class HeldUpdates implements UpdateHolder {
  readonly #holders = new Set<UpdateHolder>();

  add(holder: UpdateHolder): void {
    this.#holders.add(holder);
  }

  get hasHeld(): boolean {
    return [...this.#holders].some(({ hasHeld }) => hasHeld);
  }

  async sendHeld(): Promise<void> {
    await Promise.all([...this.#holders].map((holder) => (holder.hasHeld ? holder.sendHeld() : undefined)));
  }
}
