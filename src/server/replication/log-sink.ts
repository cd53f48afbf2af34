// log-sink — where the log of a server goes: to a standby, or to a disk (durable-log.ts). The log (replica-log.ts)
// keeps what a sink does not have yet, and holds back what leaves until it does.

import type { Clock } from "../../base/clock.ts";
import { replicaLog } from "../../contracts/replication.ts";
import { callFunction } from "../../peer/call-function.ts";
import type { Channel } from "../../peer/channel.ts";

/** Entries of a log, numbered from `first` to `last`. */
export type LogPage = { readonly first: number; readonly last: number; readonly entries: Uint8Array };

export type LogSink = {
  /** For messages: "the standby". */
  readonly name: string;
  /**
   * Pages come in order. Resolves with the last entry that the sink has, for good. `entries` must not change before.
   * Throws FENCED if this server was replaced.
   */
  write(page: LogPage): Promise<number>;
};

/** A standby, through this channel: it has what it has repeated. */
export function standbySink(channel: Channel, clock: Clock): LogSink {
  return {
    name: "the standby",
    write: async ({ first, entries }) => (await callFunction(channel, replicaLog, { first, entries }, { clock })).applied,
  };
}
