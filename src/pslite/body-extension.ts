// own-note — what our own nodes add to ps-lite's messages, in a field that it carries and nobody there reads (the body of control
// messages): enough to keep ranks, labels, farewells and reasons when both ends are ours, and for a new scheduler to learn the job from its nodes
// (docs/decisions/0003). A node of ps-lite sees nothing of it.

import { type Failure, failureShape } from "../wire/failure.ts";
import type { Check } from "../wire/json-body.ts";
import { decodeJson, encodeJson, flag, list, object, optional, shortText, count as wholeCount } from "../wire/json-body.ts";
import { type ResumeClaim, resumeClaimShape } from "../wire/register.ts";
import { jobShape, packageVersionShape } from "../wire/roster.ts";

/** The life that a node is in: the message itself says only whether it is the first. */
export type NodeLife = { readonly node: number; readonly incarnation: number };

export type BodyExtension = {
  readonly weighbridge: number;
  readonly rank: number | undefined;
  readonly label: string | undefined;
  readonly packageVersion: string | undefined;
  readonly serverCount: number | undefined;
  readonly workerCount: number | undefined;
  /** From the scheduler: whether every node of the job is ours. */
  readonly isAllOurs: boolean | undefined;
  /** With a list, from the scheduler: the job's name, and the lives of the nodes listed. */
  readonly job: string | undefined;
  readonly lives: readonly NodeLife[] | undefined;
  /** With the end of a barrier, from the scheduler: how often that was passed. */
  readonly round: number | undefined;
  /** Instead of that: why the barrier failed. The entry no longer stands. */
  readonly failure: Failure | undefined;
  /** Of a node that had its place from an earlier scheduler: everything it knows. */
  readonly resume: ResumeClaim | undefined;
};

const bodyExtensionShape: Check<BodyExtension> = object({
  weighbridge: wholeCount,
  rank: optional(wholeCount),
  label: optional(shortText(256)),
  packageVersion: optional(packageVersionShape),
  serverCount: optional(wholeCount),
  workerCount: optional(wholeCount),
  isAllOurs: optional(flag),
  job: optional(jobShape),
  lives: optional(list(object({ node: wholeCount, incarnation: wholeCount }))),
  round: optional(wholeCount),
  failure: optional(failureShape),
  resume: optional(resumeClaimShape),
});

export function encodeBodyExtension(note: Partial<BodyExtension> = {}): Uint8Array {
  return encodeJson({ weighbridge: 1, ...note });
}

/** Undefined when the sender is none of ours. */
export function decodeBodyExtension(body: Uint8Array): BodyExtension | undefined {
  if (body.length === 0) return undefined;
  try {
    return decodeJson(bodyExtensionShape, "a note", body);
  } catch {
    return undefined; // whatever it is, it is not for us
  }
}
