// retry — decides which failures of a call are transient, and how long the call is retried: a server that is restored
// from its checkpoint, a live worker that was declared dead.

import type { Session } from "../../api/session.ts";
import { type ErrorCode, isWeighbridgeError, type WeighbridgeError } from "../../base/errors.ts";
import { pause } from "./event-loop.ts";

const TRANSIENT: ReadonlySet<ErrorCode> = new Set(["NODE_DEAD", "LINK_LOST", "NOT_JOINED", "STALE_UPDATE", "QUEUE_FULL"]);
const PAUSE_MS_FIRST = 20;
const PAUSE_MS_MAX = 1000;

export class Retry {
  readonly #session: Session;
  #retryCount = 0;

  constructor(session: Session) {
    this.#session = session;
  }

  /** How often something was retried. */
  get retryCount(): number {
    return this.#retryCount;
  }

  /**
   * Calls `attempt` until it succeeds. Between two attempts this worker rejoins the clock set. Rejects with the first
   * failure that is not transient, and with the last one when the patience is over or a retry cannot help.
   */
  async through(
    attempt: (isFirst: boolean) => Promise<void>,
    { patienceMs, isHopeless }: { readonly patienceMs: number; readonly isHopeless: () => boolean },
  ): Promise<void> {
    const until = performance.now() + patienceMs;
    let pauseMs = PAUSE_MS_FIRST;
    for (let isFirst = true; ; isFirst = false) {
      try {
        if (!isFirst) await this.#session.rejoin({ timeoutMs: patienceMs });
        await attempt(isFirst);
        return;
      } catch (thrown) {
        if (!isTransient(thrown) || isHopeless() || performance.now() + pauseMs > until) throw thrown;
        this.#retryCount++;
        await pause(pauseMs);
        pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX);
      }
    }
  }
}

export function isTransient(thrown: unknown): thrown is WeighbridgeError {
  // Else it would count twice.
  return isWeighbridgeError(thrown) && TRANSIENT.has(thrown.code) && (thrown.code !== "LINK_LOST" || thrown.retryable);
}
