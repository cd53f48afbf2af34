// Goal: who is ready gets partners who are ready: as many as it wants, or those there are when patience ends; all agree
// who they are.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import { PartialReduce, type PartnerWaiter } from "./partial-reduce.ts";

const holderOf = (rank: number, incarnation = 1) => ({ worker: idOf("worker", rank), incarnation });

/** Writes down who got which partners ("rank: ranks") and who failed. */
function openReduce() {
  const clock = new SimClock();
  const reduce = new PartialReduce(clock);
  const events: string[] = [];
  const join = (rank: number, { want = 3, patienceMs = 100, key = 1n, incarnation = 1 } = {}): PartnerWaiter => {
    const formed = (ranks: readonly number[]): unknown => events.push(`${rank}: ${ranks.join(" ")}`);
    const waiter: PartnerWaiter = { formed, failed: ({ code }) => events.push(`${rank}: ${code}`) };
    const ranks = reduce.join({ ...holderOf(rank, incarnation), key, want, patienceMs, waiter });
    if (ranks !== undefined) formed(ranks);
    return waiter;
  };
  const news = (): string[] => events.splice(0).sort();
  return { clock, reduce, join, news };
}

test("a group of any size forms exactly with the last it wants, 8 with 8 (PartialReduce.Q1)", () => {
  for (const want of [1, 2, 3, 8, 9, 16, 100]) {
    const { clock, join, news } = openReduce();
    for (let rank = want - 1; rank > 0; rank--) join(rank, { want });
    assert.deepEqual(news(), [], `${want - 1} of ${want}`);
    join(0, { want });
    const ranks = Array.from({ length: want }, (_, rank) => rank).join(" ");
    assert.deepEqual(news(), Array.from({ length: want }, (_, rank) => `${rank}: ${ranks}`).sort(), `${want}`);
    assert.equal(clock.pendingCount, 0);
  }
});

test("when the first one's patience ends, those who are there are the group (PartialReduce.Q1)", async () => {
  const { clock, join, news } = openReduce();
  join(5, { patienceMs: 100 });
  await clock.advance(60);
  join(2, { patienceMs: 100 });
  await clock.advance(39);
  assert.deepEqual(news(), []);
  await clock.advance(1);
  assert.deepEqual(news(), ["2: 2 5", "5: 2 5"]);
});

test("one alone gets itself, at once if it has no patience", async () => {
  const { clock, join, news } = openReduce();
  join(4, { patienceMs: 0 });
  await clock.run();
  assert.deepEqual(news(), ["4: 4"]);
});

test("who comes after the last opens the next gathering at once, also from inside the answer (PartialReduce.Q3)", () => {
  const { reduce, join, news } = openReduce();
  const again: PartnerWaiter = { formed: () => void join(0), failed: () => {} };
  reduce.join({ ...holderOf(0), key: 1n, want: 2, patienceMs: 100, waiter: again });
  join(1, { want: 2 });
  assert.deepEqual(news(), ["1: 0 1"]);
  join(7);
  join(8);
  assert.deepEqual(news(), ["0: 0 7 8", "7: 0 7 8", "8: 0 7 8"]);
});

test("a rank that asks again counts once, and its newer waiter is the one that is told (PartialReduce.Q2)", () => {
  const { join, news } = openReduce();
  join(0);
  join(0);
  assert.deepEqual(news(), ["0: ABORTED"]);
  join(1);
  assert.deepEqual(news(), []);
  join(2);
  assert.deepEqual(news(), ["0: 0 1 2", "1: 0 1 2", "2: 0 1 2"]);
});

test("who dies or gives up while it waits is nobody's partner, and the first one's patience still holds (PartialReduce.Q4)", async () => {
  const { clock, reduce, join, news } = openReduce();
  join(0, { patienceMs: 100 });
  const given = join(1, { patienceMs: 500 });
  join(2, { patienceMs: 500 + 1, want: 3, key: 2n });
  reduce.gone(holderOf(0));
  assert.deepEqual(news(), ["0: NODE_DEAD"]);
  join(3);
  reduce.cancel({ key: 1n, worker: holderOf(1).worker, waiter: given });
  await clock.advance(100);
  assert.deepEqual(news(), ["3: 3"]);
  reduce.gone(holderOf(2));
  assert.deepEqual([clock.pendingCount, reduce.groupCount], [0, 0], "a gathering without waiters is none (PartialReduce.Q5)");
});

