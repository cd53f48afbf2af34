// event-loop — lets input and output proceed between two pieces of computing, or for a while.

import { WeighbridgeError } from "../../base/errors.ts";

type TurnStarter = (run: () => void) => unknown;

/** Resolves in another turn of the event loop, when input that was ready has been handled. */
export async function nextTurn(): Promise<void> {
  await new Promise<void>(inNextTurn);
}

/** Calls it then. */
export function inNextTurn(run: () => void): void {
  const { setImmediate: soon } = globalThis as { readonly setImmediate?: TurnStarter };
  if (soon === undefined) setTimeout(run, 0);
  else soon(run);
}

/** The same between two pieces of work that may be aborted. Throws ABORTED, with `where`, once it is. */
export async function nextTurnOf(where: string, signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  if (signal?.aborted === true) throw new WeighbridgeError("ABORTED", `aborted ${where}`, { cause: signal.reason });
}

/** Waits for something of the caller's. Throws ABORTED, with `where`, if the signal fires first. */
export async function unlessAborted<T>(promise: Promise<T>, where: string, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await promise;
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(new WeighbridgeError("ABORTED", `aborted ${where}`, { cause: signal.reason }));
  signal.addEventListener("abort", abort);
  try {
    if (signal.aborted) abort();
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

export async function pause(milliseconds: number): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
