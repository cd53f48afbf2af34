// event-loop — lets input and output proceed between two pieces of computing, or for a while.

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

/** The same between two pieces of something that may be ended. Throws ABORTED, with `where`, when that has happened. */
export async function nextTurnOf(where: string, signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  if (signal?.aborted === true) throw new WeighbridgeError("ABORTED", `aborted ${where}`, { cause: signal.reason });
}

export async function pause(milliseconds: number): Promise<void> {
  await new Promise<void>((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
