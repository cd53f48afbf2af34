// durable-log — what a durable server needs of a disk (docs/decisions/0071): a log that outlives the process. The
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
import type { LogPage } from "./log-sink.ts";

/** Who a server is: what it tells the scheduler when it comes back. */
export type ServerIdentity = { readonly job: string; readonly node: number; readonly incarnation: number; readonly roster: RosterView };

export const identityShape: Check<ServerIdentity> = object({ job: text, node: count, incarnation: count, roster: rosterShape });

export type DurableLog = {
  /** For messages: "the disk". */
  readonly name: string;
  /** Pages come in order. Resolves with the last entry that the disk has (DurableLog.D1). `entries` must not change before. */
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
