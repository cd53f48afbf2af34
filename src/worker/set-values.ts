// set-values — a worker gives a parameter other values than its servers have (contracts/raw-values.ts). Beside the
// handles of parameters, not within them: few need it. Arrays belong to a call until its promise settles.

import type { WaitOptions } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { rowsSet, tensorSet } from "../contracts/raw-values.ts";
import { WORD_BYTES } from "../kernel/elements.ts";
import type { RowArray, RowElement } from "../kernel/row-element.ts";
import { TensorShape } from "../store/tensor-shape.ts";
import type { Embedding } from "./embedding.ts";
import { BlockRoute } from "./router/server-directory.ts";
import type { Tensor } from "./tensor.ts";

/** As many values as the tensor has. Throws NOT_FINITE, UNSUPPORTED. */
export async function setTensor(tensor: Tensor, values: Float32Array, wait: WaitOptions = {}): Promise<void> {
  checkFinite(tensor.name, values);
  const shape = new TensorShape(tensor.shape);
  await tensor.openWith(async ({ functions, handle }) => {
    const { parameter } = handle;
    const requests = Array.from({ length: shape.blockCount }, (_, block) => {
      const from = shape.firstFloat(block);
      const request = { parameter, block, values: values.subarray(from, from + shape.floatsOf(block)) };
      return { to: new BlockRoute(parameter, block), scope: parameter, request };
    });
    await functions.callEach(tensorSet, requests, { ...wait, subject: handle });
  });
}

/** Rows for each key, which is named once. */
export type RowValues<E extends RowElement> = {
  readonly keys: BigUint64Array;
  readonly values: RowArray<E>;
  /** Whether rows that are there stay as they are. */
  readonly isStart: boolean;
};

/** Returns how many rows have these values now. Throws NOT_FINITE, UNSUPPORTED. */
export async function setRows<E extends RowElement>(
  table: Embedding<E>,
  { keys, values, isStart }: RowValues<E>,
  wait: WaitOptions = {},
): Promise<number> {
  checkFinite(table.name, values);
  let sum = 0;
  await table.openWith(async ({ functions, handle, width }) => {
    const { parameter } = handle;
    const words = new Uint32Array(values.buffer, values.byteOffset, values.byteLength / WORD_BYTES);
    const shareOf = (positions: readonly number[]) => {
      const rows = new Uint32Array(positions.length * width); // bits, which nobody looks at
      for (const [i, position] of positions.entries()) rows.set(words.subarray(position * width, (position + 1) * width), i * width);
      const request = {
        parameter,
        isStart,
        keys: BigUint64Array.from(positions, (position) => keys[position] as bigint),
        values: new Float32Array(rows.buffer),
      };
      const answered = ({ takenCount }: { readonly takenCount: number }): void => {
        sum += takenCount;
      };
      return { request, answered };
    };
    await functions.callOwners(rowsSet, keys, shareOf, { ...wait, scope: parameter, subject: handle });
  });
  return sum;
}

/** Before any of them leaves: servers check what they get, each its own. Throws NOT_FINITE. */
function checkFinite(name: string, values: RowArray): void {
  if (!(values instanceof Float32Array || values instanceof Float64Array)) return;
  const wrong = values.findIndex((value) => !Number.isFinite(value));
  if (wrong >= 0) throw new WeighbridgeError("NOT_FINITE", `${name} cannot take ${values[wrong]} as element ${wrong}`);
}
