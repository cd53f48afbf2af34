// embedding — a table of rows by key as a user meets it: every u64 is a key, rows appear with their initial values when they are first
// named. Arrays given to a call belong to it until its promise settles.

import type { WaitOptions } from "../base/deferred.ts";
import type { TableSpec } from "../store/parameter-spec.ts";
import type { KeyList, TableClient } from "../worker/table-client.ts";
import type { ParameterControl, ParameterSettings } from "./parameter-control.ts";
import type { CallOptions } from "./tensor.ts";

export class Embedding {
  readonly name: string;
  readonly dim: number;
  readonly #client: TableClient;
  readonly #control: ParameterControl;

  /** For the session alone. */
  constructor(spec: TableSpec, client: TableClient, control: ParameterControl) {
    this.name = spec.name;
    this.dim = spec.width;
    this.#client = client;
    this.#control = control;
  }

  /** Hands gradients, a row for each key, to the optimizer; those of a key that is named twice are added first. */
  async push(keys: KeyList, gradients: Float32Array, options: CallOptions = {}): Promise<void> {
    const scale = this.#control.gradientScale(gradients);
    await this.#client.push(keys, gradients, { ...options, clock: this.#control.clock, scale });
  }

  /** The rows in the order of the keys: in `into` if it is given, in a new array otherwise. Sees every earlier push of this worker. */
  async pull(keys: KeyList, into?: Float32Array, options: CallOptions = {}): Promise<Float32Array> {
    const values = into ?? new Float32Array(keys.length * this.dim);
    await this.#client.pull(keys, values, { ...options, clock: this.#control.clock });
    return values;
  }

  /** Changes the learning rate, its schedule or the consistency bound, for all workers, while training goes on. */
  async configure(settings: ParameterSettings, options: WaitOptions = {}): Promise<void> {
    await this.#control.configure(settings, options);
  }

  /** Removes the parameter from the servers. */
  async clear(options: WaitOptions = {}): Promise<void> {
    await this.#control.clear(options);
  }
}
