// replication — what the head of a server rank sends to its standby (docs/decisions/0060). The entries are bytes of
// server/replication/log-entry.ts: frames as workers sent them, and what else changes the state of a server.

import { type Contract, contract } from "./contract.ts";

const logRequest = { first: "f64", entries: "u8[]" } as const;
const logResponse = { applied: "f64" } as const;

/**
 * Entries of the head's log, numbered from `first` on. The answer is the number of the last entry that the standby has
 * received, or has repeated if it is being filled. It skips entries that it has repeated before.
 */
export const replicaLog: Contract<typeof logRequest, typeof logResponse> = contract({
  name: "wb/replica/log",
  target: "server",
  effect: "idempotent",
  request: logRequest,
  response: logResponse,
});
