// collective-generation — workers that want to reduce among themselves come together at the scheduler, which fixes who they are: a generation.

import { type Check, count, list, object, oneOf } from "./json-body.ts";
import { addressShape, type RosterView, rosterShape } from "./roster.ts";

/** One incarnation of a worker. */
export type Member = { readonly node: number; readonly incarnation: number };

/** Who takes part in operations, by rank. It never changes: when one of them is gone, the others form the next one. */
export type Generation = { readonly generation: number; readonly members: readonly Member[] };

export const generationShape: Check<Generation> = object({ generation: count, members: list(object({ node: count, incarnation: count })) });

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

/** To "enter": the generation. To the others: the newest one's number, with those as members who stand and wait for the next. */
export type GatherReply = Generation & { readonly roster: RosterView };
export const gatherReplyShape: Check<GatherReply> = (value, path) => ({
  ...generationShape(value, path),
  ...object({ roster: rosterShape })(value, path),
});
