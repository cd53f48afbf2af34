// tools — what a program of the command line tells the scheduler of itself, and hears from it. JSON; outside of
// control.ts, since no node needs it.

import { type Check, count, object, shortText } from "./json-body.ts";
import { labelShape } from "./roster.ts";

/** A tool is there. It says so again every `heartbeatIntervalMs`. */
export type ToolNotice = {
  /** Where it runs: host and process. */
  readonly label: string;
  /** What it does, as on the command line: "scale", "checkpoint save". */
  readonly command: string;
};
export const toolNoticeShape: Check<ToolNotice> = object({ label: labelShape, command: shortText(64) });

/** An interval of 0: it is enough to have said so once. */
export type ToolReply = { readonly heartbeatIntervalMs: number };
export const toolReplyShape: Check<ToolReply> = object({ heartbeatIntervalMs: count });
