// part-outcome — what became of an update that went to servers in pieces, each of which is applied whole or not at all:
// what its caller is told where some pieces were applied and others were not. There is no transaction, neither over
// servers nor over the pieces of one: nobody takes back what was applied.

import { WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { mayBeApplied } from "../peer/call.ts";

/** A piece of an update: applied, perhaps applied, or undefined: not. */
export type PartOutcome = { readonly fn: Pick<Contract, "effect" | "target">; readonly server: number; readonly fate: Fate };
export type Fate = "applied" | "unsure" | undefined;

const UNSURE_CODES: readonly string[] = ["NODE_DEAD", "ANSWER_LOST", "BUFFER_DETACHED", "HANDLER_FAILED"];
/**
 * After these a worker repeats its step, behind `rejoin()`, which drops what it pushed to sync parameters at the clock
 * on every server (WorkerClock.J2, WorkerClock.J10): a server is dead, or does not count this worker as a member.
 */
const REPEATED_CODES: readonly string[] = ["NODE_DEAD", "NOT_JOINED", "STALE_UPDATE"];

/** What is known of a piece that failed with this. */
export function fateOf(error: WeighbridgeError): Fate {
  return mayBeApplied(error) || UNSURE_CODES.includes(error.code) ? "unsure" : undefined;
}

/**
 * The same failure; where other pieces were applied it says by whom, and is not worth a retry: what was applied would
 * count twice. Unless it says that the step is to be repeated.
 */
export function partsFailure(failure: WeighbridgeError, outcomes: readonly PartOutcome[]): WeighbridgeError {
  const pieces = outcomes.filter(({ fn }) => fn.effect === "update" && (fn.target === "part" || fn.target === "block"));
  const isMixed = pieces.some(({ fate }) => fate !== undefined) && pieces.some(({ fate }) => fate === undefined);
  if (!isMixed || mayBeApplied(failure)) return failure;
  return partlyApplied(failure, `the update was applied in part: ${outcomeText(pieces)}`);
}

/** The same failure of an update that must not be sent whole once more; `what` says why. */
export function partlyApplied(failure: WeighbridgeError, what = "other parts were applied, or may have been"): WeighbridgeError {
  const message = `${failure.message}; ${what}`;
  const cause = new WeighbridgeError("LINK_LOST", message, { cause: failure });
  return new WeighbridgeError(failure.code, message, { retryable: failure.retryable && REPEATED_CODES.includes(failure.code), cause });
}

/** Server by server, those of one outcome together. */
function outcomeText(pieces: readonly PartOutcome[]): string {
  const texts = new Map(["applied by", "perhaps by", "not by"].map((how) => [how, ""]));
  for (const server of [...new Set(pieces.map((piece) => piece.server))].sort((a, b) => a - b)) {
    const fates = pieces.filter((piece) => piece.server === server).map(({ fate }) => fate);
    const [applied, unsure] = ["applied", "unsure"].map((wanted) => fates.filter((fate) => fate === wanted).length) as [number, number];
    const perhaps = unsure === 0 ? "" : ` and perhaps ${unsure} more`;
    let how = `${applied} of its ${fates.length} pieces${perhaps} by`;
    if (new Set(fates).size === 1) how = applied > 0 ? "applied by" : unsure > 0 ? "perhaps by" : "not by";
    const known = texts.get(how) ?? "";
    texts.set(how, known === "" ? `${how} server ${server}` : `${known}, server ${server}`);
  }
  return [...texts.values()].filter((text) => text !== "").join(", ");
}
