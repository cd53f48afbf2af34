// row-assignment — the workers agree that the rows of a table are dealt out among them from now on: everybody has written back what it had, then the lowest rank claims
// the table on the servers, and tells the others. What was computed under an earlier claim cannot be written any more.

import { isWeighbridgeError, reasonOf, WeighbridgeError } from "../../base/errors.ts";
import { encodeTraining, type TrainingState, trainingShape } from "../../store/training-state.ts";
import { type Check, count, list, object } from "../../wire/json-body.ts";
import type { RawRows } from "../../worker/raw-rows.ts";
import type { RowMembers } from "./row-members.ts";
import { dealMessage, decodeDeal } from "./row-messages.ts";

type Deal = { readonly claims: readonly number[]; readonly training: readonly TrainingState[] };
const dealShape: Check<Deal> = object({ claims: list(count), training: list(trainingShape) });

/** Every member calls it. Rejects for all of them with what one of them failed with before, or with what the claim fails with. */
export async function assignRows(members: RowMembers, raw: RawRows, failure?: unknown): Promise<readonly TrainingState[]> {
  const tell = async (said: object | WeighbridgeError): Promise<unknown[]> =>
    (await members.exchange(members.ranks.map(() => dealMessage(said)))).map(decodeDeal);
  await tell(failure === undefined ? {} : asError(failure));
  if (members.position > 0) {
    const [deal] = await tell({});
    const { claims, training } = dealShape(deal, `how the rows of ${raw.spec.name} are dealt out`);
    raw.join(claims);
    return training;
  }
  const claimed = await raw.claim().catch((thrown: unknown) => asError(thrown));
  await tell(claimed instanceof WeighbridgeError ? claimed : { claims: claimed.claims, training: claimed.training.map(encodeTraining) });
  if (claimed instanceof WeighbridgeError) throw claimed;
  return claimed.training;
}

export function asError(thrown: unknown): WeighbridgeError {
  return isWeighbridgeError(thrown) ? thrown : new WeighbridgeError("HANDLER_FAILED", reasonOf(thrown), { cause: thrown });
}
