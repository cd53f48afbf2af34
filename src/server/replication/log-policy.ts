// log-policy — what a replicated or durable server does with each function: which requests are entries of its log, and
// which functions it does not serve (docs/decisions/0060). Pure.
//
//   logged     changes the state of the server: every update but those below
//   repeated   the same of a user's function: what it does before it throws is repeated, too (repeated-function.ts)
//   recording  a read that leaves a note behind (Contract: recordingRead): an entry where notes are taken
//   read       no entry
//   headOnly   changes nothing that outlives a head: groups, whose workers ask again, and saves of checkpoints
//   refused    UNSUPPORTED, by name

import { unsupported, type WeighbridgeError } from "../../base/errors.ts";
import { partialReducePartners, sspSync } from "../../contracts/beside-parameters.ts";
import * as checkpoints from "../../contracts/checkpoints.ts";
import type { Contract } from "../../contracts/contract.ts";
import { relayCall, relayGone } from "../../contracts/tools.ts";

export type LogPolicy = "logged" | "repeated" | "recording" | "read" | "headOnly" | "refused";

const HEAD_ONLY: readonly Contract[] = [
  sspSync,
  partialReducePartners,
  ...Object.values(checkpoints.checkpointSave),
  relayCall,
  relayGone,
] as unknown as readonly Contract[];

/** What loads state from files: a standby could not repeat it so far. */
const REFUSED: readonly Contract[] = [
  checkpoints.checkpointLoad,
  checkpoints.checkpointActivate,
  checkpoints.checkpointDiscard,
  checkpoints.parameterStage,
  checkpoints.parameterReplace,
  checkpoints.parameterUnstage,
] as unknown as readonly Contract[];

const POLICIES: ReadonlyMap<number, LogPolicy> = new Map([
  ...HEAD_ONLY.map(({ nameHash }) => [nameHash, "headOnly"] as const),
  ...REFUSED.map(({ nameHash }) => [nameHash, "refused"] as const),
]);

/** `isForStops`: what is refused elsewhere is served until the server stops (planned-stop.ts). */
export function policyOf(
  { nameHash, effect }: Pick<Contract, "nameHash" | "effect">,
  { isForStops = false }: { readonly isForStops?: boolean | undefined } = {},
): LogPolicy {
  const known = POLICIES.get(nameHash);
  if (known !== undefined && !(isForStops && known === "refused")) return known;
  if (effect === "update") return "logged";
  return effect === "recordingRead" ? "recording" : "read";
}

const REPEATING = "replicated or durable servers so far: start them with replicas 1 and without --durable";

export function refusedError(name: string): WeighbridgeError {
  return unsupported(`${name} is not served by ${REPEATING}`);
}
