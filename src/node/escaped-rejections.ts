// escaped-rejections — handles a promise that a user's function started on a server, did not await, and that rejects:
// Node would end the process, with all parameters in it. It is logged with the function's name and counted, and the
// server lives. What a handler throws or awaits is not meant: that is the caller's answer (FunctionHost.H2).
//
// Invariants:
//   EscapedRejections.E1. Only rejections of what a user's function started are kept from ending the process. Any other
//       ends it as usual, unless somebody else listens.
//   EscapedRejections.E2. A function that does it with every call does not flood the log: its first, second, fourth, …
//       time is logged, with the count.

import { AsyncLocalStorage } from "node:async_hooks";
import { reasonOf } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { PsFunction } from "../contracts/ps-function.ts";

type Call = { readonly owner: EscapedRejections; readonly name: string };
type Listener = NodeJS.UnhandledRejectionListener & { readonly isOurs?: true };

/** Which function started what runs now. One for the process: rejections do not name a server. */
const calls = new AsyncLocalStorage<Call>();

export class EscapedRejections {
  readonly #log: Log;
  readonly #counts = new Map<string, number>();
  readonly #listener: Listener;

  /** Listens until `close`. */
  constructor(log: Log) {
    this.#log = log;
    this.#listener = Object.assign((reason: unknown) => this.#take(reason), { isOurs: true as const });
    process.on("unhandledRejection", this.#listener);
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
    process.off("unhandledRejection", this.#listener);
  }

  #take(reason: unknown): void {
    const call = calls.getStore();
    if (call === undefined) this.#passOn(reason);
    if (call?.owner !== this) return;
    const count = (this.#counts.get(call.name) ?? 0) + 1;
    this.#counts.set(call.name, count);
    if ((count & (count - 1)) !== 0) return; // EscapedRejections.E2
    const message = `something that the function ${call.name} started and did not await has failed`;
    this.#log.error(message, { function: call.name, reason: reasonOf(reason), count });
  }

  /** EscapedRejections.E1: an error that a listener throws ends the process, as the rejection would have done. */
  #passOn(reason: unknown): void {
    const listeners: readonly Listener[] = process.listeners("unhandledRejection");
    const isAlone = listeners.every(({ isOurs }) => isOurs === true);
    if (isAlone && listeners[0] === this.#listener) throw reason;
  }
}
