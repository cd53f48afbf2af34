// unheard-update — the failure of an update as its caller gets it: what became of it where no server has told that,
// because nothing was sent or the caller stopped waiting, and whether the call may be repeated. What servers told is in
// the failure already (peer/channel.ts, peer/call-outcome.ts, worker/part-outcome.ts).
//
// Invariants:
//   UnheardUpdate.U1. A failure after something was sent has an outcome. So one without an outcome came before that, or
//       ended the wait alone (DEADLINE, ABORTED).
//   UnheardUpdate.U2. `settled` never rejects, and keeps nothing but the promise of the call that continues.
//   UnheardUpdate.U3. What a caller gets is retryable only if the update was not applied, and will not be: a repeated
//       call cannot count twice.

import { isWeighbridgeError, type UpdateOutcome, withOutcome } from "../base/errors.ts";

/** What a wait for an update says when it ends first: the update continues. */
export const STILL_OPEN = ", which may still be applied";

/** Of an update whose wait ended with this; `ended` is the end of the update itself. */
export function unheard(thrown: unknown, ended: Promise<unknown>): unknown {
  const isOpen = isWeighbridgeError(thrown, "DEADLINE") || isWeighbridgeError(thrown, "ABORTED");
  if (!isOpen || thrown.outcome !== undefined) return thrown;
  return withOutcome(thrown, "unknown", { settled: settledOf(ended), retryable: false });
}

/** The same where what has no outcome by now failed before anything was sent (UnheardUpdate.U1). */
export function notSent(thrown: unknown): unknown {
  return isWeighbridgeError(thrown) && thrown.outcome === undefined ? withOutcome(thrown, "not-applied") : thrown;
}

/** The same as its caller gets it (UnheardUpdate.U3). */
export function failedUpdate(thrown: unknown): unknown {
  const told = notSent(thrown);
  if (!isWeighbridgeError(told) || !told.retryable || told.outcome === undefined || told.outcome === "not-applied") return told;
  return withOutcome(told, told.outcome, { retryable: false });
}

/** UnheardUpdate.U2 */
function settledOf(ended: Promise<unknown>): Promise<UpdateOutcome> {
  return ended.then(
    () => "applied",
    (thrown: unknown) => (isWeighbridgeError(thrown) ? (thrown.outcome ?? "not-applied") : "unknown"),
  );
}
