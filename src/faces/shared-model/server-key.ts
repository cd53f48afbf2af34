// server-key — what a key of a "dist" model is on the servers: a tensor, or, of other types than f32, a table whose
// rows of ROW_LENGTH elements are the values one after the other; zeros fill the last one up.
//
// Invariants:
//   ServerKey.K1. One call at a time pushes, and one pulls: the padded copies are theirs until it has ended.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { copyElements, ROW_ELEMENTS, type RowArray, type RowElement } from "../../kernel/row-element.ts";
import type { Consistency } from "../../store/consistency.ts";
import type { OptimizerSpec } from "../../store/updaters/optimizer-spec.ts";
import type { PsUpdater } from "../../store/updaters/ps-updater.ts";
import type { Embedding } from "../../worker/embedding.ts";
import type { KeyPlan } from "../../worker/level-one/model-backend.ts";
import type { CallOptions, PullOptions, PushPullOptions } from "../../worker/parameter.ts";
import { setRows, setTensor } from "../../worker/set-values.ts";
import type { Tensor } from "../../worker/tensor.ts";

const ROW_LENGTH = 4096;

/** Of calls whose values always land in an array of the caller's. */
type PullInto = PullOptions<RowArray> & { readonly into: RowArray };
type PushPullInto = PushPullOptions<RowArray> & { readonly into: RowArray };

/** Arrays have the model's type, and as many elements as the key. */
export interface ServerKey {
  /** What the weights begin with: the first worker to come decides. */
  start(values: RowArray, wait: WaitOptions): Promise<void>;
  /** Replaces the weights, for all workers. */
  set(values: RowArray, wait: WaitOptions): Promise<void>;
  push(values: RowArray, options: CallOptions): Promise<void>;
  pull(options: PullInto): Promise<void>;
  pushPull(values: RowArray, options: PushPullInto): Promise<void>;
}

export type ServerKeyOptions = {
  readonly dtype: RowElement;
  /** Of the parameter. */
  readonly name: string;
  readonly plan: Pick<KeyPlan, "shape" | "length">;
  readonly optimizer: OptimizerSpec | PsUpdater;
  readonly initialWeight: number;
  readonly consistency: Consistency;
};

/** Opens the parameter, or makes it. Throws SPEC_MISMATCH, BAD_ARGUMENT, UNKNOWN_PLUG_IN. */
export async function openServerKey(session: Session, options: ServerKeyOptions, wait: WaitOptions): Promise<ServerKey> {
  const { dtype, name, plan, optimizer, consistency, initialWeight: value } = options;
  const common = { optimizer, consistency, init: { type: "constant", value } as const };
  if (dtype === "f32") return new TensorKey(await session.tensor(name, { shape: plan.shape, ...common, ...wait }));
  const dim = Math.min(ROW_LENGTH, plan.length);
  const rows = Math.ceil(plan.length / dim);
  return new RowsKey(await session.embedding(name, { dim, rows, dtype, ...common, ...wait }), rows, plan.length);
}

class TensorKey implements ServerKey {
  readonly #tensor: Tensor;

  constructor(tensor: Tensor) {
    this.#tensor = tensor;
  }

  async start(values: RowArray, wait: WaitOptions): Promise<void> {
    await this.#tensor.start(values as Float32Array, wait);
  }

  async set(values: RowArray, wait: WaitOptions): Promise<void> {
    await setTensor(this.#tensor, values as Float32Array, wait);
  }

  async push(values: RowArray, options: CallOptions): Promise<void> {
    await this.#tensor.push(values as Float32Array, options);
  }

  async pull(options: PullInto): Promise<void> {
    await this.#tensor.pull(options as PullOptions);
  }

  async pushPull(values: RowArray, options: PushPullInto): Promise<void> {
    await this.#tensor.pushPull(values as Float32Array, "all", options as PushPullOptions);
  }
}

class RowsKey implements ServerKey {
  readonly #table: Embedding<RowElement>;
  readonly #keys: BigUint64Array;
  /** For a length that is not whole rows (ServerKey.K1). */
  readonly #pushed: RowArray | undefined;
  readonly #landed: RowArray | undefined;

  constructor(table: Embedding<Exclude<RowElement, "f32">>, rowCount: number, length: number) {
    this.#table = table as Embedding<RowElement>;
    this.#keys = BigUint64Array.from({ length: rowCount }, (_, row) => BigInt(row));
    const padded = rowCount * table.dim;
    const { Array: View, bytes } = ROW_ELEMENTS[table.dtype];
    const room = (): RowArray | undefined => (padded === length ? undefined : new View(new ArrayBuffer(padded * bytes)));
    this.#pushed = room();
    this.#landed = room();
  }

  async start(values: RowArray, wait: WaitOptions): Promise<void> {
    await setRows(this.#table, { keys: this.#keys, values: this.#padded(values), isStart: true }, wait);
  }

  async set(values: RowArray, wait: WaitOptions): Promise<void> {
    await setRows(this.#table, { keys: this.#keys, values: this.#padded(values).slice() as RowArray, isStart: false }, wait);
  }

  async push(values: RowArray, options: CallOptions): Promise<void> {
    await this.#table.push(this.#keys, this.#padded(values), options);
  }

  async pull(options: PullInto): Promise<void> {
    const landed = this.#landed;
    await this.#table.pull(this.#keys, landed === undefined ? options : { ...options, into: landed });
    this.#deliver(options.into);
  }

  async pushPull(values: RowArray, options: PushPullInto): Promise<void> {
    const [keys, landed] = [this.#keys, this.#landed];
    const push = { keys, gradients: this.#padded(values) };
    await this.#table.pushPull(push, keys, landed === undefined ? options : { ...options, into: landed });
    this.#deliver(options.into);
  }

  #padded(values: RowArray): RowArray {
    if (this.#pushed === undefined) return values;
    copyElements(this.#pushed, values);
    return this.#pushed;
  }

  #deliver(into: RowArray): void {
    if (this.#landed !== undefined) copyElements(into, this.#landed.subarray(0, into.length));
  }
}
