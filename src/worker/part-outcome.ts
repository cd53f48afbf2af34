// part-outcome — what became of an update that went to servers in parts, each of which is applied whole or not at all: what its caller is told where some parts were
// applied and others were not. There is no transaction over servers: nobody takes back what was applied.

import { WeighbridgeError } from "../base/errors.ts";
import type { Contract } from "../contracts/contract.ts";
import { mayBeApplied } from "../peer/gone-error.ts";

/** A part of an update: applied, perhaps applied, or undefined: not. */
export type PartOutcome = { readonly fn: Pick<Contract, "effect" | "target">; readonly server: number; readonly fate: Fate };
export type Fate = "applied" | "unsure" | undefined;

const UNSURE_CODES: readonly string[] = ["NODE_DEAD", "ANSWER_LOST", "BUFFER_DETACHED"];

/** What is known of a part that failed with this. */
export function fateOf(error: WeighbridgeError): Fate {
  return mayBeApplied(error) || UNSURE_CODES.includes(error.code) ? "unsure" : undefined;
}

/** The same failure; where other parts were applied it says which, and is not worth a retry: what was applied would count twice. */
export function partsFailure(failure: WeighbridgeError, outcomes: readonly PartOutcome[]): WeighbridgeError {
  const parts = outcomes.filter(({ fn }) => fn.effect === "update" && (fn.target === "part" || fn.target === "block"));
  const isMixed = parts.some(({ fate }) => fate !== undefined) && parts.some(({ fate }) => fate === undefined);
  if (!isMixed || mayBeApplied(failure)) return failure;
  const serversOf = (wanted: Fate): string => {
    const ranks = [...new Set(parts.filter(({ fate }) => fate === wanted).map(({ server }) => server))].sort((a, b) => a - b);
    return ranks.map((rank) => `server ${rank}`).join(", ");
  };
  const told: readonly (readonly [string, string])[] = [
    ["applied by", serversOf("applied")],
    ["perhaps by", serversOf("unsure")],
    ["not by", serversOf(undefined)],
  ];
  const text = told.flatMap(([how, servers]) => (servers === "" ? [] : [`${how} ${servers}`])).join(", ");
  const message = `${failure.message}; the update was applied in part: ${text}`;
  return new WeighbridgeError(failure.code, message, { cause: new WeighbridgeError("LINK_LOST", message, { cause: failure }) });
}
