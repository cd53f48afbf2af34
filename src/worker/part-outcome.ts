// part-outcome — what became of an update that failed: of each piece that a server was asked to apply, whole or not at
// all, and of several pieces together. There is no transaction, neither over servers nor over the pieces of one: no
// server takes back what it applied.
//
//   a piece   its server acknowledged it                       applied
//             it never left, or its server refused it          not-applied
//             anything else                                    unknown
//   several   what all of them are; unknown where they differ
//
// The channel knows what became of a call, and says it as `error.outcome`; peer/unheard-update.ts is about failures of
// what was not sent, and of waits, and about what callers get. Here `retryable` is what it is for the engine itself.
//
// Invariants:
//   PartOutcome.O1. The failure of a call that sent pieces of an update has an outcome.

import { type UpdateOutcome, WeighbridgeError, withOutcome } from "../base/errors.ts";
import { mayBeApplied } from "../peer/call.ts";
import { isOfParts, tellsOutcome, type UpdateFunction } from "../peer/call-outcome.ts";

/** A request of a group, or one that took its place. */
export type Piece = {
  readonly server: number;
  /** Undefined for a read. */
  readonly outcome: UpdateOutcome | undefined;
  /** Left out: an update of keys. */
  readonly fn?: UpdateFunction | undefined;
  readonly replacedBy?: readonly Piece[] | undefined;
};

/**
 * After these a worker repeats its step, behind `rejoin()`, which drops what it pushed to sync parameters at the clock
 * on every server (WorkerClock.J2, WorkerClock.J10): a server is dead, or does not count this worker as a member.
 */
const REPEATED_CODES: readonly string[] = ["NODE_DEAD", "NOT_JOINED", "STALE_UPDATE"];

/** Undefined where there is no update among them. */
export function jointOutcome(pieces: readonly Piece[]): UpdateOutcome | undefined {
  return jointOf(leavesOf(pieces).map(({ outcome }) => outcome as UpdateOutcome));
}

/** What all of several updates are; undefined of none. */
export function jointOf(outcomes: readonly UpdateOutcome[]): UpdateOutcome | undefined {
  const [first] = outcomes;
  return outcomes.every((outcome) => outcome === first) ? first : "unknown";
}

/**
 * The failure of a call that sent these pieces, as its caller gets it: with what became of the update among them, if
 * there is one. Where servers differ, its message names them.
 */
export function updateFailure(failure: WeighbridgeError, pieces: readonly Piece[]): WeighbridgeError {
  const outcome = jointOutcome(pieces);
  if (outcome === undefined) return failure;
  const leaves = leavesOf(pieces);
  const ranks = [...new Set(leaves.map(({ server }) => server))].sort((a, b) => a - b);
  const parts = ranks.map((server) => ({
    server,
    outcome: jointOutcome(leaves.filter((piece) => piece.server === server)) as UpdateOutcome,
  }));
  const isOfKeys = leaves.every(({ fn }) => fn === undefined || isOfParts(fn));
  const isMixed = isOfKeys && outcome === "unknown" && leaves.some((piece) => piece.outcome === "not-applied");
  const told = isMixed && !mayBeApplied(failure) ? partlyApplied(failure, `the update was applied in part: ${partsText(leaves)}`) : failure;
  return withOutcome(told, outcome, { parts });
}

/**
 * The same failure of an update that must not be sent whole once more; `what` says why. Retryable only where the step
 * is to be repeated.
 */
export function partlyApplied(failure: WeighbridgeError, what = "other parts were applied, or may have been"): WeighbridgeError {
  const message = `${failure.message}; ${what}`;
  const cause = new WeighbridgeError("LINK_LOST", message, { cause: failure });
  const retryable = failure.retryable && REPEATED_CODES.includes(failure.code);
  return new WeighbridgeError(failure.code, message, { retryable, outcome: "unknown", detail: failure.detail, cause });
}

/** The updates among them, as they went to servers. */
function leavesOf(pieces: readonly Piece[]): readonly Piece[] {
  const leaves = pieces.flatMap((piece) => (piece.replacedBy === undefined ? [piece] : leavesOf(piece.replacedBy)));
  return leaves.filter(({ outcome, fn }) => outcome !== undefined && (fn === undefined || tellsOutcome(fn)));
}

/** Server by server, those of one outcome together. */
function partsText(pieces: readonly Piece[]): string {
  const texts = new Map(["applied by", "perhaps by", "not by"].map((how) => [how, ""]));
  for (const server of [...new Set(pieces.map((piece) => piece.server))].sort((a, b) => a - b)) {
    const outcomes = pieces.filter((piece) => piece.server === server).map(({ outcome }) => outcome);
    const count = (wanted: UpdateOutcome): number => outcomes.filter((outcome) => outcome === wanted).length;
    const [applied, unknown] = [count("applied"), count("unknown")];
    const perhaps = unknown === 0 ? "" : ` and perhaps ${unknown} more`;
    let how = `${applied} of its ${outcomes.length} pieces${perhaps} by`;
    if (new Set(outcomes).size === 1) how = applied > 0 ? "applied by" : unknown > 0 ? "perhaps by" : "not by";
    const known = texts.get(how) ?? "";
    texts.set(how, known === "" ? `${how} server ${server}` : `${known}, server ${server}`);
  }
  return [...texts.values()].filter((text) => text !== "").join(", ");
}
