// bad-field — the one way in which a spec's field is refused.

import { WeighbridgeError } from "../base/errors.ts";
import { showValue } from "../base/show-value.ts";

/** Which field, what was expected, what was found. `path` begins with the name of the option, as in "optimizer.schedule.steps". */
export function badField(path: string, expected: string, actual: unknown): WeighbridgeError {
  return new WeighbridgeError("BAD_ARGUMENT", `${path}: expected ${expected}, not ${showValue(actual)}`);
}
