// Goal: what left for a server that was taken for dead is pending again exactly when the server has not got it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Arena } from "../../kernel/arena.ts";
import type { CallFate } from "../../peer/call.ts";
import { ArenaSpans } from "../arena-spans.ts";
import type { TakenUpdates } from "./pending-updates.ts";
import { UnsettledPushes } from "./unsettled-pushes.ts";

function held(outcomes: readonly CallFate["outcome"][]): { pushes: UnsettledPushes; fates: { outcome: CallFate["outcome"] }[] } {
  const pushes = new UnsettledPushes();
  const fates = outcomes.map((outcome) => ({ outcome }));
  fates.forEach((fate, server) => {
    pushes.hold({ server, keys: BigUint64Array.of(BigInt(server)), gradients: Float32Array.of(1), updates: Uint32Array.of(1), fate });
  });
  return { pushes, fates };
}

function settle(pushes: UnsettledPushes): bigint[] {
  const back: bigint[] = [];
  const putBack = ({ keys }: TakenUpdates): number => back.push(...keys) && keys.length;
  pushes.settle({ putBack }, new ArenaSpans(new Arena({ bytesMax: 2 ** 20 })));
  return back;
}

test("what the server has is dropped, what it has not is pending again, and the rest stays held (UnsettledPushes.D1)", () => {
  const { pushes, fates } = held(["applied", "dropped", "open"]);
  assert.deepEqual(settle(pushes), [1n]);
  assert.deepEqual([pushes.rowCount, pushes.servers], [1, [2]]);
  assert.match(pushes.error.message, /updates of 1 rows had left for server 2 when it was taken for dead/);
  fates[2]!.outcome = "dropped";
  assert.deepEqual(settle(pushes), [2n]);
  assert.equal(pushes.rowCount, 0);
});

test("what nobody can say of any more is told once, as an update that may have been applied, and not pushed again (UnsettledPushes.D2)", () => {
  const { pushes } = held(["unknown", "dropped"]);
  assert.throws(() => settle(pushes), { code: "LINK_LOST", retryable: false });
  assert.deepEqual([settle(pushes), pushes.rowCount], [[], 0]);
});
