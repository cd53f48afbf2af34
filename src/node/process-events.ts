// process-events — listens to the end of the process for any number of nodes, with one listener of the process for each
// event: Node warns of a leak at the eleventh.

type EndListener = (exitCode: number) => void;

/** For tests; nodes share those below. */
export class EndEvent {
  readonly #name: "beforeExit" | "exit";
  readonly #listeners = new Set<EndListener>();
  readonly #fire = (exitCode: number): void => {
    for (const listener of this.#listeners) listener(exitCode);
  };

  constructor(name: "beforeExit" | "exit") {
    this.#name = name;
  }

  /** Calls `listener` whenever the event comes. Returns how to end that. */
  on(listener: EndListener): () => void {
    if (this.#listeners.size === 0) process.on(this.#name, this.#fire);
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size === 0) process.off(this.#name, this.#fire);
    };
  }
}

/** Nothing keeps the process any more. */
export const beforeExit: EndEvent = new EndEvent("beforeExit");
/** The last act of the process. */
export const exit: EndEvent = new EndEvent("exit");
