// heartbeat — tells the scheduler regularly that this node lives, and notices a link to it that is silent but not
// closed.
//
// Invariants:
//   Heartbeat.B1. At most one heartbeat is open: a scheduler that is slow gets no more of them.
//   Heartbeat.B2. One that stays open for as long as the scheduler waits before it declares us dead breaks the link,
//       unless the pulse of the scheduler's process says meanwhile that it runs. It is asked from half of that time on.
//       Of that time, an interval counts for each time that this node looks, after the input that has arrived: a node
//       that was held up itself, or a machine that stood still, takes no scheduler for silent (LinkMonitor.A1).
//   Heartbeat.B3. From the start to the end of heartbeats the pulse of this process speaks for the node, also while
//       they pause because a scheduler has to take the node back.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { reasonOf } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { HeartbeatReply, HeartbeatRequest } from "../wire/control.ts";
import type { RegisterReply } from "../wire/register.ts";

export type HeartbeatRules = Pick<RegisterReply, "heartbeatIntervalMs" | "heartbeatTimeoutMs">;

export type HeartbeatOptions = {
  readonly channel: Channel;
  readonly clock: Clock;
  readonly log: Log;
  /** What every heartbeat carries. */
  readonly body?: () => HeartbeatRequest;
  /** Called when the scheduler says that this node has lost its rank. */
  readonly failed: (error: unknown) => void;
  /** What the scheduler answers to a heartbeat that left then, for the first time. */
  readonly told?: (reply: HeartbeatReply, leftAtMs: number) => void;
  /** Lets the pulse of this process speak for the node; returns how to end that (Heartbeat.B3). */
  readonly speak?: (rules: HeartbeatRules) => () => void;
  /** Resolves if the scheduler's process runs, whatever its loop does (Heartbeat.B2). */
  readonly ask?: (rules: HeartbeatRules) => Promise<void>;
};

/** The part of the timeout after which a silent scheduler's pulse is asked. */
const ASK_AFTER = 0.5;

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #cancelTimer: CancelTimer = () => {};
  /** When the heartbeat left that has no answer yet. */
  #sentAtMs: number | undefined;
  /** When the scheduler's pulse answered last. */
  #pulseAtMs = -Infinity;
  /** How often this node has looked since both. */
  #looks = 0;
  #isAsking = false;
  #isBusyLogged = false;
  #hush: () => void = () => {};

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** How many are open. */
  get openCount(): number {
    return this.#sentAtMs === undefined ? 0 : 1;
  }

  /** Begins, or goes on by other rules. An interval of 0: none are sent. */
  start(rules: HeartbeatRules): void {
    this.stop();
    if (rules.heartbeatIntervalMs === 0) return;
    this.#next(rules);
    if (rules.heartbeatTimeoutMs > 0) this.#hush = this.#options.speak?.(rules) ?? this.#hush;
  }

  /** Sends none until the next start. The pulse still speaks (Heartbeat.B3). */
  pause(): void {
    this.#cancelTimer();
  }

  stop(): void {
    this.#cancelTimer();
    this.#hush();
    this.#hush = () => {};
  }

  /** There is a new link: what is open leaves again on it, and gets its time again. */
  linkUp(): void {
    if (this.#sentAtMs !== undefined) this.#sentAtMs = this.#options.clock.nowMs();
    this.#looks = 0;
  }

  /** Sends one at once, unless one is open: then the next one carries what has changed. */
  beatNow(): void {
    this.#beat(undefined);
  }

  #next(rules: HeartbeatRules): void {
    const beat = (): void => {
      this.#next(rules);
      this.#beat(rules);
    };
    this.#cancelTimer = this.#options.clock.after(rules.heartbeatIntervalMs, beat, true);
  }

  #beat(rules: HeartbeatRules | undefined): void {
    const { channel, clock, log, failed, told } = this.#options;
    if (channel.link === undefined) return;
    if (this.#sentAtMs !== undefined) {
      if (rules !== undefined && rules.heartbeatTimeoutMs > 0) this.#judge(rules, this.#sentAtMs); // Heartbeat.B1
      return;
    }
    const leftAtMs = clock.nowMs();
    this.#sentAtMs = leftAtMs;
    this.#looks = 0;
    const answered = (): void => {
      this.#sentAtMs = undefined;
      if (this.#isBusyLogged) log.info("the scheduler's loop turns again");
      this.#isBusyLogged = false;
    };
    callJson(channel, HEARTBEAT, this.#options.body?.() ?? {}, clock)
      .finally(answered)
      .then((reply) => told?.(reply, leftAtMs))
      .catch((error: unknown) => {
        log.debug("a heartbeat failed", { reason: reasonOf(error) });
        failed(error);
      });
  }

  /** Heartbeat.B2 */
  #judge(rules: HeartbeatRules, sentAtMs: number): void {
    const { channel, clock, log } = this.#options;
    const { heartbeatIntervalMs, heartbeatTimeoutMs } = rules;
    const elapsedMs = clock.nowMs() - Math.max(sentAtMs, this.#pulseAtMs);
    const silentMs = Math.min(elapsedMs, ++this.#looks * heartbeatIntervalMs);
    if (silentMs >= heartbeatTimeoutMs) {
      clock.afterInput(() => {
        if (this.#sentAtMs !== sentAtMs || this.#looks === 0) return;
        log.warn("the scheduler's link is silent, dialing again", { silentMs: Math.round(clock.nowMs() - sentAtMs) });
        channel.link?.destroy();
      });
    } else if (silentMs >= ASK_AFTER * heartbeatTimeoutMs) this.#ask(rules, sentAtMs);
  }

  #ask(rules: HeartbeatRules, sentAtMs: number): void {
    const { clock, log, ask } = this.#options;
    if (ask === undefined || this.#isAsking) return;
    this.#isAsking = true;
    ask(rules)
      .then(
        () => {
          this.#pulseAtMs = clock.nowMs();
          this.#looks = 0;
          if (this.#isBusyLogged || this.#sentAtMs === undefined) return;
          this.#isBusyLogged = true;
          log.warn("the scheduler's loop is busy, its process runs: waiting for it", { silentMs: Math.round(clock.nowMs() - sentAtMs) });
        },
        (error: unknown) => log.debug("the scheduler's pulse does not answer", { reason: reasonOf(error) }),
      )
      .finally(() => {
        this.#isAsking = false;
      });
  }
}
