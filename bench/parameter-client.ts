// parameter-client — a parameter of the modern API in the shape that a case runs on: calls with callbacks, numbered to
// wait for.

import type { Session } from "../src/api/session.ts";
import type { KeyValueClient } from "./case-runner.ts";
import type { BenchCase } from "./cases.ts";

type Calls = {
  push(keys: BigUint64Array, values: Float32Array): Promise<unknown>;
  pull(keys: BigUint64Array, into: Float32Array): Promise<unknown>;
};

/**
 * Makes the case's parameter, or finds it. Each case has one of its own: the keys of two would be twice as many rows as
 * it says.
 */
export async function openParameter(session: Session, { name, engine, width }: BenchCase): Promise<KeyValueClient> {
  if (engine === "tensor-adam") {
    const tensor = await session.tensor(name, { shape: [width], optimizer: { type: "adam" } });
    return clientOf({ push: (_, values) => tensor.push(values), pull: (_, into) => tensor.pull({ into }) });
  }
  const table = await session.embedding(name, { dim: width, optimizer: { type: "adagrad" } });
  return clientOf({ push: (keys, values) => table.push(keys, values), pull: (keys, into) => table.pull(keys, { into }) });
}

function clientOf(calls: Calls): KeyValueClient {
  const open = new Map<number, Promise<void>>();
  let next = 0;
  const track = (call: Promise<unknown>, callback?: (error?: Error) => void): number => {
    const timestamp = next++;
    if (callback === undefined)
      open.set(
        timestamp,
        call.then(() => {}),
      );
    else call.then(() => callback(), callback);
    return timestamp;
  };
  return {
    push: (keys, values, { callback }) => track(calls.push(keys, values), callback),
    pull: (keys, values, { callback }) => track(calls.pull(keys, values), callback),
    wait: async (timestamp) => {
      await open.get(timestamp);
      open.delete(timestamp);
    },
  };
}
