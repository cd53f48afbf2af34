// barrier.test — Goal: a barrier lets its members go exactly together, counts nodes and not messages, and never leaves
// anybody waiting for the dead.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { Group, roleOf } from "../wire/node-id.ts";
import type { NodeState } from "../wire/roster.ts";
import { Barriers, type SettledEntry } from "./barrier.ts";

/** Two servers, two workers and the scheduler, and a barrier room whose callers are names. */
function cluster(nodes: readonly number[] = [1, 8, 10, 9, 11]) {
  const states = new Map<number, NodeState>(nodes.map((node) => [node, "alive"]));
  const barriers = new Barriers<string>(() => [...states].map(([node, state]) => ({ node, role: roleOf(node), state })));
  const enter = (node: number, { group = 4, customer = 0, round = 0, caller = `${node}`, outlivesDeaths = false } = {}): string[] =>
    texts(barriers.enter({ group, customer, node, round, caller, outlivesDeaths }));
  return { states, barriers, enter };
}

/** "9:1" passed round 1; "9:NODE_DEAD" failed. */
function texts(settled: readonly SettledEntry<string>[]): string[] {
  return settled.map(({ caller, outcome }) => `${caller}:${isWeighbridgeError(outcome) ? outcome.code : outcome}`);
}

test("lets everybody go when the last member enters", () => {
  const { enter } = cluster();
  assert.deepEqual(enter(9), []);
  assert.deepEqual(enter(11), ["9:1", "11:1"]);
});

test("counts a member that enters twice once, and answers both of its entries (Barrier.B1)", () => {
  const { enter } = cluster();
  assert.deepEqual(enter(9, { caller: "old" }), []);
  assert.deepEqual(enter(9, { caller: "new" }), []);
  assert.deepEqual(enter(11), ["old:1", "new:1", "11:1"]);
});

test("gives up the oldest of more than 16 further entries of one member, and may be asked again (Barrier.B1)", () => {
  const { barriers, enter } = cluster();
  for (let i = 1; i <= 16; i++) assert.deepEqual(enter(9, { caller: `${i}` }), []);
  const [settled] = barriers.enter({ group: 4, customer: 0, node: 9, round: 1, caller: "17" });
  assert.equal(settled?.caller, "1");
  assert.ok(isWeighbridgeError(settled?.outcome, "ABORTED") && settled.outcome.retryable);
  assert.equal(enter(11).length, 17);
});

test("waits for every role of the group, the scheduler included", () => {
  const { enter } = cluster();
  for (const node of [8, 9, 10, 11]) assert.deepEqual(enter(node, { group: Group.ALL }), []);
  assert.deepEqual(enter(1, { group: Group.ALL }), ["8:1", "9:1", "10:1", "11:1", "1:1"]);
});

test("keeps groups apart, and customers", () => {
  const { enter } = cluster();
  assert.deepEqual(enter(9), []);
  assert.deepEqual(enter(11, { customer: 1 }), []);
  assert.deepEqual(enter(11, { group: Group.WORKERS | Group.SERVERS }), []);
  assert.deepEqual(enter(9, { customer: 1 }), ["11:1", "9:1"]);
});

test("a group of one passes at once", () => {
  assert.deepEqual(cluster([1, 8, 9]).enter(9), ["9:1"]);
});

test("is used again, round after round", () => {
  const { enter } = cluster();
  for (let round = 1; round <= 3; round++) {
    enter(9, { round });
    assert.deepEqual(enter(11, { round }), [`9:${round}`, `11:${round}`]);
  }
});

test("a member that dies inside fails all who wait, and is not counted afterwards", () => {
  const { states, barriers, enter } = cluster([1, 9, 11, 13]);
  enter(9);
  enter(11);
  states.set(9, "dead");
  assert.deepEqual(texts(barriers.died(9)), ["9:NODE_DEAD", "11:NODE_DEAD"]);
  states.set(9, "alive"); // restarted
  assert.deepEqual(enter(11), []);
  assert.deepEqual(enter(13), []);
  assert.deepEqual(enter(9), ["11:1", "13:1", "9:1"]);
});

test("a member that was only silent learns that its entry is gone, and may enter again", () => {
  const { states, barriers, enter } = cluster();
  enter(9);
  states.set(9, "dead");
  assert.deepEqual(texts(barriers.died(9)), ["9:NODE_DEAD"]);
  states.set(9, "alive"); // heard of again, in the same incarnation
  assert.deepEqual(enter(11), []);
  assert.deepEqual(enter(9), ["11:1", "9:1"]);
});

