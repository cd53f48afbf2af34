// Goal: workers leave an epoch together, whoever has heard that it is over when one of them dies, and nobody waits for
// one that has left it (EpochEnd.E1, EpochEnd.E2).

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { alignClocks, leaveEpoch } from "./epoch-end.ts";

/** A rendezvous that is held from the n-th ask on, each of which takes a turn. */
function rendezvousFrom(heldFrom: number): { readonly isHeld: () => Promise<boolean>; readonly asks: () => number } {
  let asks = 0;
  const isHeld = async (): Promise<boolean> => {
    await new Promise(setImmediate);
    return ++asks >= heldFrom;
  };
  return { isHeld, asks: () => asks };
}

const never = async (): Promise<void> => await Promise.reject(new Error("nobody has to regroup"));
const untilAborted = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new WeighbridgeError("ABORTED", "the wait was aborted")));
  });

test("a rendezvous that is held ends the epoch, also where the group is broken by then", async () => {
  assert.equal(await leaveEpoch({ rendezvous: rendezvousFrom(3), isBroken: () => false, regroup: never }), true);
  assert.equal(await leaveEpoch({ rendezvous: rendezvousFrom(1), isBroken: () => true, regroup: never }), true);
});

test("those in the rendezvous regroup with the one that lost the word, and agree once more (EpochEnd.E1)", async () => {
  const rendezvous = rendezvousFrom(Infinity);
  let isRegrouped = false;
  const regroup = async (): Promise<void> => {
    await new Promise(setImmediate);
    isRegrouped = true;
  };
  assert.equal(await leaveEpoch({ rendezvous, isBroken: () => rendezvous.asks() > 1, regroup }), false);
  assert.ok(isRegrouped);
});

test("nobody waits in a regrouping for those who have left, because the rendezvous was held (EpochEnd.E2)", async () => {
  const rendezvous = rendezvousFrom(5);
  assert.equal(await leaveEpoch({ rendezvous, isBroken: () => true, regroup: untilAborted }), true);
});

test("who regroups with one that is in the next epoch leaves this one (EpochEnd.E2)", async () => {
  let isRegrouped = false;
  const isHeld = async (): Promise<boolean> => {
    const wasRegrouped = isRegrouped;
    await new Promise(setImmediate);
    return wasRegrouped; // an ask that began before knows nothing of it
  };
  const regroup = async (): Promise<void> => {
    await new Promise(setImmediate);
    isRegrouped = true;
  };
  assert.equal(await leaveEpoch({ rendezvous: { isHeld }, isBroken: () => true, regroup }), true);
});

test("a regrouping that fails by itself ends the training", async () => {
  const regroup = async (): Promise<void> => await Promise.reject(new WeighbridgeError("FENCED", "this worker was taken for dead"));
  await assert.rejects(leaveEpoch({ rendezvous: rendezvousFrom(Infinity), isBroken: () => true, regroup }), { code: "FENCED" });
});

const WAIT = { timeoutMs: 20_000 };

test("all workers have the highest clock afterwards", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 3 });
  for (const epoch of [0, 1]) {
    for (const session of cluster.sessions) for (let i = 0; i < 2 * session.rank; i++) session.clock();
    await Promise.all(cluster.sessions.map((session) => alignClocks(session, { name: "t", epoch }, WAIT)));
    assert.deepEqual(
      cluster.sessions.map(({ clocks }) => clocks),
      Array.from({ length: 3 }, () => 4 * (epoch + 1)),
    );
  }
});

test("clocks on both sides of 2^24 are brought together as all others are", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 2 });
  const [low, high] = cluster.sessions as [Session, Session];
  low.advanceTo(2 ** 24 - 2);
  high.advanceTo(2 ** 24 + 3);
  await Promise.all([low, high].map((session) => alignClocks(session, { name: "t", epoch: 0 }, WAIT)));
  assert.deepEqual([low.clocks, high.clocks], [2 ** 24 + 3, 2 ** 24 + 3]);
});

test("a worker that does not come is named when the deadline has passed", { timeout: 60_000 }, async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 3 });
  const [one, two] = cluster.sessions as [Session, Session];
  const outcomes = await Promise.allSettled([one, two].map((session) => alignClocks(session, { name: "t", epoch: 4 }, { timeoutMs: 300 })));
  for (const outcome of outcomes) {
    assert.ok(outcome.status === "rejected");
    assert.ok(isWeighbridgeError(outcome.reason, "DEADLINE"), String(outcome.reason));
    assert.match(outcome.reason.message, /epoch 5 of "t" for worker 2$/);
  }
});

test("workers that waited for each other have left no parameter behind", async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 2 });
  await Promise.all(cluster.sessions.map((session) => alignClocks(session, { name: "t", epoch: 0 }, WAIT)));
  assert.deepEqual(await cluster.session.parameters(), []);
});
