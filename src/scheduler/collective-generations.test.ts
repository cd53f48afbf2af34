// Goal: a generation has exactly those workers that have to be in it, nobody waits for one that cannot come, and
// numbers only rise.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { idOf } from "../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { CollectiveGenerations, type SettledRequest } from "./collective-generations.ts";

type Worker = { readonly holder?: number; readonly state?: NodeState; readonly address?: string };

/** Worker r, and a server beside them. */
function rosterOf(...workers: readonly Worker[]): RosterEntry[] {
  const entry = (role: "worker" | "server", rank: number, { holder = 1, state = "alive", address = "a" }: Worker): RosterEntry => ({
    node: idOf(role, rank),
    role,
    rank,
    address,
    incarnation: holder,
    state,
    label: "",
  });
  return [...workers.map((worker, rank) => entry("worker", rank, worker)), entry("server", 0, {})];
}

/** The callers that were answered, with the generation and ranks they were told, or the error's code. */
function told(settled: readonly SettledRequest<string>[]): Record<string, string> {
  return Object.fromEntries(
    settled.map(({ caller, outcome }) => [
      caller,
      outcome instanceof WeighbridgeError
        ? outcome.code
        : `${outcome.generation}: ${outcome.members.map(({ node, incarnation }) => `${(node - 9) / 2}.${incarnation}`).join(" ")}`,
    ]),
  );
}

function enter(
  generations: CollectiveGenerations<string>,
  rank: number,
  { holder = 1, generation = 0, caller = `t${rank}` } = {},
): SettledRequest<string>[] {
  return generations.enter({ node: idOf("worker", rank), incarnation: holder, generation, caller });
}

test("the first generation waits for every worker that is alive, also for those that do not listen yet", () => {
  const generations = new CollectiveGenerations<string>();
  const nodes = rosterOf({}, { address: "" }, { state: "dead" }, { state: "left" });
  enter(generations, 0);
  assert.deepEqual(generations.review(nodes), []);
  assert.deepEqual(generations.standing(), [{ node: 9, incarnation: 1 }]);
  enter(generations, 1);
  assert.deepEqual(told(generations.review(nodes)), { t0: "1: 0.1 1.1", t1: "1: 0.1 1.1" });
  assert.equal(generations.generation, 1);
  assert.deepEqual(generations.review(nodes), []);
});

test("later generations wait for those who listen, not for one that was restarted and has not come", () => {
  const generations = new CollectiveGenerations<string>();
  for (const rank of [0, 1, 2]) enter(generations, rank);
  generations.review(rosterOf({}, {}, {}));
  const nodes = rosterOf({}, { holder: 2, address: "" }, {});
  enter(generations, 0, { generation: 1 });
  assert.deepEqual(generations.review(nodes), []);
  enter(generations, 2, { generation: 1 });
  assert.deepEqual(told(generations.review(nodes)), { t0: "2: 0.1 2.1", t2: "2: 0.1 2.1" });
  enter(generations, 1, { holder: 2 });
  const listening = rosterOf({}, { holder: 2 }, {});
  assert.deepEqual(generations.review(listening), []);
  for (const rank of [0, 2]) enter(generations, rank, { generation: 2 });
  assert.deepEqual(told(generations.review(listening)), { t0: "3: 0.1 1.2 2.1", t1: "3: 0.1 1.2 2.1", t2: "3: 0.1 1.2 2.1" });
});

test("members that have all left wait for each other when they come again, but not for one that leaves the job", () => {
  const generations = new CollectiveGenerations<string>();
  for (const rank of [0, 1, 2]) enter(generations, rank);
  generations.review(rosterOf({}, {}, {}));
  const gone = rosterOf({ address: "" }, { address: "" }, { holder: 2, address: "" });
  for (const rank of [0, 1]) assert.deepEqual(generations.leave(idOf("worker", rank)), []);
  enter(generations, 0, { generation: 1 });
  const [first, both] = [rosterOf({}, gone[1]!, { holder: 2, address: "" }), rosterOf({}, {}, { holder: 2, address: "" })];
  assert.deepEqual(generations.review(first), []);
  assert.deepEqual(generations.review(first, new Set([idOf("server", 0)])), []);
  enter(generations, 1, { generation: 1 });
  assert.deepEqual(told(generations.review(both)), { t0: "2: 0.1 1.1", t1: "2: 0.1 1.1" });
  for (const rank of [0, 1]) generations.leave(idOf("worker", rank));
  enter(generations, 1, { generation: 2 });
  assert.deepEqual(told(generations.review(rosterOf({ address: "" }, {}), new Set([idOf("worker", 0)]))), { t1: "3: 1.1" });
});

