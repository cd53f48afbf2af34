// relay — how those who are no nodes (the command line) call functions of servers: the scheduler, whom alone they know,
// hands the call on and the answer back. Both legs are the same function; the scheduler adds who asks, and tells the
// servers when that link has ended.

import { type Contract, contract } from "./contract.ts";

/**
 * The name of the function that is called, its signature's hash, and its request as its schema encodes it. `asker` is
 * the scheduler's to fill in.
 */
const relayRequest = { server: "u32", asker: "string", name: "string", signature: "u32", request: "u8[]" } as const;
const relayResponse = { response: "u8[]" } as const;
const gone = { asker: "string" } as const;
const nothing = {} as const;

export const relayCall: Contract<typeof relayRequest, typeof relayResponse> = contract({
  name: "wb/relay/call",
  target: "scheduler",
  effect: "idempotent",
  request: relayRequest,
  response: relayResponse,
});

/** From the scheduler: whoever had this name asks for nothing any more. */
export const relayGone: Contract<typeof gone, typeof nothing> = contract({
  name: "wb/relay/gone",
  target: "server",
  effect: "idempotent",
  request: gone,
  response: nothing,
});
