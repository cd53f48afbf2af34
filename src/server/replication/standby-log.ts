// standby-log — how a standby takes the log of its head: from whom, when it acknowledges, and what becomes of it when
// an entry cannot be repeated. Not what an entry does (log-repeater.ts), nor its bytes (log-call.ts, log-entry.ts).
//
//   LOG ── from the head, and it fits behind what was repeated ──► acknowledged ──► repeated, in the same call
//
// Invariants:
//   StandbyLog.I1. Entries are acknowledged when this standby has them, and repeated before it does anything else: what
//       was acknowledged is repeated, or this standby has failed, leaves, and takes over from nobody. Those of a
//       standby that is being filled are repeated first: that they are acknowledged says that it has everything.
//   StandbyLog.I7. A standby takes the log of one incarnation of its head: the next one, if it is not this standby
//       itself, has another state, and counts its entries anew.

import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import type { WorkerIncarnation } from "../../consistency/worker-incarnations.ts";
import type { Channel } from "../../peer/channel.ts";
import type { FrameHeader } from "../../wire/frame.ts";
import { nameOf, roleOf } from "../../wire/node-id.ts";
import { acknowledgeLog, type ReadLog, readLog } from "./log-call.ts";
import { EntryReader } from "./log-entry.ts";
import type { LogRepeater } from "./log-repeater.ts";

/** As Replica. */
type StandbyReplica = { readonly isStandby: boolean; readonly repeater: Pick<LogRepeater, "isWhole" | "applied" | "repeat"> };

export class StandbyLog {
  /** Called when this standby cannot go on (Replica.I2). */
  onDiverged: (error: WeighbridgeError) => void = () => {};
  readonly #replica: StandbyReplica;
  readonly #log: ReadLog = { first: 0, at: 0, byteCount: 0 };
  readonly #entries = new EntryReader();
  /** Of the head (StandbyLog.I7); 0: it has sent nothing yet. */
  #incarnation = 0;
  #failure: WeighbridgeError | undefined;

  constructor(replica: StandbyReplica) {
    this.#replica = replica;
  }

  /** Whether an entry could not be repeated: it takes over from nobody (StandbyLog.I1). */
  get hasFailed(): boolean {
    return this.#failure !== undefined;
  }

  /**
   * Takes a LOG that came in one frame; false: this is something else, for the host of functions. Throws as `repeat`,
   * unless it was acknowledged before.
   */
  take(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    const log = this.#log;
    if (!readLog(header, bytes, at, log)) return false;
    this.#checkHead(channel.id, channel.incarnation);
    const { applied, isWhole } = this.#replica.repeater;
    const last = this.#lastOf(log, bytes);
    if (!isWhole || log.first > applied + 1 || last === undefined) {
      this.#repeat(channel.id, log.first, bytes, log.at, log.byteCount);
      acknowledgeLog(channel, header, this.#replica.repeater.applied);
      return true;
    }
    acknowledgeLog(channel, header, Math.max(last, applied)); // StandbyLog.I1
    try {
      this.#repeat(channel.id, log.first, bytes, log.at, log.byteCount);
    } catch (thrown) {
      if (thrown !== this.#failure) throw thrown;
    }
    return true;
  }

  /**
   * Repeats entries of the head, numbered from `first` on, and returns the last one that it has. Throws BAD_REQUEST,
   * FENCED when this is no standby any more, and what made it leave the chain.
   */
  repeat({ worker: head, incarnation }: WorkerIncarnation, first: number, entries: Uint8Array): number {
    this.#checkHead(head, incarnation);
    this.#repeat(head, first, entries, 0, entries.length);
    return this.#replica.repeater.applied;
  }

  #checkHead(head: number, incarnation: number): void {
    if (roleOf(head) !== "server") throw badRequest(`a log comes from a server, not from ${nameOf(head)}`);
    if (!this.#replica.isStandby) {
      const message = `${nameOf(head)} sends its log to a server that has taken over from it`;
      throw new WeighbridgeError("FENCED", message);
    }
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#incarnation === 0) this.#incarnation = incarnation;
    if (this.#incarnation === incarnation) return;
    // StandbyLog.I7
    throw this.#fail(head, badRequest(`it has what incarnation ${this.#incarnation} had`));
  }

  /** The number of the last entry; undefined where entries do not add up, which fails when they are repeated. */
  #lastOf({ first, at, byteCount }: ReadLog, bytes: Uint8Array): number | undefined {
    this.#entries.begin(bytes, at, byteCount);
    try {
      return first + this.#entries.countAll() - 1;
    } catch {
      return undefined;
    }
  }

  #repeat(head: number, first: number, bytes: Uint8Array, at: number, byteCount: number): void {
    try {
      this.#replica.repeater.repeat(first, bytes, at, byteCount);
    } catch (thrown) {
      throw this.#fail(head, thrown);
    }
  }

  /** It leaves the chain (Replica.I2). */
  #fail(head: number, cause: unknown): WeighbridgeError {
    const message = `entry ${this.#replica.repeater.applied + 1} of ${nameOf(head)} could not be repeated`;
    this.#failure = new WeighbridgeError("HANDLER_FAILED", message, { cause });
    this.onDiverged(this.#failure);
    return this.#failure;
  }
}
