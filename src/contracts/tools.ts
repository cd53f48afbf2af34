// tools — programs of the command line: guests that take no number, and call functions of servers through the scheduler
// alone. The scheduler passes the call on and the answer back: both legs are the same function, and the scheduler adds
// the caller. When the caller's link ends, the scheduler reports it to the servers.

import { type Check, count, object, shortText } from "../wire/json-body.ts";
import { labelShape } from "../wire/roster.ts";
import { type Contract, contract, type JsonContract, jsonContract } from "./contract.ts";

/** A tool is there. It says so again every `heartbeatIntervalMs`. */
export type ToolNotice = {
  /** Where it runs: host and process. */
  readonly label: string;
  /** What it does, as on the command line: "scale", "checkpoint save". */
  readonly command: string;
};
const toolNoticeShape: Check<ToolNotice> = object({ label: labelShape, command: shortText(64) });

/** An interval of 0: it is enough to have said so once. */
export type ToolReply = { readonly heartbeatIntervalMs: number };
const toolReplyShape: Check<ToolReply> = object({ heartbeatIntervalMs: count });

/** The sender is there, as a tool, until its link ends; `status` lists it. Answered at once, whatever the job does. */
export const toolHere: JsonContract<ToolNotice, ToolReply> = jsonContract({
  name: "wb/tool/here",
  target: "scheduler",
  request: toolNoticeShape,
  response: toolReplyShape,
});

/**
 * The name of the function that is called, its signature's hash, and its request as its schema encodes it. The
 * scheduler fills in `caller`.
 */
const callFields = { server: "u32", caller: "string", name: "string", signature: "u32", request: "u8[]" } as const;
const answerFields = { response: "u8[]" } as const;
const goneFields = { caller: "string" } as const;
type Nothing = Readonly<Record<never, never>>;

export const relayCall: Contract<typeof callFields, typeof answerFields> = contract({
  name: "wb/relay/call",
  target: "scheduler",
  effect: "idempotent",
  request: callFields,
  response: answerFields,
});

/** From the scheduler: the caller of this name is gone. */
export const relayGone: Contract<typeof goneFields, Nothing> = contract({
  name: "wb/relay/gone",
  target: "server",
  effect: "idempotent",
  request: goneFields,
  response: {},
});
