// event-loop — lets input and output proceed between two pieces of computing, or for a while; and measures how long a
// training waits.

import { WeighbridgeError } from "../../base/errors.ts";

type TurnStarter = (run: () => void) => unknown;

/** Resolves in another turn of the event loop, when input that was ready has been handled. */
export async function nextTurn(): Promise<void> {
  const { setImmediate: soon } = globalThis as { readonly setImmediate?: TurnStarter };
  await new Promise<void>((resolve) => {
    if (soon === undefined) setTimeout(resolve, 0);
    else soon(resolve);
  });
}

/** The same between two pieces of work that may be aborted. Throws ABORTED, with `where`, once it is. */
export async function nextTurnOf(where: string, signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  if (signal?.aborted === true) throw new WeighbridgeError("ABORTED", `aborted ${where}`, { cause: signal.reason });
}

export async function pause(milliseconds: number): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

export class WaitMeter {
  #startedAt = performance.now();
  #waitedMs = 0;

  /** Waits for something that is not this worker's own work. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const from = performance.now();
    try {
      return await promise;
    } finally {
      this.#waitedMs += performance.now() - from;
    }
  }

  restart(): void {
    this.#startedAt = performance.now();
    this.#waitedMs = 0;
  }

  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  /** The share of the time since the start, from 0 to 1. */
  get share(): number {
    const total = performance.now() - this.#startedAt;
    return total > 0 ? Math.min(1, this.#waitedMs / total) : 0;
  }
}
