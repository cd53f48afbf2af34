// logged-requests — stands between the gate and the handlers of a replicated server: what changes state is written to
// the log before it is handled. Not the checks (request-gate.ts), not the log (replica-log.ts).
//
// Invariants:
//   LoggedRequests.I1. The entry of a request comes before its answer, so the answer waits for it (ReplicaLog.I1).
//   LoggedRequests.I2. Entries are in the order in which the head's handlers ran; requests that a handler refused are
//       no entries, or entries of nothing; but for those of users' functions.
//   LoggedRequests.I5. After a failover an update that the standby has applied is answered by what it kept, or by its
//       `again`; one that leaves no trace in the log is handled as new. That one was refused is an entry: behind a
//       later update of its worker it would count as applied.
//   LoggedRequests.I6. A run of small pushes may be an entry before any of them is handled (run-ahead.ts).
//   LoggedRequests.I7. An update whose answer alone was lost (ANSWER_LOST) was applied: its entry stays.

import { isWeighbridgeError } from "../../base/errors.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import type { FrameHeader, RequestLabel } from "../../wire/frame.ts";
import { FunctionFlag } from "../../wire/function-id.ts";
import { EntryKind } from "./log-entry.ts";
import { type LogPolicy, refusedError } from "./log-policy.ts";
import type { Replica } from "./replica.ts";
import type { RunAhead } from "./run-ahead.ts";

export type LoggedRequestsOptions = {
  /** Of the frames of kv; the others are functions. */
  readonly isKv: boolean;
  /** One for both: nothing is logged inside a run. */
  readonly ahead?: RunAhead | undefined;
};

export class LoggedRequests implements FunctionHandler {
  readonly #inner: FunctionHandler;
  readonly #replica: Replica;
  readonly #isKv: boolean;
  readonly #ahead: RunAhead | undefined;

  constructor(inner: FunctionHandler, replica: Replica, { isKv, ahead }: LoggedRequestsOptions) {
    this.#inner = inner;
    this.#replica = replica;
    this.#isKv = isKv;
    this.#ahead = ahead;
  }

  destination(channel: Channel, header: FrameHeader): Uint8Array | undefined {
    return this.#inner.destination?.(channel, header);
  }

  nameOf(label: RequestLabel): string | undefined {
    return this.#inner.nameOf?.(label);
  }

  abandon(channel: Channel, header: FrameHeader): void {
    this.#inner.abandon?.(channel, header);
  }

  handle(channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number, fresh: boolean): void {
    const replica = this.#replica;
    if (replica.isStandby && !this.#isKv && replica.standbyLog.take(channel, header, bytes, at)) return;
    replica.meet(channel);
    const policy = this.#policyOf(header);
    if (policy === "refused") throw refusedError(this.nameOf(header) ?? `function ${header.functionId}`);
    if (!fresh) {
      if (header.stamp !== 0 && replica.answerAgain(channel, header)) return; // LoggedRequests.I5
      this.#inner.handle(channel, header, bytes, at, policy === "headOnly" && header.stamp !== 0);
      return;
    }
    if (header.arg3 > header.payloadBytes && header.stamp === 0 && !this.#isKv) replica.noteLongRead(channel, header.request);
    const kind = replica.log.isOn ? this.#kindOf(policy, header) : EntryKind.NOTHING;
    if (kind === EntryKind.NOTHING) {
      this.#inner.handle(channel, header, bytes, at, fresh);
      return;
    }
    if (this.#isKv && this.#ahead?.has(channel, header, bytes, at) === true) {
      this.#handleAhead(this.#ahead, channel, header, bytes, at);
      return;
    }
    this.#ahead?.expectOver();
    const { log } = replica;
    const { request, stamp } = header; // reused meanwhile
    log.appendFrame(kind, channel, header, bytes, at);
    try {
      this.#inner.handle(channel, header, bytes, at, fresh);
    } catch (thrown) {
      if (policy === "repeated")
        log.markThrown(); // RepeatedFunction.R2
      else if (isWeighbridgeError(thrown, "ANSWER_LOST"))
        log.handled(); // LoggedRequests.I7
      else log.retract(); // LoggedRequests.I2
      if (stamp !== 0) replica.refused(channel, { request, stamp }, thrown);
      throw thrown;
    }
    log.handled();
    replica.appended();
    if (log.isFull) channel.holdInput(log.whenRoom());
  }

  /** A push that is in the log with its run. */
  #handleAhead(ahead: RunAhead, channel: Channel, header: FrameHeader, bytes: Uint8Array, at: number): void {
    const replica = this.#replica;
    const { request, stamp } = header; // reused meanwhile
    try {
      this.#inner.handle(channel, header, bytes, at, true);
    } catch (thrown) {
      replica.refused(channel, { request, stamp }, thrown); // RunAhead.A2
      throw thrown;
    } finally {
      if (ahead.isOver) {
        replica.appended(ahead.count);
        const { log } = replica;
        if (log.isFull) channel.holdInput(log.whenRoom());
      }
    }
  }

  #policyOf({ command, stamp }: FrameHeader): LogPolicy {
    if (this.#isKv) return stamp === 0 ? "read" : "logged";
    return this.#replica.policies.get(command) ?? "read"; // one that is not served is refused by its host
  }

  #kindOf(policy: LogPolicy, { stamp, flags, arg3, payloadBytes }: FrameHeader): EntryKind {
    if (policy === "headOnly") return EntryKind.NOTHING;
    if (this.#isKv) return stamp === 0 ? EntryKind.NOTHING : EntryKind.KV;
    if (stamp !== 0 || (flags & FunctionFlag.PART) !== 0) return EntryKind.FRAME;
    if (policy === "recording" && this.#replica.recordsReads) return EntryKind.FRAME;
    return arg3 > payloadBytes ? EntryKind.READ_END : EntryKind.NOTHING;
  }
}
