// relay — calls of functions of a server through the scheduler, for programs that are no nodes, such as the command
// line. The scheduler passes the call on and the answer back: both legs are the same function, and the scheduler adds
// the caller. When the caller's link ends, the scheduler reports it to the servers.

import { type Contract, contract } from "./contract.ts";

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