test("giving up what was told or replaced changes nothing", () => {
  const { reduce, join, news } = openReduce();
  const old = join(0);
  join(0);
  reduce.cancel({ key: 1n, worker: holderOf(0).worker, waiter: old });
  reduce.cancel({ key: 9n, worker: holderOf(0).worker, waiter: old });
  join(1);
  join(2);
  assert.ok(news().includes("1: 0 1 2"));
});

test("news of an old incarnation does not touch the new one, and an incarnation that is over gathers with nobody", () => {
  const { reduce, join, news } = openReduce();
  join(0, { incarnation: 2 });
  reduce.gone(holderOf(0, 1));
  assert.throws(() => join(0, { incarnation: 1 }), throwsCode("FENCED"));
  reduce.gone(holderOf(1));
  assert.throws(() => join(1), throwsCode("NODE_DEAD"));
  reduce.revived(holderOf(1));
  join(1);
  join(2);
  assert.deepEqual(news(), ["0: 0 1 2", "1: 0 1 2", "2: 0 1 2"]);
});

test("who wants another number than those who gather is refused, and they stay", () => {
  const { join, news } = openReduce();
  join(0, { want: 2 });
  assert.throws(
    () => join(1, { want: 3 }),
    (error) =>
      isWeighbridgeError(error, "BAD_ARGUMENT") && /worker 1 wants a group of 3 under key 1, where a group of 2/.test(error.message),
  );
  join(1, { want: 2 });
  assert.deepEqual(news(), ["0: 0 1", "1: 0 1"]);
});

test("numbers that make no sense are refused, and so is one key too many (PartialReduce.Q5)", () => {
  const { reduce, join } = openReduce();
  for (const want of [0, -1, 1.5, Number.NaN, Infinity]) assert.throws(() => join(0, { want }), throwsCode("BAD_ARGUMENT"), `${want}`);
  for (const patienceMs of [-1, Number.NaN, Infinity])
    assert.throws(() => join(0, { patienceMs }), throwsCode("BAD_ARGUMENT"), `${patienceMs}`);
  assert.equal(reduce.groupCount, 0);
  for (let key = 0n; key < 4096n; key++) join(0, { key });
  assert.throws(() => join(0, { key: 4096n }), throwsCode("QUEUE_FULL"));
});

test("a server that closes tells everybody", () => {
  const { clock, reduce, join, news } = openReduce();
  join(0);
  join(1, { key: 2n });
  reduce.close();
  assert.deepEqual(news(), ["0: CLOSED", "1: CLOSED"]);
  assert.equal(clock.pendingCount, 0);
});

test("at random: groups are never too large, all members agree, and nobody waits beyond the patience", async () => {
  for (let seed = 1; seed <= 100; seed++) {
    const random = new Random(seed);
    const clock = new SimClock();
    const reduce = new PartialReduce(clock);
    const want = 1 + random.below(8);
    const workers = 1 + random.below(16);
    const told = new Map<readonly number[], number[]>();
    let endedCount = 0;
    for (let i = 0; i < 60; i++) {
      const rank = random.below(workers);
      clock.after(random.below(1000), () => {
        const askedMs = clock.nowMs();
        const formed = (ranks: readonly number[]): void => {
          endedCount++;
          assert.ok(clock.nowMs() - askedMs <= 50, `seed ${seed}: worker ${rank} waited too long`);
          told.set(ranks, [...(told.get(ranks) ?? []), rank]);
        };
        const ranks = reduce.join({ ...holderOf(rank), key: 1n, want, patienceMs: 50, waiter: { formed, failed: () => endedCount++ } });
        if (ranks !== undefined) formed(ranks);
      });
    }
    await clock.run();
    assert.equal(endedCount, 60, `seed ${seed}: everybody is told`);
    for (const [ranks, members] of told) {
      assert.ok(ranks.length <= want);
      assert.deepEqual(
        members.sort((a, b) => a - b),
        ranks,
        `seed ${seed}: exactly its members were told of it`,
      );
    }
  }
});
