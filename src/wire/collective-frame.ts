// collective-frame — COLLECTIVE: a part of a collective operation, from one member of a generation to another.
//
//   request   flags: kind │ command: rank of the one who broadcasts; type of the elements that are reduced; else 0
//             arg0 generation │ arg1 sequence: 1, 2, 3 … in the order in which every member calls operations
//             arg2 length: elements of the whole (ALL_REDUCE, BROADCAST), bytes for this receiver (EXCHANGE)
//             arg3 index: 0, 1, 2 … among the parts of this operation from this sender to this receiver
//             payload: elements (f32 of a BROADCAST), or bytes
//   OVER      arg0 generation, and JSON as payload: the sender takes no part in operations from `from` on, and why
//   answer    nothing: the part was taken
//
// spec/protocol.md (§10b) lists the parts.

import { type Generation, generationShape } from "./generation.ts";
import { type Check, count, object, oneOf, text } from "./json-body.ts";
import { addressShape, type RosterView, rosterShape } from "./roster.ts";

export const CollectiveKind = { ALL_REDUCE: 1, EXCHANGE: 2, BROADCAST: 3, OVER: 4 } as const;
export type CollectiveKind = (typeof CollectiveKind)[keyof typeof CollectiveKind];

/** A part has at most so many bytes. */
export const PART_BYTES: number = 256 * 1024;

/** An all-reduce of at most so many bytes goes to every member directly, in one part. */
export const DIRECT_BYTES_MAX: number = 64 * 1024;

/** How many parts of an operation may be on their way from one member to another, unanswered. */
export const PARTS_OPEN_MAX = 4;

/** How many operations of a generation a member may have open. */
export const OPERATIONS_OPEN_MAX = 64;

export type Over = {
  /** The first operation in which the sender takes no part; 0: none of them can be relied on. */
  readonly from: number;
  readonly code: string;
  readonly message: string;
};
export const overShape: Check<Over> = object({ from: count, code: text, message: text });

/** GATHER: answered when every worker that has to be there is; "look" and "leave" are answered at once. */
export type GatherRequest = {
  readonly step: "enter" | "look" | "leave";
  /** Where the sender listens for the others. */
  readonly address: string;
  /** The newest generation that it has been in; 0: none. */
  readonly generation: number;
};
export const gatherRequestShape: Check<GatherRequest> = object({
  step: oneOf("enter", "look", "leave"),
  address: addressShape,
  generation: count,
});

/** To "enter": the generation. To the others: the newest one's number; members are those who wait for the next. */
export type GatherReply = Generation & { readonly roster: RosterView };
export const gatherReplyShape: Check<GatherReply> = (value, path) => ({
  ...generationShape(value, path),
  ...object({ roster: rosterShape })(value, path),
});
