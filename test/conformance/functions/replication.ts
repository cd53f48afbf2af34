// replication — what spec/functions.md says of src/contracts/between-servers.ts.

import { partsFetch, replicaLog } from "../../../src/contracts/between-servers.ts";
import { documented, type FunctionFamily } from "./documented.ts";

export const REPLICATION: FunctionFamily = {
  title: "Replicated servers",
  about: "What the head of a server rank tells its standby (docs/decisions/0060).",
  functions: [
    documented(replicaLog, {
      about: "Entries of the head's log: the standby repeats them, in their order and each once.",
      request: {
        first: "the number of the first entry, from 1 on",
        entries:
          "one behind the other, each a head of 24 bytes (u32 kind, u32 bytes of the body, u32 node, u32 bytes of its JSON, f64 incarnation) and a body: a frame of a worker, or JSON",
      },
      response: { applied: "the number of the last entry that the standby has; one that is being filled has repeated it" },
      errors: ["BAD_REQUEST", "FENCED", "HANDLER_FAILED", "UNSUPPORTED"],
      example: { request: { first: 7, entries: new Uint8Array(24) }, response: { applied: 7 } },
    }),
  ],
};

export const PARTS: FunctionFamily = {
  title: "Parts that move",
  about: "What a server that gets parts with a new placement calls on the servers that had them (docs/decisions/0072).",
  functions: [
    documented(partsFetch, {
      about: "The state of parts that are the caller's by a placement, and were the server's before it.",
      request: {
        epoch: "of that placement",
        from: "the first part to look at",
        asMember: "whether the caller comes into the placement, and needs what is not a part's: clocks, counts of pushes, parameters",
      },
      response: {
        body: "u32 bytes of the JSON behind it, 4 unused bytes, the JSON, padded to a multiple of 8, and the arrays that it names: rows, blocks, data and open rounds, and for a caller that comes what is not a part's; `to` of the JSON is the first part that was not looked at, 4,096: there is no more",
      },
      errors: ["BAD_REQUEST", "HANDLER_FAILED", "QUEUE_FULL", "WRONG_EPOCH"],
      example: {
        request: { epoch: 2, from: 0, asMember: false },
        response: { body: new TextEncoder().encode('\u0016\0\0\0\0\0\0\0{"to":4096,"pages":[]}  ') },
      },
    }),
  ],
};
