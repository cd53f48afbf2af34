// parts — what a server that gets parts with a new placement calls on the servers that had them (docs/decisions/0072).

import { type Contract, contract } from "./contract.ts";

const fetchRequest = { epoch: "u32", from: "u32", asMember: "bool" } as const;
const fetchResponse = { to: "u32", textBytes: "u32", body: "u8[]" } as const;

/**
 * The state of parts from `from` on that are the caller's by the placement of this epoch, and were the server's before
 * it: as many as fit an answer; `to` is the first part that was not looked at. `asMember`: first what is not a part's,
 * for a caller that comes into the placement. Throws a retryable QUEUE_FULL until the server has that placement: it
 * does not answer for the parts any more from then on.
 */
export const partsFetch: Contract<typeof fetchRequest, typeof fetchResponse> = contract({
  name: "wb/parts/fetch",
  target: "server",
  effect: "idempotent",
  request: fetchRequest,
  response: fetchResponse,
});
