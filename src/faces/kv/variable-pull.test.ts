// Goal: answers of several servers and frames, in whatever order they landed, end up in the order of the keys; nonsense is refused.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError } from "../../base/errors.ts";
import type { Landing } from "../../worker/kv-landing.ts";
import { fillFromLandings } from "./variable-pull.ts";

/** What a server sends for these keys: values, then lens. */
function landing(keyFrom: number, lens: readonly number[], values: readonly number[]): Landing {
  const bytes = new Uint8Array(values.length * 4 + lens.length * 4);
  bytes.set(new Uint8Array(Float32Array.from(values).buffer));
  bytes.set(new Uint8Array(Int32Array.from(lens).buffer), values.length * 4);
  return { keyFrom, keyTo: keyFrom + lens.length, bytes };
}

const floats = (count: number): Float32Array => new Float32Array(count);
const throwsCode = (code: ErrorCode, landings: readonly Landing[], keyCount: number): void =>
  assert.throws(
    () => fillFromLandings(landings, new Int32Array(keyCount), floats),
    (error) => isWeighbridgeError(error, code),
  );

test("puts values and lens in the order of the keys", () => {
  const lens = new Int32Array(5);
  const landings = [landing(3, [1, 2], [7, 8, 9]), landing(0, [2, 0], [1, 2]), landing(2, [3], [4, 5, 6])];
  assert.deepEqual(fillFromLandings(landings, lens, floats), Float32Array.of(1, 2, 4, 5, 6, 7, 8, 9));
  assert.deepEqual(lens, Int32Array.of(2, 0, 3, 1, 2));
});

test("fills the beginning of a larger array, and leaves the rest alone", () => {
  const vals = new Float32Array(4).fill(-1);
  fillFromLandings([landing(0, [2], [1, 2])], new Int32Array(1), () => vals);
  assert.deepEqual(vals, Float32Array.of(1, 2, -1, -1));
});

test("lens that do not fit the values, are negative, or are missing are refused", () => {
  throwsCode("BAD_REQUEST", [landing(0, [3], [1, 2])], 1);
  throwsCode("BAD_REQUEST", [landing(0, [1], [1, 2])], 1);
  throwsCode("BAD_REQUEST", [landing(0, [3, -1], [1, 2])], 2);
  throwsCode("BAD_REQUEST", [{ keyFrom: 0, keyTo: 3, bytes: new Uint8Array(8) }], 3);
});
