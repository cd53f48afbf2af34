// heartbeat — tells the scheduler regularly that this node lives, and notices a link to it that is silent but not
// closed.
//
// Invariants:
//   Heartbeat.B1. At most one heartbeat is open: a scheduler that is slow gets no more of them.
//   Heartbeat.B2. One that stays open for as long as the scheduler waits before it declares us dead breaks the link.

import type { CancelTimer, Clock } from "../base/clock.ts";
import { reasonOf } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { HEARTBEAT } from "../contracts/control.ts";
import { callJson } from "../peer/call-function.ts";
import type { Channel } from "../peer/channel.ts";
import type { HeartbeatRequest } from "../wire/control.ts";
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
};

export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #cancelTimer: CancelTimer = () => {};
  /** When the heartbeat left that has no answer yet. */
  #sentAtMs: number | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  /** Begins, or goes on by other rules. An interval of 0: none are sent. */
  start(rules: HeartbeatRules): void {
    this.stop();
    if (rules.heartbeatIntervalMs > 0) this.#next(rules);
  }

  stop(): void {
    this.#cancelTimer();
  }

  /** There is a new link: what is open leaves again on it, and gets its time again. */
  linkUp(): void {
    if (this.#sentAtMs !== undefined) this.#sentAtMs = this.#options.clock.nowMs();
  }

  /** Sends one at once, unless one is open: then the next one carries what has changed. */
  beatNow(): void {
    this.#beat(0);
  }

  #next(rules: HeartbeatRules): void {
    this.#cancelTimer = this.#options.clock.after(rules.heartbeatIntervalMs, () => {
      this.#next(rules);
      this.#beat(rules.heartbeatTimeoutMs);
    });
  }

  #beat(timeoutMs: number): void {
    const { channel, clock, log, failed } = this.#options;
    const nowMs = clock.nowMs();
    if (channel.link === undefined) return;
    if (this.#sentAtMs !== undefined) {
      if (timeoutMs === 0 || nowMs - this.#sentAtMs < timeoutMs) return; // Heartbeat.B1
      log.warn("the scheduler's link is silent, dialing again", { silentMs: Math.round(nowMs - this.#sentAtMs) });
      channel.link.destroy(); // Heartbeat.B2
      return;
    }
    this.#sentAtMs = nowMs;
    const answered = (): void => {
      this.#sentAtMs = undefined;
    };
    callJson(channel, HEARTBEAT, this.#options.body?.() ?? {}, clock)
      .finally(answered)
      .catch((error: unknown) => {
        log.debug("a heartbeat failed", { reason: reasonOf(error) });
        failed(error);
      });
  }
}
