// log-sink — where the log of a server goes: to a standby (log-call.ts), or to a disk (durable-log.ts). The log
// (replica-log.ts) keeps what a sink does not have yet, and holds back what leaves until it does.

import type { DurableLog } from "./durable-log.ts";

/** Entries of a log, numbered from `first` to `last`. */
export type LogPage = { readonly first: number; readonly last: number; readonly entries: Uint8Array };

/** How the write of a page ends, by one of these, and never before `write` has returned. */
export type LogWriteEnd = {
  /** The sink has all entries up to this one, for good. */
  written(last: number): void;
  /** FENCED if this server was replaced. */
  failed(error: unknown): void;
};

export type LogSink = {
  /** For messages: "the standby". */
  readonly name: string;
  /** Whether requests may be written before they are handled (run-ahead.ts). */
  readonly takesAhead: boolean;
  /** Pages come in order. `entries` must not change before the write has ended. */
  write(page: LogPage, end: LogWriteEnd): void;
};

export function diskSink(disk: DurableLog): LogSink {
  return {
    name: disk.name,
    takesAhead: false, // nothing is gained: a write takes longer than all handlers
    write: (page, { written, failed }) => {
      disk.write(page).then(written, failed);
    },
  };
}
