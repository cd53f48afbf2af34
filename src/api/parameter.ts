// parameter — what tensors and embeddings have in common as a user meets them: their name, and what is changed or counted for everybody.

import type { WaitOptions } from "../base/deferred.ts";
import type { NonFiniteCounts } from "../store/updaters/updater.ts";
import type { ParameterControl, ParameterSettings } from "../worker/parameter-control.ts";

export class Parameter {
  readonly name: string;
  readonly #control: ParameterControl;

  /** For the session alone. */
  constructor(name: string, control: ParameterControl) {
    this.name = name;
    this.#control = control;
  }

  /**
   * Changes the learning rate, its schedule, the consistency or only its bound, for all workers, while training goes on. Returns the clock from which on it
   * holds on every server: this worker's, or for a consistency one shortly ahead of the fastest worker. When it rejects, some servers may have
   * changed and others not: call it again.
   */
  async configure(settings: ParameterSettings, options: WaitOptions = {}): Promise<number> {
    return await this.#control.configure(settings, options);
  }

  /**
   * What was pushed and not finite, since the parameter was made: on the servers by all workers, counted by frame, and what this handle has refused
   * or skipped before it was sent. What became of it the optimizer's `nonFinite` says.
   */
  async nonFinite(options: WaitOptions = {}): Promise<NonFiniteCounts> {
    return await this.#control.nonFinite(options);
  }

  /** Removes the parameter from the servers. */
  async clear(options: WaitOptions = {}): Promise<void> {
    await this.#control.clear(options);
  }
}