test("the failure names the dead node", () => {
  const { states, barriers } = cluster();
  states.set(11, "dead");
  const [settled] = barriers.enter({ group: 4, customer: 0, node: 9, round: 1, caller: "9" });
  assert.ok(isWeighbridgeError(settled?.outcome, "NODE_DEAD"));
  assert.match(settled.outcome.message, /worker 1 died/);
  assert.equal(settled.outcome.retryable, true);
});

test("a member that dies outside fails those inside", () => {
  const { states, barriers, enter } = cluster();
  enter(9);
  states.set(11, "dead");
  assert.deepEqual(texts(barriers.died(11)), ["9:NODE_DEAD"]);
});

test("whoever enters while a member is dead fails at once (Barrier.B3)", () => {
  const { states, enter } = cluster();
  states.set(11, "dead");
  assert.deepEqual(enter(9), ["9:NODE_DEAD"]);
  assert.deepEqual(enter(9), ["9:NODE_DEAD"]);
});

test("an entry that outlives deaths waits on when a member dies, and passes once that one has come back and entered (Barrier.B3)", () => {
  const { states, barriers, enter } = cluster([1, 9, 11, 13]);
  assert.deepEqual(enter(9, { outlivesDeaths: true }), []);
  assert.deepEqual(enter(11), []);
  states.set(13, "dead");
  assert.deepEqual(texts(barriers.died(13)), ["11:NODE_DEAD"], "the other kind fails");
  assert.deepEqual(texts(barriers.review()), []);
  assert.deepEqual(enter(11, { outlivesDeaths: true }), [], "nobody passes without the dead");
  assert.deepEqual([...barriers.lasting({ group: 4, customer: 0 })], [9, 11]);
  states.set(13, "alive");
  assert.deepEqual(enter(13), ["9:1", "11:1", "13:1"]);
  assert.deepEqual([...barriers.lasting({ group: 4, customer: 0 })], []);
});

test("entries that outlive deaths pass when the dead count as having left (Barrier.B3)", () => {
  const { states, barriers, enter } = cluster();
  assert.deepEqual(enter(9, { outlivesDeaths: true }), []);
  states.set(11, "dead");
  assert.deepEqual(texts(barriers.died(11)), []);
  states.set(11, "left");
  assert.deepEqual(texts(barriers.review()), ["9:1"]);
});

test("the entry of a node that died is gone, even one that outlives deaths: whoever takes its slot enters by itself (Barrier.B3)", () => {
  const { states, barriers, enter } = cluster();
  assert.deepEqual(enter(9, { outlivesDeaths: true }), []);
  states.set(9, "dead");
  assert.deepEqual(texts(barriers.died(9)), ["9:NODE_DEAD"]);
  states.set(9, "alive");
  assert.deepEqual(enter(11), []);
  assert.deepEqual(enter(9), ["11:1", "9:1"]);
});

test("the death of a node outside the group changes nothing", () => {
  const { states, barriers, enter } = cluster();
  enter(9);
  states.set(8, "dead");
  assert.deepEqual(texts(barriers.died(8)), []);
  assert.deepEqual(enter(11), ["9:1", "11:1"]);
});

test("a slot that was taken over fails those who waited for its old incarnation, and forgets its entry", () => {
  const { barriers, enter } = cluster([1, 9, 11, 13]);
  enter(9);
  enter(11);
  // replaced at once: never seen in state dead
  assert.deepEqual(texts(barriers.died(9)), ["9:NODE_DEAD", "11:NODE_DEAD"]);
  enter(11);
  assert.deepEqual(enter(13), []);
});

test("who has left does not count (Barrier.B2)", () => {
  const { states, barriers, enter } = cluster([1, 9, 11, 13]);
  enter(9);
  enter(11);
  states.set(13, "left");
  assert.deepEqual(texts(barriers.review()), ["9:1", "11:1"]);
});

test("the entry of who left is gone: whoever gets its slot has to enter by itself", () => {
  const { states, barriers, enter } = cluster([1, 9, 11, 13]);
  enter(13);
  states.set(13, "left");
  assert.deepEqual(texts(barriers.review()), ["13:ABORTED"]);
  states.set(13, "alive");
  enter(9);
  assert.deepEqual(enter(11), []);
  assert.deepEqual(enter(13), ["9:1", "11:1", "13:1"]);
});

test("a restarted node that does not know the round passes with the others", () => {
  const { enter } = cluster();
  enter(9, { round: 1 });
  enter(11, { round: 1 });
  enter(9, { round: 2 });
  assert.deepEqual(enter(11, { round: 0 }), ["9:2", "11:2"]);
});

test("who asks for a round that is over passes at once: its answer was lost", () => {
  const { enter } = cluster();
  enter(9, { round: 1 });
  enter(11, { round: 1 });
  assert.deepEqual(enter(9, { round: 1 }), ["9:1"]);
});

