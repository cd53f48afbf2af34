// between-servers — what servers call on each other. A server that gets parts with a new placement fetches them from
// the servers that had them (docs/decisions/0072). The head of a server rank sends its standby the log
// (docs/decisions/0060): its entries are bytes of server/replication/log-entry.ts, frames as workers sent them, and
// what else changes the state of a server.

import { type Contract, contract } from "./contract.ts";

const fetchRequest = { epoch: "u32", from: "u32", asMember: "bool" } as const;
const fetchResponse = { body: "u8[]" } as const;

/**
 * The state of parts from `from` on that are the caller's by the placement of this epoch, and were the server's before
 * it: as many as fit an answer, and which part was the first that was not looked at, packed
 * (server/replication/packed-body.ts). `asMember`: first what is not a part's, for a caller that comes into the
 * placement. Throws a retryable QUEUE_FULL until the server has that placement: it does not answer for the parts any
 * more from then on.
 */
export const partsFetch: Contract<typeof fetchRequest, typeof fetchResponse> = contract({
  name: "wb/parts/fetch",
  target: "server",
  effect: "read",
  request: fetchRequest,
  response: fetchResponse,
});

const logRequest = { first: "f64", entries: "u8[]" } as const;
const logResponse = { applied: "f64" } as const;

/**
 * Entries of the head's log, numbered from `first` on. Answers the number of the last entry that the standby has,
 * and repeats, or has repeated if it is being filled; entries that it has repeated before are passed over.
 */
export const replicaLog: Contract<typeof logRequest, typeof logResponse> = contract({
  name: "wb/replica/log",
  target: "server",
  effect: "idempotent",
  request: logRequest,
  response: logResponse,
});
