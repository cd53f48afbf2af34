// table-client — pushes and pulls of rows of one table, by u64 keys: cut by owner and into frames of about a block. A request without
// repeated keys to one server travels from and into the caller's own arrays.
//
// Invariants:
//   B1. Lengths and keys are checked before anything is sent.
//   B2. A push counts as one step on every server that it touches, however many frames it takes.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { rowsPull } from "../functions/parameters/rows-pull.ts";
import { rowsPush } from "../functions/parameters/rows-push.ts";
import { BLOCK_BYTES } from "../wire/frame.ts";
import type { FunctionClient } from "./function-client.ts";
import type { RowPart, RowPlan, RowPlanner } from "./row-plan.ts";
import type { ParameterCall, PushCall } from "./tensor-client.ts";

const KEY_BYTES = 8;
const FLOAT_BYTES = 4;

/** Keys of a table, as a caller may name them. Only a BigUint64Array is sent as it is; the others are copied into one. */
export type KeyList = BigUint64Array | Uint32Array | readonly (number | bigint)[];

export type TableClientOptions = {
  readonly functions: FunctionClient;
  readonly planner: RowPlanner;
  readonly name: string;
  /** The parameter's number on the wire. */
  readonly parameter: number;
  readonly width: number;
  /** For a table of fixed size: keys are below this. */
  readonly rowCountMax?: number | undefined;
};

/** Some rows of a part that travel together: from `from` up to `to` in the plan's order. */
type RowFrame = {
  readonly server: number;
  readonly keys: BigUint64Array;
  readonly from: number;
  readonly to: number;
  readonly opens: boolean;
};

export class TableClient {
  readonly width: number;
  readonly #functions: FunctionClient;
  readonly #planner: RowPlanner;
  readonly #name: string;
  readonly #parameter: number;
  readonly #rowCountMax: bigint | undefined;

  constructor({ functions, planner, name, parameter, width, rowCountMax }: TableClientOptions) {
    this.width = width;
    this.#functions = functions;
    this.#planner = planner;
    this.#name = name;
    this.#parameter = parameter;
    this.#rowCountMax = rowCountMax === undefined ? undefined : BigInt(rowCountMax);
  }

  /** `gradients` has a row for each of `keys`. */
  async push(keys: KeyList, gradients: Float32Array, { clock, priority, scale = 1, ...wait }: PushCall): Promise<void> {
    const list = this.#keyArray(keys);
    this.#checkLength(gradients, list.length, "gradients");
    await this.#withPlan(list, wait, async (plan) => {
      const rows = plan.gradients(gradients, this.width);
      const requests = this.#frames(plan).map(({ server, keys: own, from, to, opens }) => ({
        server,
        request: {
          parameter: this.#parameter,
          clock,
          scale,
          opens,
          keys: own,
          gradients: rows.subarray(from * this.width, to * this.width),
        },
        priority,
        scope: this.#parameter,
      }));
      await this.#functions.callEach(rowsPush, requests);
    });
  }

  /** Fills `into`, a row for each of `keys`. */
  async pull(keys: KeyList, into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    const list = this.#keyArray(keys);
    this.#checkLength(into, list.length, "the array to pull into");
    await this.#withPlan(list, wait, async (plan) => {
      const landed = plan.landing(into, this.width);
      const requests = this.#frames(plan).map(({ server, keys: own, from, to }) => ({
        server,
        request: { parameter: this.#parameter, clock, keys: own },
        priority,
        scope: this.#parameter,
        into: landed.subarray(from * this.width, to * this.width),
      }));
      await this.#functions.callEach(rowsPull, requests);
      plan.deliver(landed, into, this.width);
    });
  }

  /** The plan lives until its calls have ended, also when their caller waits no longer. */
  async #withPlan(keys: BigUint64Array, wait: WaitOptions, run: (plan: RowPlan) => Promise<void>): Promise<void> {
    if (keys.length === 0) return;
    const plan = this.#planner.plan(keys);
    const done = run(plan).finally(() => plan.release());
    await this.#functions.wait(done, `rows of ${this.#name}`, wait);
  }

  /** The parts cut into frames of about a block, values included. */
  #frames(plan: RowPlan): RowFrame[] {
    const rowsPerFrame = Math.max(1, Math.floor(BLOCK_BYTES / (KEY_BYTES + this.width * FLOAT_BYTES)));
    return plan.parts.flatMap((part) => cutPart(part, rowsPerFrame));
  }

  #keyArray(keys: KeyList): BigUint64Array {
    const list =
      keys instanceof BigUint64Array ? keys : BigUint64Array.from(keys as readonly (number | bigint)[], (key) => this.#keyOf(key));
    if (this.#rowCountMax !== undefined) for (const key of list) if (key >= this.#rowCountMax) throw this.#outOfRange(key); // B1
    return list;
  }

  #keyOf(key: number | bigint): bigint {
    if (typeof key === "number" ? Number.isSafeInteger(key) && key >= 0 : BigInt.asUintN(64, key) === key) return BigInt(key);
    if (this.#rowCountMax !== undefined) throw this.#outOfRange(key);
    throw new WeighbridgeError(
      "BAD_ARGUMENT",
      `${this.#name}: keys are whole numbers from 0 to 2^64 - 1 (as bigint above 2^53), not ${key}`,
    );
  }

  #outOfRange(key: number | bigint): WeighbridgeError {
    return new WeighbridgeError("OUT_OF_RANGE", `${this.#name} has rows 0 to ${(this.#rowCountMax ?? 0n) - 1n}; there is no row ${key}`);
  }

  /** B1 */
  #checkLength(values: Float32Array, keyCount: number, what: string): void {
    if (!(values instanceof Float32Array)) throw new WeighbridgeError("BAD_ARGUMENT", `${this.#name}: ${what} must be a Float32Array`);
    const expected = keyCount * this.width;
    if (values.length === expected) return;
    throw new WeighbridgeError(
      "VALUE_LENGTH",
      `${this.#name}: ${what} must have ${expected} elements, ${this.width} for each of ${keyCount} keys, but has ${values.length}`,
    );
  }
}

function cutPart({ server, from, keys }: RowPart, rowsPerFrame: number): RowFrame[] {
  const frames: RowFrame[] = [];
  for (let at = 0; at < keys.length; at += rowsPerFrame) {
    const end = Math.min(keys.length, at + rowsPerFrame);
    frames.push({ server, keys: keys.subarray(at, end), from: from + at, to: from + end, opens: at === 0 });
  }
  return frames;
}
