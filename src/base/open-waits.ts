// open-waits — the waits with a deadline that are under way: until when somebody still waits. They share one timer.

import type { Clock } from "./clock.ts";
import { Deadlines } from "./deadlines.ts";
import { aborted, checkNotAborted, checkWait, deadlineError, type WaitOptions } from "./deferred.ts";

type OpenWait = { readonly untilMs: number; readonly expired: () => void };

export class OpenWaits {
  readonly #clock: Clock;
  readonly #open: Deadlines<OpenWait>;
  #isEndingSoon = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#open = new Deadlines(clock, ({ expired }) => expired());
  }

  /** As `waitFor`, and known here until it ends. */
  wait<T>(promise: Promise<T>, what: string, options: WaitOptions): Promise<T> {
    try {
      checkWait(options);
      checkNotAborted(what, options);
    } catch (thrown) {
      promise.catch(() => {}); // nobody waits for it
      return Promise.reject(thrown as Error);
    }
    const { timeoutMs, signal } = options;
    if (timeoutMs === undefined && signal === undefined) return promise;
    return new Promise<T>((resolve, reject) => {
      const onAbort = (): void => {
        end();
        reject(aborted(what, signal));
      };
      const expired = (): void => {
        end();
        reject(deadlineError(what, timeoutMs as number));
      };
      const open = timeoutMs === undefined ? undefined : this.#begin(timeoutMs, expired);
      const end = (): void => {
        if (open !== undefined) this.#end(open);
        signal?.removeEventListener("abort", onAbort);
      };
      signal?.addEventListener("abort", onAbort, { once: true });
      promise.then(
        (value) => {
          end();
          resolve(value);
        },
        (thrown: unknown) => {
          end();
          reject(thrown as Error);
        },
      );
    });
  }

  /** When the last of the waits that are under way now ends by its deadline; 0: there is none. */
  get untilMs(): number {
    return this.#open.lastMs;
  }

  #begin(timeoutMs: number, expired: () => void): OpenWait {
    const open = { untilMs: this.#clock.nowMs() + timeoutMs, expired };
    this.#open.add(open);
    return open;
  }

  /** Who ends a wait often begins the next one in the same turn. */
  #end(open: OpenWait): void {
    this.#open.delete(open);
    if (this.#open.size > 0 || this.#isEndingSoon) return;
    this.#isEndingSoon = true;
    this.#clock.soon(this.#rest);
  }

  readonly #rest = (): void => {
    this.#isEndingSoon = false;
    this.#open.rest();
  };
}
