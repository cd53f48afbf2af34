// scheduler-wait — how long a node waits for its scheduler, and the errors when that was too long. Three timers, no
// decisions: while it joins, for a link and then for the answer; later, while the scheduler is away.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { WeighbridgeError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Channel } from "../peer/channel.ts";
import type { Address } from "../transport/transport.ts";
import type { NodeOptions } from "./node-options.ts";
import { CORRECT_THE_ADDRESS } from "./start-failure.ts";

export type SchedulerWaitOptions = {
  readonly clock: Clock;
  readonly log: Log;
  readonly schedulerAddress: Address;
  readonly startTimeoutMs: number;
  /** What to do about a scheduler that is gone, where starting it again would not help. */
  readonly loss: () => string | undefined;
};

/** How long a node waits for its cluster when nothing else is said. */
export const START_TIMEOUT_MS = 60_000;
/** A scheduler answers within its own start timeout; its error says more than ours, so it gets this much longer. */
const ANSWER_SLACK_MS = 1000;
/** Nodes that are started together find each other sooner; after this a log line names what is waited for. */
const SILENT_WAIT_MS = 2000;

const NOTHING: CancelTimer = () => {};

export class SchedulerWait {
  /** Why the scheduler could not be reached the last time. */
  problem = "it has not answered";
  /** The error behind it, if any. */
  cause: unknown;
  readonly #options: SchedulerWaitOptions;
  #cancelStart: CancelTimer = NOTHING;
  #cancelNotice: CancelTimer = NOTHING;
  #cancelAway: CancelTimer = NOTHING;
  #awaySinceMs: number | undefined;

  constructor(options: SchedulerWaitOptions) {
    this.#options = options;
  }

  /** A scheduler that was not reached, as what is missing (incompleteError). */
  get absence(): string {
    return `the scheduler (${this.problem})`;
  }

  /** Logs once that the scheduler is not there, if it does not come soon. */
  noticeAbsence(channel: Channel): void {
    const { clock, log, schedulerAddress } = this.#options;
    this.#cancelNotice = clock.after(SILENT_WAIT_MS, () => {
      if (channel.link === undefined) log.warn(`waiting for the scheduler at ${schedulerAddress}`, { problem: this.problem });
    });
  }

  /** Restarts the timer: without a link until the scheduler appears, with one until its answer. */
  start({ isLinked }: { readonly isLinked: boolean }, expired: (error: WeighbridgeError) => void): void {
    const { clock, startTimeoutMs } = this.#options;
    this.#cancelStart();
    this.#cancelStart = clock.after(isLinked ? startTimeoutMs + ANSWER_SLACK_MS : startTimeoutMs, () =>
      expired(isLinked ? this.#unanswered() : this.#unreachable()),
    );
  }

  /** This node has its rank, or will never have one. */
  started(): void {
    this.#cancelStart();
    this.#cancelNotice();
  }

  /**
   * The link is gone. Logs that unless it was expected, and calls `expired` after every `startTimeoutMs` until the
   * scheduler is back.
   */
  away(channel: Channel, { isExpected }: { readonly isExpected: boolean }, expired: (error: WeighbridgeError) => void): void {
    const { clock, log, schedulerAddress, startTimeoutMs } = this.#options;
    const fix = this.#options.loss() ?? "start it again there";
    if (!isExpected) {
      const goesOn = `pushes and pulls go on, what needs the scheduler fails after ${startTimeoutMs} ms`;
      log.warn(`the scheduler at ${schedulerAddress} is away, dialing it again; ${goesOn}`, { fix });
    }
    this.#awaySinceMs = isExpected ? undefined : clock.nowMs();
    this.#awaitReturn(channel, (awayMs) => {
      const message = `the scheduler at ${schedulerAddress} has been away for ${awayMs} ms (${this.problem}); ${fix}`;
      expired(new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { retryable: true }));
    });
  }

  #awaitReturn(channel: Channel, expired: (awayMs: number) => void, count = 1): void {
    const { clock, startTimeoutMs } = this.#options;
    this.#cancelAway();
    const look = (): void => {
      if (channel.link !== undefined || channel.ended !== undefined) return;
      expired(count * startTimeoutMs);
      this.#awaitReturn(channel, expired, count + 1);
    };
    this.#cancelAway = clock.after(startTimeoutMs, look, true);
  }

  back(): void {
    const { clock, log, schedulerAddress } = this.#options;
    this.#cancelAway();
    if (this.#awaySinceMs === undefined) return;
    log.info(`the scheduler at ${schedulerAddress} is back`, { awayMs: Math.round(clock.nowMs() - this.#awaySinceMs) });
    this.#awaySinceMs = undefined;
  }

  close(): void {
    this.started();
    this.#cancelAway();
  }

  #unanswered(): WeighbridgeError {
    const { schedulerAddress, startTimeoutMs } = this.#options;
    const unanswered = `the scheduler at ${schedulerAddress} gave this node no rank within ${startTimeoutMs} ms`;
    return new WeighbridgeError("DEADLINE", `${unanswered}: it waits for other nodes, or is stopped; see \`weighbridge status\``);
  }

  #unreachable(): WeighbridgeError {
    const { schedulerAddress, startTimeoutMs } = this.#options;
    const unreachable = `no scheduler at ${schedulerAddress} after ${startTimeoutMs} ms (${this.problem})`;
    const message = `${unreachable}; start one there, or ${CORRECT_THE_ADDRESS}`;
    return new WeighbridgeError("SCHEDULER_UNREACHABLE", message, { cause: this.cause });
  }
}

/** Where the scheduler is looked for, for messages: `tcp://a:9700 or tcp://b:9700`. */
export function schedulerText({
  schedulerAddress,
  otherSchedulers = [],
}: Pick<NodeOptions, "schedulerAddress" | "otherSchedulers">): string {
  return [schedulerAddress, ...otherSchedulers].join(" or ");
}
