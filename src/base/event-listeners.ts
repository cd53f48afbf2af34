// event-listeners — who listens for which event by name, added and removed as with an EventTarget, with types. It is no
// EventTarget of the platform: those end the process when a listener throws, and take any name.
//
// Invariants:
//   EventListeners.E1. What a listener throws, and what its promise rejects with, goes to `failed`. The others are
//       called all the same.
//   EventListeners.E2. A function that is added twice for one event is called once, as often as it comes.

import { badArgument, showValue } from "./errors.ts";
import { checkOptions } from "./known-options.ts";
import { didYouMean } from "./nearest-name.ts";

/** How long a listener stays. */
export type ListenOptions = {
  /** True: it is removed when the event comes for the first time. */
  readonly once?: boolean | undefined;
  /** Removes the listener when it fires. */
  readonly signal?: AbortSignal | undefined;
};

type Listener = (event: never) => unknown;
type Entry = { readonly once: boolean; readonly removed: () => void };

/** `M`: the events by their names. */
export class EventListeners<M extends { readonly [K in keyof M]: { readonly type: K } }> {
  readonly #listeners: ReadonlyMap<keyof M & string, Map<Listener, Entry>>;
  readonly #failed: (type: keyof M & string, thrown: unknown) => void;

  constructor(names: readonly (keyof M & string)[], failed: (type: keyof M & string, thrown: unknown) => void) {
    this.#listeners = new Map(names.map((name) => [name, new Map()]));
    this.#failed = failed;
  }

  /** Throws BAD_ARGUMENT for an event that does not exist. */
  add<K extends keyof M & string>(type: K, listener: (event: M[K]) => unknown, options: ListenOptions = {}): void {
    const listeners = this.#of(type);
    if (typeof listener !== "function") throw badArgument(`a listener must be a function, got ${showValue(listener)}`);
    checkOptions(options, ["once", "signal"], "the options of addEventListener");
    const { once = false, signal } = options;
    if (signal !== undefined && typeof signal?.addEventListener !== "function")
      throw badArgument(`a signal must be an AbortSignal, got ${showValue(signal)}`);
    if (signal?.aborted === true || listeners.has(listener)) return; // EventListeners.E2
    const remove = (): void => this.remove(type, listener);
    signal?.addEventListener("abort", remove, { once: true });
    listeners.set(listener, { once, removed: () => signal?.removeEventListener("abort", remove) });
  }

  /** Throws BAD_ARGUMENT for an event that does not exist; a function that does not listen is ignored. */
  remove<K extends keyof M & string>(type: K, listener: (event: M[K]) => unknown): void {
    const listeners = this.#of(type);
    listeners.get(listener)?.removed();
    listeners.delete(listener);
  }

  has(type: keyof M & string): boolean {
    return this.#of(type).size > 0;
  }

  /** Calls those that listen now. */
  emit<K extends keyof M & string>(event: M[K] & { readonly type: K }): void {
    const { type } = event;
    for (const [listener, { once }] of [...this.#of(type)]) {
      if (once) this.remove(type, listener as (event: M[K]) => unknown);
      this.#call(type, listener as (event: M[K]) => unknown, event);
    }
  }

  /** EventListeners.E1 */
  #call<K extends keyof M & string>(type: K, listener: (event: M[K]) => unknown, event: M[K]): void {
    const failed = (thrown: unknown): void => this.#failed(type, thrown);
    try {
      const returned = listener(event);
      if (typeof (returned as PromiseLike<unknown> | undefined)?.then === "function") Promise.resolve(returned).catch(failed);
    } catch (thrown) {
      failed(thrown);
    }
  }

  #of(type: keyof M & string): Map<Listener, Entry> {
    const listeners = this.#listeners.get(type);
    if (listeners !== undefined) return listeners;
    const names = [...this.#listeners.keys()];
    throw badArgument(`there is no event ${showValue(type)}; there are ${names.join(", ")}${didYouMean(type, names)}`);
  }
}
