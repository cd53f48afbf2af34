// body-extension — what our own nodes add to ps-lite's control messages, in a field that ps-lite carries and does not
// read (the body): ranks, labels, departures and reasons, if both ends are ours. A node of ps-lite ignores it.

import { type Failure, failureShape } from "../wire/failure.ts";
import { packageVersionShape } from "../wire/hello.ts";
import type { Check } from "../wire/json-body.ts";
import { count, decodeJson, encodeJson, flag, object, optional, shortText } from "../wire/json-body.ts";

export type BodyExtension = {
  readonly weighbridge: number;
  /** With a registration: the requested rank, and what the node knows of itself and the job. */
  readonly rank: number | undefined;
  readonly label: string | undefined;
  readonly packageVersion: string | undefined;
  readonly serverCount: number | undefined;
  readonly workerCount: number | undefined;
  readonly hasNoClock: boolean | undefined;
  /** Of a barrier: its round. */
  readonly round: number | undefined;
  /** From the scheduler: why the barrier failed. The entry no longer counts. */
  readonly failure: Failure | undefined;
  /** With an entry into a barrier: whether it stays when a member dies. */
  readonly outlivesDeaths: boolean | undefined;
};

const bodyExtensionShape: Check<BodyExtension> = object({
  weighbridge: count,
  rank: optional(count),
  label: optional(shortText(256)),
  packageVersion: optional(packageVersionShape),
  serverCount: optional(count),
  workerCount: optional(count),
  hasNoClock: optional(flag),
  round: optional(count),
  outlivesDeaths: optional(flag),
  failure: optional(failureShape),
});

export function encodeBodyExtension(extension: Partial<BodyExtension> = {}): Uint8Array {
  return encodeJson({ weighbridge: 1, ...extension });
}

/** Undefined if the sender is not one of ours. */
export function decodeBodyExtension(body: Uint8Array): BodyExtension | undefined {
  if (body.length === 0) return undefined;
  try {
    return decodeJson(bodyExtensionShape, "the body of a control message", body);
  } catch {
    return undefined; // it is not ours
  }
}
