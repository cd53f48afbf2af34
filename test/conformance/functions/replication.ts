// replication — what spec/functions.md says of src/contracts/replication.ts.

import { replicaLog } from "../../../src/contracts/replication.ts";
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
      response: { applied: "the number of the last entry that the standby has repeated" },
      errors: ["BAD_REQUEST", "FENCED", "HANDLER_FAILED", "UNSUPPORTED"],
      example: { request: { first: 7, entries: new Uint8Array(24) }, response: { applied: 7 } },
    }),
  ],
};
