// Goal: the workers of a cluster share an epoch between them through their sessions, agree on what it is, and hear of
// their own mistakes.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../api/session.ts";
import { isWeighbridgeError } from "../base/errors.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import type { UnitOptions } from "./units.ts";

const OPTIONS: UnitOptions = { epoch: 0, batchCount: 7, partCount: 3, assignment: "even" };

/** Does units until the epoch is over; those it did, in their order. */
async function work(session: Session, options: UnitOptions, limit = Infinity): Promise<number[]> {
  const units: number[] = [];
  for await (const unit of session.units("train", { ...options, timeoutMs: 20_000 })) {
    units.push(unit.index);
    unit.done();
    if (units.length >= limit) break;
  }
  return units;
}

test("even: every worker does its own part of every batch, epoch after epoch", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 3 });
  for (let epoch = 0; epoch < 3; epoch++) {
    const shares = await Promise.all(cluster.sessions.map((session) => work(session, { ...OPTIONS, epoch })));
    const expected = [0, 1, 2].map((part) => [0, 1, 2, 3, 4, 5, 6].map((batch) => 3 * batch + part));
    assert.deepEqual(shares, expected);
  }
  const [first] = cluster.sessions;
  assert.ok(first !== undefined);
  assert.deepEqual(await work(first, { ...OPTIONS, epoch: 1 }), [], "an epoch that is over stays over");
});

test("free: together they do all, each once", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 3 });
  const options = { ...OPTIONS, batchCount: 200, assignment: "free" } as const;
  const shares = await Promise.all(cluster.sessions.map((session) => work(session, options)));
  assert.deepEqual(
    shares.flat().sort((a, b) => a - b),
    Array.from({ length: 600 }, (_, unit) => unit),
  );
});

test("a worker that closes its feed early leaves the rest to the others, and a session that closes closes its feeds", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  const early = await work(two, OPTIONS, 2);
  const open = two.units("other", OPTIONS)[Symbol.asyncIterator]();
  await open.next();
  await two.close({ barrier: false });
  await assert.rejects(open.next(), (error) => isWeighbridgeError(error, "CLOSED"));
  const rest = await work(one, OPTIONS);
  assert.deepEqual(
    [...early, ...rest].sort((a, b) => a - b),
    Array.from({ length: 21 }, (_, unit) => unit),
  );
});

test("a worker that never says done is told so before it waits for ever", async () => {
  await using cluster = await EmbeddedCluster.start();
  const options = { epoch: 0, batchCount: 2000, partCount: 1, assignment: "free", timeoutMs: 20_000 } as const;
  let begunCount = 0;
  const beginAll = async (): Promise<void> => {
    for await (const unit of cluster.session.units("train", options)) begunCount += unit.parts;
  };
  await assert.rejects(beginAll(), {
    code: "QUEUE_FULL",
    message: /^1024 units of epoch 0 of "train" were begun and none of them is done/,
  });
  assert.equal(begunCount, 1024);
});

test("two workers that describe an epoch differently: the second is told the difference", async () => {
  await using cluster = await EmbeddedCluster.start({ workers: 2 });
  const [one, two] = cluster.sessions;
  assert.ok(one !== undefined && two !== undefined);
  await one.units("train", OPTIONS)[Symbol.asyncIterator]().next();
  await assert.rejects(work(two, { ...OPTIONS, batchCount: 8 }), {
    code: "SPEC_MISMATCH",
    message: 'the scheduler: epoch 0 of "train" has 7 batches, not 8, as it was described first',
  });
  assert.equal((await work(two, OPTIONS, 1)).length, 1);
});

test("options that make no sense are refused before anything is asked", async () => {
  await using cluster = await EmbeddedCluster.start();
  const { session } = cluster;
  const refused = (options: Partial<UnitOptions> & Record<string, unknown>, pattern: RegExp, name = "train"): void => {
    assert.throws(
      () => session.units(name, { ...OPTIONS, ...options }),
      (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && pattern.test(error.message),
    );
  };
  refused({ epoch: -1 }, /an epoch is a whole number from 0 up, not -1/);
  refused({ batchCount: 0 }, /at least one batch, not 0/);
  refused({ partCount: 1.5 }, /1 to 65536 parts, not 1.5/);
  refused({ assignment: "fair" as "free" }, /assigned "even", "free" or "rounds", not "fair"/);
  refused({ idleMs: -1 }, /idleMs/);
  refused({ idleMS: 1 }, /have no "idleMS"/);
  refused({}, /a name of 1 to 256 characters/, "");
  await session.units("train", OPTIONS)[Symbol.asyncIterator]().next();
  await assert.rejects(
    work(session, OPTIONS),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /is read already/.test(error.message),
  );
});