test("after a restart of the scheduler, a member at the next round proves that the last one is over", () => {
  const { enter } = cluster(); // knows nothing of rounds 1 to 6
  assert.deepEqual(enter(9, { round: 6 }), []); // its answer was lost with the scheduler
  assert.deepEqual(enter(11, { round: 7 }), ["9:6"]);
  assert.deepEqual(enter(9, { round: 7 }), ["11:7", "9:7"]);
});

test("after a restart of the scheduler, members in the same round pass together", () => {
  const { enter } = cluster();
  assert.deepEqual(enter(9, { round: 6 }), []);
  assert.deepEqual(enter(11, { round: 6 }), ["9:6", "11:6"]);
});

test("after a restart of the scheduler, a member that says it passed a round lets those go that missed the answer", () => {
  const { barriers, enter } = cluster();
  assert.deepEqual(enter(9, { round: 6 }), []);
  assert.deepEqual(texts(barriers.passed({ group: 4, customer: 0, node: 11, round: 5 })), []);
  assert.deepEqual(texts(barriers.passed({ group: 4, customer: 0, node: 11, round: 6 })), ["9:6"]);
  assert.deepEqual(texts(barriers.passed({ group: 4, customer: 0, node: 11, round: 2 })), []); // Barrier.B4
  assert.deepEqual(enter(9, { round: 6 }), ["9:6"]);
});

test("who is no member, or has no slot, is turned away, and so are groups and customers that cannot be", () => {
  const { states, enter } = cluster();
  const thrown = (code: "BAD_ARGUMENT" | "NO_ROUTE") => (error: unknown) => isWeighbridgeError(error, code);
  assert.throws(() => enter(8), thrown("BAD_ARGUMENT"));
  assert.throws(() => enter(13), thrown("NO_ROUTE"));
  assert.throws(() => enter(9, { group: 0 }), thrown("BAD_ARGUMENT"));
  assert.throws(() => enter(9, { group: 8 }), thrown("BAD_ARGUMENT"));
  assert.throws(() => enter(9, { customer: 65536 }), thrown("BAD_ARGUMENT"));
  states.set(9, "left");
  assert.throws(() => enter(9), thrown("NO_ROUTE"));
});

test("everybody who waits can be given up", () => {
  const { barriers, enter } = cluster();
  enter(9);
  enter(8, { group: 2 });
  const [settled] = barriers.enter({ group: 7, customer: 0, node: 1, round: 0, caller: "1" });
  assert.equal(settled, undefined);
  assert.equal(barriers.failAll(new (class extends Error {})() as never).length, 3);
  assert.deepEqual(barriers.review(), []);
});

test("for 300 seeds of entries, deaths and restarts, nobody is a round off and nobody waits for the dead", () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = new Random(seed);
    const nodes = [9, 11, 13];
    const { states, barriers } = cluster([1, ...nodes]);
    const rounds = new Map(nodes.map((node) => [node, 0]));
    const inside = new Set<number>();
    const note = (settled: readonly SettledEntry<string>[]): void => {
      for (const { caller, outcome } of settled) {
        inside.delete(Number(caller));
        if (typeof outcome === "number") rounds.set(Number(caller), outcome);
      }
    };
    for (let step = 0; step < 60; step++) {
      const node = nodes[random.below(nodes.length)] as number;
      if (states.get(node) === "dead") {
        states.set(node, "alive");
        rounds.set(node, -1); // a new incarnation does not know
      } else if (random.chance(0.15)) {
        states.set(node, "dead");
        inside.delete(node);
        note(barriers.died(node));
      } else if (!inside.has(node)) {
        inside.add(node);
        const round = (rounds.get(node) as number) + 1;
        note(barriers.enter({ group: 4, customer: 0, node, round, caller: `${node}` }));
      }
      const known = [...rounds].filter(([member, round]) => round > 0 && states.get(member) === "alive").map(([, round]) => round);
      assert.ok(new Set(known).size <= 1, `seed ${seed}, step ${step}: rounds ${known.join(", ")}`);
      if ([...states.values()].includes("dead")) assert.equal(inside.size, 0, `seed ${seed}, step ${step}: somebody waits for the dead`);
    }
  }
});

test("tells who stands at the barrier of the start from those that wait there for the end of the job", () => {
  const { barriers, enter } = cluster();
  const barrier = { group: Group.ALL, customer: 0 };
  enter(8, { ...barrier, outlivesDeaths: true });
  assert.deepEqual([barriers.hasStanding(barrier), [...barriers.lasting(barrier)]], [false, [8]]);
  enter(9, barrier);
  assert.equal(barriers.hasStanding(barrier), true);
});
