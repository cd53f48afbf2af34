// joint-failure — the failure of a call that pushes the gradients of several weights at once, as its caller gets it:
// what became of all of them. What became of one weight, its own push says (worker/part-outcome.ts).
//
// Invariants:
//   JointFailure.J1. What else such a call does, such as pulling weights, does not make it retryable: its pushes would
//       count again.

import { isWeighbridgeError, restated, type UpdateOutcome, type WeighbridgeError, withOutcome } from "../base/errors.ts";
import { failedUpdate } from "../peer/unheard-update.ts";
import { jointOf } from "../worker/part-outcome.ts";

/** A push under way, and the weight that it is for. */
export type OpenPush = { readonly name: string; readonly done: Promise<void> };

type EndedPush = { readonly name: string; readonly outcome: UpdateOutcome; readonly failure: WeighbridgeError | undefined };

/** Of a call that failed with `thrown`, and made these pushes, which it has waited for. */
export async function jointFailure(thrown: unknown, pushes: readonly OpenPush[]): Promise<unknown> {
  if (!isWeighbridgeError(thrown)) return thrown;
  const ends = await Promise.all(pushes.map(endOf));
  const outcome = jointOf(ends.map((end) => end.outcome));
  if (outcome === undefined) return failedUpdate(thrown);
  const isOpen = ends.some(({ failure }) => failure?.settled !== undefined);
  const ofAll = ends.map(async (end) => (await end.failure?.settled) ?? end.outcome);
  const settled = isOpen ? Promise.all(ofAll).then((outcomes) => jointOf(outcomes) ?? outcome) : undefined;
  const parts = ends.length === 1 ? thrown.parts : undefined; // a server has several weights
  return failedUpdate(withOutcome(named(thrown, ends), outcome, { parts, settled })); // JointFailure.J1
}

async function endOf({ name, done }: OpenPush): Promise<EndedPush> {
  try {
    await done;
    return { name, outcome: "applied", failure: undefined };
  } catch (thrown) {
    const failure = isWeighbridgeError(thrown) ? thrown : undefined;
    return { name, outcome: failure?.outcome ?? "unknown", failure };
  }
}

const HOW: Readonly<Record<UpdateOutcome, string>> = { applied: "applied to", unknown: "perhaps to", "not-applied": "not to" };

/** The same failure; where weights differ, its message names them. */
function named(error: WeighbridgeError, ends: readonly EndedPush[]): WeighbridgeError {
  const texts = (Object.keys(HOW) as UpdateOutcome[]).flatMap((outcome) => {
    const names = ends.filter((end) => end.outcome === outcome).map(({ name }) => name);
    return names.length === 0 ? [] : [`${HOW[outcome]} ${names.join(", ")}`];
  });
  return texts.length < 2 ? error : restated(error, `${error.message}; ${texts.join(", ")}`);
}