test("a worker that dies while others wait for it lets them go on", () => {
  const generations = new CollectiveGenerations<string>();
  enter(generations, 0);
  assert.deepEqual(generations.review(rosterOf({}, {})), []);
  generations.died(idOf("worker", 1));
  assert.deepEqual(told(generations.review(rosterOf({}, { state: "dead" }))), { t0: "1: 0.1" });
});

test("a worker that comes again, leaves, or was replaced is no longer waited for under its old request", () => {
  const generations = new CollectiveGenerations<string>();
  enter(generations, 0);
  assert.deepEqual(told(enter(generations, 0, { caller: "again" })), { t0: "ABORTED" });
  assert.deepEqual(told(generations.leave(idOf("worker", 0))), { again: "ABORTED" });
  assert.deepEqual(generations.leave(idOf("worker", 0)), []);
  enter(generations, 1);
  assert.deepEqual(told(generations.review(rosterOf({}, { holder: 2 }))), { t1: "ABORTED" });
});

test("who missed the answer gets the same one while its members live, and otherwise waits for the next", () => {
  const generations = new CollectiveGenerations<string>();
  generations.recall({ generation: 4, members: [0, 1].map((rank) => ({ node: idOf("worker", rank), incarnation: 1 })) });
  enter(generations, 1, { generation: 3 });
  assert.deepEqual(told(generations.review(rosterOf({}, {}))), { t1: "4: 0.1 1.1" });
  assert.equal(generations.ended, 3);
  generations.died(idOf("worker", 0)); // and is heard of again
  assert.equal(generations.ended, 4);
  enter(generations, 1, { generation: 3 });
  assert.deepEqual(generations.review(rosterOf({}, {})), []);
  enter(generations, 0, { generation: 4 });
  assert.deepEqual(told(generations.review(rosterOf({}, {}))), { t0: "5: 0.1 1.1", t1: "5: 0.1 1.1" });
});

test("numbers rise above what the workers bring along, whatever a scheduler has forgotten", () => {
  const generations = new CollectiveGenerations<string>();
  enter(generations, 0, { generation: 7 });
  assert.deepEqual(told(generations.review(rosterOf({}, { address: "" }))), { t0: "8: 0.1" });
  generations.recall({ generation: 6, members: [] });
  assert.equal(generations.generation, 8);
});

test("a generation is over when a member dies, is restarted, leaves, or wants the next one", () => {
  const ends: readonly ((generations: CollectiveGenerations<string>) => void)[] = [
    (generations) => generations.died(idOf("worker", 1)),
    (generations) => generations.review(rosterOf({}, { holder: 2 })),
    (generations) => generations.review(rosterOf({}, { state: "left" })),
    (generations) => generations.leave(idOf("worker", 1)),
    (generations) => enter(generations, 1, { generation: 1 }),
  ];
  for (const end of ends) {
    const generations = new CollectiveGenerations<string>();
    for (const rank of [0, 1]) enter(generations, rank);
    generations.review(rosterOf({}, {}));
    assert.deepEqual([generations.generation, generations.ended], [1, 0]);
    end(generations);
    assert.deepEqual([generations.generation, generations.ended], [1, 1], String(end));
  }
});

test("a restarted scheduler that is told what is over does not give it again", () => {
  const generations = new CollectiveGenerations<string>();
  generations.recall({ generation: 4, members: [0, 1].map((rank) => ({ node: idOf("worker", rank), incarnation: 1 })) }, 4);
  enter(generations, 1, { generation: 3 });
  assert.deepEqual(generations.review(rosterOf({}, {})), []);
});

test("a restarted scheduler knows from rosters alone that there were generations, and waits for nobody who has left them", () => {
  const generations = new CollectiveGenerations<string>();
  generations.recall(undefined, 2);
  enter(generations, 1, { holder: 2 });
  assert.deepEqual(told(generations.review(rosterOf({ address: "" }, { holder: 2 }))), { t1: "3: 1.2" });
});
