// hello — the first frame on every link, both ways: who speaks, in which life, and where the conversation stood.

import { type Check, count, flag, object, optional, shortText, text } from "./json-body.ts";

/** Short enough for a hello and for a roster of many nodes. */
export const tokenShape: Check<string> = shortText(256);

export type Hello = {
  /** The job both belong to; empty before the scheduler has said. */
  readonly job: string;
  /** The sender's node id; 0 before the scheduler has given one. */
  readonly node: number;
  /** Which life of that node this is: a restarted node comes back with a higher one. */
  readonly incarnation: number;
  /** The next request number the sender expects from the receiver: 1 when it has never heard of it. */
  readonly expects: number;
  /** Whether the sender reads runs of frames; left out: it does not. */
  readonly takesRuns?: boolean | undefined;
  /** From a dialer that has a place: the token it registered with. It shows that the sender is that node, not one that only knows its number. */
  readonly token?: string | undefined;
  /** From a dialer: the newest incarnation of the receiver that it has talked with; left out: none. */
  readonly knows?: number | undefined;
};

export const helloShape: Check<Hello> = object({
  job: text,
  node: count,
  incarnation: count,
  expects: count,
  takesRuns: optional(flag),
  token: optional(tokenShape),
  knows: optional(count),
});
