// body-extension — what our own nodes add to ps-lite's control messages, in a field that ps-lite carries and does not
// read (the body): enough to keep ranks, labels, departures and reasons when both ends are ours. A node of ps-lite sees
// nothing of it.

import { type Failure, failureShape } from "../wire/failure.ts";
import { packageVersionShape } from "../wire/hello.ts";
import type { Check } from "../wire/json-body.ts";
import { count, decodeJson, encodeJson, flag, object, optional, shortText } from "../wire/json-body.ts";

export type BodyExtension = {
  readonly weighbridge: number;
  /** With a registration: the rank that the node wants, and what it knows of itself and the job. */
  readonly rank: number | undefined;
  readonly label: string | undefined;
  readonly packageVersion: string | undefined;
  readonly serverCount: number | undefined;
  readonly workerCount: number | undefined;
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
  round: optional(count),
  outlivesDeaths: optional(flag),
  failure: optional(failureShape),
});

export function encodeBodyExtension(extension: Partial<BodyExtension> = {}): Uint8Array {
  return encodeJson({ weighbridge: 1, ...extension });
}

/** Undefined when the sender is none of ours. */
export function decodeBodyExtension(body: Uint8Array): BodyExtension | undefined {
  if (body.length === 0) return undefined;
  try {
    return decodeJson(bodyExtensionShape, "the body of a control message", body);
  } catch {
    return undefined; // whatever it is, it is not for us
  }
}
