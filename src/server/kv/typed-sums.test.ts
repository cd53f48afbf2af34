// Goal: rows take no more memory than they may, and what does not fit leaves everything as it was (Y3, Y5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { elementTypeOf } from "../../kernel/elements.ts";
import { UnfinishedRequests } from "../../peer/unfinished-requests.ts";
import { StubAsker } from "../../testing/stub-asker.ts";
import { FunctionId } from "../../wire/function-id.ts";
import { dtypeBits, KvFlag } from "../../wire/kv-message.ts";
import { TypedSums } from "./typed-sums.ts";
import { WholeRequests } from "./whole-requests.ts";

test("a push that there is no room for is ARENA_FULL, and the sums stay as they were", async () => {
  const asker = new StubAsker();
  const sums = new TypedSums(1000);
  const failures: unknown[] = [];
  const whole = new WholeRequests(new UnfinishedRequests({ clock: asker.clock }), (request) => {
    try {
      sums.serve(request);
    } catch (thrown) {
      failures.push(thrown);
    }
  });
  asker.serve(FunctionId.KV_PUSH, whole);
  const push = async (keys: readonly bigint[]): Promise<void> => {
    const parts = [BigUint64Array.from(keys), new Float64Array(keys.length * 10).fill(1)].map((array) => new Uint8Array(array.buffer));
    const flags = KvFlag.FIRST | KvFlag.LAST | dtypeBits(elementTypeOf(new Float64Array(0)));
    await asker.request({ flags, args: [keys.length, 10, 0, 0], payload: Buffer.concat(parts) });
  };
  await push([1n, 2n]);
  await push([2n, 3n]);
  await push([1n, 2n]);
  assert.equal(failures.length, 1);
  assert.ok(isWeighbridgeError(failures[0], "ARENA_FULL"), String(failures[0]));
  await push([3n]);
  assert.equal(failures.length, 2, "the refused push has not made its new key");
});
