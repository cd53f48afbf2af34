// state-store — where a scheduler's records outlive its process. node/state has one in files and one in etcd;
// state-journal.ts uses it. docs/decisions/0061.

import type { WeighbridgeError } from "../base/errors.ts";
import type { StateRecord } from "./scheduler-state.ts";

export type StateStore = {
  /** Called at most once, with the reason why this scheduler must not decide anything any more. */
  onLost: (error: WeighbridgeError) => void;
  /** False once another scheduler may decide: nothing is to be told then. */
  readonly isHeld: boolean;
  /** Other schedulers that would take over, by address. */
  readonly standbys: readonly string[];
  /** Where the records are, for messages. */
  readonly location: string;
  /**
   * Waits until no other scheduler decides for the job, and returns what was written, in order; nothing if the job that
   * wrote it has ended. Throws STATE_HELD, STATE_CORRUPT, STATE_IO, ABORTED.
   */
  open(signal?: AbortSignal): Promise<readonly StateRecord[]>;
  /** Resolves when the records are there for whoever opens the store next. Only one call at a time. */
  append(records: readonly StateRecord[]): Promise<void>;
  /** The same, in place of everything that was written; `keepsOld` keeps that beside, for people to look at. */
  replace(records: readonly StateRecord[], options: { readonly keepsOld: boolean }): Promise<void>;
  /** The job has ended: nothing is kept. */
  clear(): Promise<void>;
  /** Lets another scheduler open the store. */
  close(): Promise<void>;
};
