// tensor-client — pushes and pulls of one dense tensor: cut into blocks, each to the server that owns it, values straight from and into the
// caller's arrays. Rows are grouped by their block. The shape and the servers are known; what a push means, the tensor's spec says.
//
// Invariants:
//   T1. Lengths and rows are checked before anything is sent.
//   T2. Rows that are named twice are sent once, their gradients added in the order of the list.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { tensorPull } from "../functions/parameters/tensor-pull.ts";
import { tensorPullRows } from "../functions/parameters/tensor-pull-rows.ts";
import { tensorPush } from "../functions/parameters/tensor-push.ts";
import { tensorPushPull } from "../functions/parameters/tensor-push-pull.ts";
import { tensorPushRows } from "../functions/parameters/tensor-push-rows.ts";
import { type Placement, partOf } from "../keys/placement.ts";
import type { TensorShape } from "../store/tensor-shape.ts";
import type { FunctionClient } from "./function-client.ts";

/** How a call of a parameter is sent. */
export type ParameterCall = WaitOptions & {
  /** The worker's clock. */
  readonly clock: number;
  /** Higher overtakes lower between blocks. */
  readonly priority?: number | undefined;
};

export type PushCall = ParameterCall & {
  /** Times every gradient, on the server. */
  readonly scale?: number | undefined;
};

/** Rows of a tensor, as a caller may name them. */
export type RowList = Uint32Array | BigUint64Array | readonly number[];

export type TensorClientOptions = {
  readonly functions: FunctionClient;
  readonly placement: Placement;
  readonly name: string;
  /** The parameter's number on the wire. */
  readonly parameter: number;
  readonly shape: TensorShape;
};

/** The rows of one block: their positions in the caller's list, and within the block. */
type BlockRows = { readonly block: number; readonly rows: Uint32Array; readonly positions: readonly (readonly number[])[] };

export class TensorClient {
  readonly shape: TensorShape;
  readonly #functions: FunctionClient;
  readonly #name: string;
  readonly #parameter: number;
  readonly #placement: Placement;

  constructor({ functions, placement, name, parameter, shape }: TensorClientOptions) {
    this.shape = shape;
    this.#functions = functions;
    this.#name = name;
    this.#parameter = parameter;
    this.#placement = placement;
  }

