// failure-of — for tests of what an error says: the WeighbridgeError that a call must fail with.

import { isWeighbridgeError, type WeighbridgeError } from "../base/errors.ts";

/** Throws where the call does not fail, and whatever else it fails with. */
export async function failureOf(promise: Promise<unknown>): Promise<WeighbridgeError> {
  try {
    await promise;
  } catch (thrown) {
    if (isWeighbridgeError(thrown)) return thrown;
    throw thrown;
  }
  throw new Error("it did not fail");
}
