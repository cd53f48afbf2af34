// escaped-failures — handles what a user's function started on a server and did not await, and that fails: a promise
// that rejects, a timer or another callback that throws. Node would end the process, with all parameters in it. It is
// logged with the function's name and counted, and the server lives. What a handler throws or awaits is not meant: that
// is the caller's answer (FunctionHost.H2).
//
// Invariants:
//   EscapedFailures.E1. Only failures of what a user's function started are kept from ending the process, and no failed
//       assertion of ours. Any other ends it as usual, unless another listener is there. What the server starts while a
//       function runs, such as the write of an answer, belongs to no function: its timers, turns of the loop and links.
//   EscapedFailures.E2. A function that does it with every call does not flood the log: its first, second, fourth, …
//       time is logged, with the count.

import { AsyncLocalStorage } from "node:async_hooks";
import { AssertionError } from "../base/assert.ts";
import type { Clock } from "../base/clock.ts";
import { reasonOf } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { PsFunction } from "../contracts/ps-function.ts";
import type { Transport } from "../transport/transport.ts";

type Call = { readonly owner: EscapedFailures; readonly name: string };
type Listener = ((failure: unknown) => void) & { readonly isOurs?: true };
const EVENTS = ["unhandledRejection", "uncaughtException"] as const;

/** Which function started what runs now. One for the process: failures do not name a server. */
const calls = new AsyncLocalStorage<Call>();

/** The clock of a server: what it calls belongs to no function (EscapedFailures.E1). */
export function clockOutsideCalls(clock: Clock): Clock {
  return {
    // Outside a call, as nearly always, requests pay for one look.
    nowMs: () => clock.nowMs(),
    after: (delayMs, fire, isBackground) => calls.exit(() => clock.after(delayMs, fire, isBackground)),
    soon: (run) => (calls.getStore() === undefined ? clock.soon(run) : calls.exit(() => clock.soon(run))),
    afterInput: (run) => (calls.getStore() === undefined ? clock.afterInput(run) : calls.exit(() => clock.afterInput(run))),
  };
}

/** The transport of a server: what its links call belongs to no function (EscapedFailures.E1). */
export function transportOutsideCalls(transport: Transport): Transport {
  return {
    listen: (address, accept) => transport.listen(address, accept),
    connect: (address, open, options) => calls.exit(() => transport.connect(address, open, options)),
  };
}

export class EscapedFailures {
  readonly #log: Log;
  readonly #counts = new Map<string, number>();
  readonly #listeners: Readonly<Record<(typeof EVENTS)[number], Listener>>;

  /** Listens until `close`. */
  constructor(log: Log) {
    this.#log = log;
    const ours = (listener: (failure: unknown) => void): Listener => Object.assign(listener, { isOurs: true as const });
    this.#listeners = {
      unhandledRejection: ours((reason) => this.#take(reason, () => this.#passOnRejection(reason))),
      uncaughtException: ours((thrown) => this.#take(thrown, () => this.#passOnException(thrown))),
    };
    for (const event of EVENTS) process.on(event, this.#listeners[event]);
  }

  /** How often it happened, by the function's name. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** The function, wrapped so that what it starts is known by its name. */
  watch(fn: PsFunction): PsFunction {
    const call: Call = { owner: this, name: fn.name };
    return {
      ...fn,
      handle: (context, request) => calls.run(call, () => fn.handle(context, request)),
      handleAgain: (context, request) => calls.run(call, () => fn.handleAgain(context, request)),
    };
  }

  close(): void {
    for (const event of EVENTS) process.off(event, this.#listeners[event]);
  }

  #take(failure: unknown, passOn: () => void): void {
    const call = failure instanceof AssertionError ? undefined : calls.getStore();
    if (call === undefined) passOn();
    if (call?.owner !== this) return;
    const count = (this.#counts.get(call.name) ?? 0) + 1;
    this.#counts.set(call.name, count);
    if ((count & (count - 1)) !== 0) return; // EscapedFailures.E2
    const message = `something that the function ${call.name} started and did not await has failed`;
    this.#log.error(message, { function: call.name, reason: reasonOf(failure), count });
  }

  /** EscapedFailures.E1: an error that a listener throws ends the process, as the rejection would have done. */
  #passOnRejection(reason: unknown): void {
    if (this.#isFirstAlone("unhandledRejection")) throw reason;
  }

  /** EscapedFailures.E1. Thrown again where no listener is: Node reports it, and ends with its usual code. */
  #passOnException(thrown: unknown): void {
    if (!this.#isFirstAlone("uncaughtException")) return;
    process.removeAllListeners("uncaughtException");
    process.nextTick(() => {
      throw thrown;
    });
  }

  /** Whether all listeners are of this kind, and this one is the first of them. */
  #isFirstAlone(event: (typeof EVENTS)[number]): boolean {
    // alike for both
    const listeners = process.listeners(event as "unhandledRejection") as unknown as readonly Listener[];
    return listeners.every(({ isOurs }) => isOurs === true) && listeners[0] === this.#listeners[event];
  }
}
