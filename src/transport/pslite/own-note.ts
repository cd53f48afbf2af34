// own-note — what our own nodes add to ps-lite's messages, in a field that it carries and nobody there reads (the body of control
// messages): enough to keep ranks, labels, farewells and reasons when both ends are ours. A node of ps-lite sees nothing of it.

import type { Check } from "../../wire/json-body.ts";
import { decodeJson, encodeJson, flag, object, optional, shortText, count as wholeCount } from "../../wire/json-body.ts";

export type OwnNote = {
  readonly weighbridge: number;
  readonly rank: number | undefined;
  readonly label: string | undefined;
  readonly serverCount: number | undefined;
  readonly workerCount: number | undefined;
  /** From the scheduler: whether every node of the job is ours. */
  readonly isAllOurs: boolean | undefined;
};

const ownNoteShape: Check<OwnNote> = object({
  weighbridge: wholeCount,
  rank: optional(wholeCount),
  label: optional(shortText(256)),
  serverCount: optional(wholeCount),
  workerCount: optional(wholeCount),
  isAllOurs: optional(flag),
});

export function encodeOwnNote(note: Partial<OwnNote> = {}): Uint8Array {
  return encodeJson({ weighbridge: 1, ...note });
}

/** Undefined when the sender is none of ours. */
export function decodeOwnNote(body: Uint8Array): OwnNote | undefined {
  if (body.length === 0) return undefined;
  try {
    return decodeJson(ownNoteShape, "a note", body);
  } catch {
    return undefined; // whatever it is, it is not for us
  }
}
