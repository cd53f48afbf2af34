// in-turn — runs asynchronous work one after the other, in the order in which it was asked for.
//
// Invariants:
//   InTurn.T1. Work begins when all that was asked for before it has ended, whether or not that failed.

export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles when all that was asked for so far has ended; never rejects. */
  get ended(): Promise<unknown> {
    return this.#last;
  }

  /** Resolves and rejects as `work` does, which goes on if its caller stops waiting. */
  async run<T>(work: () => T | Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {}); // its caller gets the error
    return await turn;
  }
}
