// Goal: after a meeting all clocks are the highest one, however high, and one that is not held ends with the names of those that did not come.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../api/session.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { EmbeddedCluster } from "../../node/embedded-cluster.ts";
import { alignClocks } from "./clock-alignment.ts";

const WAIT = { deadlineMs: 20_000 };

/** A session whose clock stands `base` higher than it does: nobody counts to 2^24 in a test. */
function shifted(session: Session, base: number): Session {
  return new Proxy(session, {
    get: (target, name) => {
      if (name === "clocks") return target.clocks + base;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

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
  const [low, high] = cluster.sessions.map((session) => shifted(session, 2 ** 24 - 2)) as [Session, Session];
  for (let i = 0; i < 5; i++) high.clock();
  await Promise.all([low, high].map((session) => alignClocks(session, { name: "t", epoch: 0 }, WAIT)));
  assert.deepEqual([low.clocks, high.clocks], [2 ** 24 + 3, 2 ** 24 + 3]);
});

test("a worker that does not come is named when the deadline has passed", { timeout: 20_000 }, async () => {
  await using cluster = await EmbeddedCluster.start({ servers: 1, workers: 3 });
  const [one, two] = cluster.sessions as [Session, Session];
  const outcomes = await Promise.allSettled(
    [one, two].map((session) => alignClocks(session, { name: "t", epoch: 4 }, { deadlineMs: 300 })),
  );
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
