// A function of servers that tells a worker of rows, with keys 0, 1, 2 … and half of one as values, several times one
// after the other.

import { isWeighbridgeError, type PsFunction, psFunction, type WorkerFunction, workerFunction } from "weighbridge";

const ROWS = { keys: "u64[]", values: "f32[]" } as const;
const SUM = { sum: "f64" } as const;
const ORDER = { worker: "u32", count: "u32", rowCount: "u32" } as const;
const OUTCOME = { sum: "f64", failure: "string" } as const;

export const told: WorkerFunction<typeof ROWS, typeof SUM> = workerFunction({ name: "told", request: ROWS, response: SUM });

export const tell: PsFunction<typeof ORDER, typeof OUTCOME> = psFunction({
  name: "tell",
  request: ORDER,
  response: OUTCOME,
  handler: async ({ workers }, { worker, count, rowCount }) => {
    const keys = BigUint64Array.from({ length: rowCount }, (_, i) => BigInt(i));
    const values = new Float32Array(rowCount).fill(0.5);
    let sum = 0;
    try {
      for (let i = 0; i < count; i++) sum += (await workers.call(worker, told, { keys, values })).sum;
    } catch (thrown) {
      if (!isWeighbridgeError(thrown)) throw thrown;
      return { sum, failure: thrown.code };
    }
    return { sum, failure: "" };
  },
});
