// adapter-close — compares what was trained on servers with what one process trained.

import { assert } from "../base/assert.ts";

/** Throws where two values of the same place are further apart than `bound`, or one list is longer. */
export function assertClose(actual: readonly number[], expected: readonly number[], bound: number): void {
  assert(actual.length === expected.length, `${actual.length} values, not ${expected.length}`);
  for (const [i, value] of actual.entries()) {
    assert(Math.abs(value - expected[i]!) <= bound, `value ${i} is ${value}, not within ${bound} of ${expected[i]}`);
  }
}
