// tools — programs of the command line: guests that take no number, and call servers through the scheduler alone
// (relay.ts). JSON both ways; the shapes are in src/wire/tools.ts.

import * as tools from "../wire/tools.ts";
import { type JsonContract, jsonContract } from "./contract.ts";

/** The sender is there, as a tool, until its link ends; `status` lists it. Answered at once, whatever the job does. */
export const toolHere: JsonContract<tools.ToolNotice, tools.ToolReply> = jsonContract({
  name: "wb/tool/here",
  target: "scheduler",
  request: tools.toolNoticeShape,
  response: tools.toolReplyShape,
});
