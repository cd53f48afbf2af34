// log-sink — where the log of a server goes: to a standby (log-call.ts), or to a disk. The log (replica-log.ts) keeps
// what a sink does not have yet, and holds back what leaves until it does.
//
// DurableLog is what a durable server needs of a disk (docs/decisions/0071): a log that outlives the process. The
// entries are those that a standby would repeat, so a server that comes back repeats its own. node/durable/ implements
// it.
//
// Invariants:
//   DurableLog.D1. `write` resolves when the disk has the entries: no crash, and no power failure, takes them back.
//   DurableLog.D2. `open` gives back every entry that a `write` has resolved for, in order and bit for bit, and maybe
//       later ones; or throws STATE_CORRUPT.
//   DurableLog.D3. The first entry, and every one before a FILL, is IDENTITY: what follows was cut by its placement.

import type { WeighbridgeError } from "../../base/errors.ts";
import { type Check, count, object, text } from "../../wire/json-body.ts";
import { type RosterView, rosterShape } from "../../wire/roster.ts";

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

/** Who a server is: what it tells the scheduler when it comes back. */
export type ServerIdentity = { readonly job: string; readonly node: number; readonly incarnation: number; readonly roster: RosterView };

export const identityShape: Check<ServerIdentity> = object({ job: text, node: count, incarnation: count, roster: rosterShape });

export type DurableLog = {
  /** For messages: "the disk". */
  readonly name: string;
  /**
   * Pages come in order. Resolves with the last entry that the disk has (DurableLog.D1). `entries` must not change
   * before.
   */
  write(page: LogPage): Promise<number>;
  /** Called once, when the disk has failed: nothing is written any more, and nothing acknowledged. */
  onFailed: (error: WeighbridgeError) => void;
  /**
   * Gives `repeat` all that has to be repeated: from the IDENTITY before the newest FILL that is followed by its
   * FILLED, or from the first entry on. Resolves when writing may begin, behind the last entry. Throws STATE_CORRUPT,
   * STATE_HELD, STATE_IO, and what `repeat` throws.
   */
  open(repeat: (page: LogPage) => void): Promise<void>;
  /** Entries before this one are not needed any more. */
  trim(position: number): void;
  /** Removes everything: the job has ended. Never throws. */
  remove(): Promise<void>;
  /** Never throws. */
  close(): Promise<void>;
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
