// all-ended — waits for several promises until each has ended: what they use is free afterwards, whether they failed or
// not.

/** Waits for all; rejects with the failure of the first in the list that failed. */
export async function allEnded(promises: readonly Promise<unknown>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(promises)) if (outcome.status === "rejected") throw outcome.reason;
}
