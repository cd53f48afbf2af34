// Goal: no round of an all-reduce is forgotten, whenever it becomes ready beside others that are on their way.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { SimClock } from "../../testing/sim-clock.ts";
import type { CompletedRound } from "../../worker/level-one/level-two.ts";
import { AllReduceLevel } from "./all-reduce-level.ts";
import type { DistSession } from "./model-level.ts";

/** A worker that is alone, whose operations end in a few microtasks. */
function aloneSession(): DistSession {
  const collective = {
    members: [0],
    exchange: async (lists: readonly Uint8Array[]) => await Promise.resolve(lists),
    allReduce: async () => await Promise.resolve(),
  };
  return { value: { rank: 0, collective: async () => await Promise.resolve(collective) }, open: async () => {} } as unknown as DistSession;
}

function roundOf(key: number): CompletedRound {
  const plan = { key, index: key, shape: [2], length: 2, resultLength: 2, operation: "sum" } as const;
  return { plan, round: 1, priority: 0, values: new Float32Array(2), deviceCount: 1 };
}

test("a round that becomes ready at any moment of another one is reduced", async () => {
  for (let delay = 0; delay < 60; delay++) {
    const level = new AllReduceLevel({ session: aloneSession(), clock: new SimClock(), reduce: "sum" });
    await level.open({});
    const ended: number[] = [];
    const exchange = async (key: number): Promise<void> => {
      await level.exchange(roundOf(key));
      ended.push(key);
    };
    void exchange(0);
    for (let i = 0; i < delay; i++) await Promise.resolve();
    void exchange(1);
    await setImmediate();
    assert.deepEqual(ended, [0, 1], `${delay} microtasks later`);
  }
});
