// replication — serves the log of a head (contracts/replication.ts).

import { WeighbridgeError } from "../../base/errors.ts";
import { replicaLog } from "../../contracts/replication.ts";
import { type ServedFunction, serve } from "../served-function.ts";

export const REPLICATION_HANDLERS: readonly ServedFunction[] = [
  serve(replicaLog, {
    inPlace: true,
    handler: ({ replica, holder }, { first, entries }) => {
      if (replica === undefined) throw new WeighbridgeError("UNSUPPORTED", "this server is not replicated: start it with replicas 2");
      return { applied: replica.standbyLog.repeat(holder, first, entries) };
    },
  }),
];