  async push(gradients: Float32Array, { clock, priority, scale = 1, ...wait }: PushCall): Promise<void> {
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    await this.#functions.callEach(
      tensorPush,
      this.#blocks((block, from, to) => ({
        request: { parameter: this.#parameter, block, clock, scale, gradients: gradients.subarray(from, to) },
        priority,
      })),
      wait,
    );
  }

  /** Fills `into`. */
  async pull(into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    await this.#functions.callEach(
      tensorPull,
      this.#blocks((block, from, to) => ({
        request: { parameter: this.#parameter, block, clock },
        priority,
        into: into.subarray(from, to),
      })),
      wait,
    );
  }

  async pushPull(gradients: Float32Array, into: Float32Array, { clock, priority, scale = 1, ...wait }: PushCall): Promise<void> {
    this.#checkLength(gradients, this.shape.floatCount, "gradients");
    this.#checkLength(into, this.shape.floatCount, "the array to pull into");
    await this.#functions.callEach(
      tensorPushPull,
      this.#blocks((block, from, to) => ({
        request: { parameter: this.#parameter, block, clock, scale, gradients: gradients.subarray(from, to) },
        priority,
        into: into.subarray(from, to),
      })),
      wait,
    );
  }

  /** `gradients` has a row for each of `rows`. */
  async pushRows(rows: RowList, gradients: Float32Array, { clock, priority, scale = 1, ...wait }: PushCall): Promise<void> {
    const { width } = this.shape;
    this.#checkLength(gradients, rows.length * width, "gradients");
    const requests = this.#groupRows(rows).map(({ block, rows: blockRows, positions }) => ({
      server: this.#ownerOf(block),
      request: {
        parameter: this.#parameter,
        block,
        clock,
        scale,
        rows: blockRows,
        gradients: sumOf(gradients, positions, width), // T2
      },
      priority,
      scope: this.#parameter,
    }));
    await this.#functions.callEach(tensorPushRows, requests, wait);
  }

  /** Fills `into`, a row for each of `rows`. */
  async pullRows(rows: RowList, into: Float32Array, { clock, priority, ...wait }: ParameterCall): Promise<void> {
    const { width } = this.shape;
    this.#checkLength(into, rows.length * width, "the array to pull into");
    const requests = this.#groupRows(rows).map(({ block, rows: blockRows, positions }) => ({
      server: this.#ownerOf(block),
      request: { parameter: this.#parameter, block, clock, rows: blockRows },
      priority,
      scope: this.#parameter,
      answered: ({ values }: { readonly values: Float32Array }) => spread(values, positions, into, width),
    }));
    await this.#functions.callEach(tensorPullRows, requests, wait);
  }

  #blocks<T extends object>(
    make: (block: number, from: number, to: number) => T,
  ): (T & { readonly server: number; readonly scope: number })[] {
    const { shape } = this;
    return Array.from({ length: shape.blockCount }, (_, block) => {
      const from = shape.firstFloat(block);
      return { ...make(block, from, from + shape.floatsOf(block)), server: this.#ownerOf(block), scope: this.#parameter };
    });
  }

  /** A block's key is its index beside the tensor's number. */
  #ownerOf(block: number): number {
    return this.#placement.ownerOf(partOf(block, this.#parameter));
  }

  #groupRows(rows: RowList): BlockRows[] {
    const { shape } = this;
    if (!shape.hasRows) {
      throw new WeighbridgeError(
        "UNSUPPORTED",
        `${this.#name} has rows of ${shape.width} elements, too long for calls by row: push and pull it whole`,
      );
    }
    const blocks = new Map<number, Map<number, number[]>>();
    for (let i = 0; i < rows.length; i++) {
      const row = Number(rows[i]);
      if (!(row >= 0 && row < shape.rowCount && Number.isInteger(row))) {
        throw new WeighbridgeError("OUT_OF_RANGE", `${this.#name} has rows 0 to ${shape.rowCount - 1}; there is no row ${String(rows[i])}`); // T1
      }
      const block = shape.blockOfRow(row);
      const ofBlock = blocks.get(block) ?? new Map<number, number[]>();
      blocks.set(block, ofBlock);
      const positions = ofBlock.get(row);
      if (positions === undefined) ofBlock.set(row, [i]);
      else positions.push(i);
    }
    return [...blocks].map(([block, ofBlock]) => ({
      block,
      rows: Uint32Array.from(ofBlock.keys(), (row) => row - block * shape.rowsPerBlock),
      positions: [...ofBlock.values()],
    }));
  }

  /** T1 */
  #checkLength(values: Float32Array, expected: number, what: string): void {
    if (!(values instanceof Float32Array)) throw new WeighbridgeError("BAD_ARGUMENT", `${this.#name}: ${what} must be a Float32Array`);
    if (values.length === expected) return;
    throw new WeighbridgeError("VALUE_LENGTH", `${this.#name}: ${what} must have ${expected} elements, but has ${values.length}`);
  }
}

/** For each group of positions the sum of their rows. */
function sumOf(values: Float32Array, groups: readonly (readonly number[])[], width: number): Float32Array {
  const out = new Float32Array(groups.length * width);
  groups.forEach((positions, group) => {
    const [first = 0, ...others] = positions;
    const row = out.subarray(group * width, (group + 1) * width);
    row.set(values.subarray(first * width, (first + 1) * width));
    for (const position of others) for (let j = 0; j < width; j++) row[j] = (row[j] as number) + (values[position * width + j] as number);
  });
  return out;
}

/** Copies row g to each of the positions of group g. */
function spread(rows: Float32Array, groups: readonly (readonly number[])[], into: Float32Array, width: number): void {
  groups.forEach((positions, group) => {
    const row = rows.subarray(group * width, (group + 1) * width);
    for (const position of positions) into.set(row, position * width);
  });
}
