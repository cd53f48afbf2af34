// Goal: a generation has exactly those workers that have to be in it, nobody waits for one that cannot come, and numbers only rise.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { idOf } from "../wire/node-id.ts";
import type { NodeState, RosterEntry } from "../wire/roster.ts";
import { Gathering, type SettledTicket } from "./gathering.ts";

type Worker = { readonly life?: number; readonly state?: NodeState; readonly address?: string };

/** Worker r, and a server beside them. */
function rosterOf(...workers: readonly Worker[]): RosterEntry[] {
  const entry = (role: "worker" | "server", rank: number, { life = 1, state = "alive", address = "a" }: Worker): RosterEntry => ({
    node: idOf(role, rank),
    role,
    rank,
    address,
    incarnation: life,
    state,
    label: "",
  });
  return [...workers.map((worker, rank) => entry("worker", rank, worker)), entry("server", 0, {})];
}

/** The tickets that were answered, with the generation and ranks they were told, or the error's code. */
function told(settled: readonly SettledTicket<string>[]): Record<string, string> {
  return Object.fromEntries(
    settled.map(({ ticket, outcome }) => [
      ticket,
      outcome instanceof WeighbridgeError
        ? outcome.code
        : `${outcome.generation}: ${outcome.members.map(({ node, incarnation }) => `${(node - 9) / 2}.${incarnation}`).join(" ")}`,
    ]),
  );
}

function enter(
  gathering: Gathering<string>,
  rank: number,
  { life = 1, generation = 0, ticket = `t${rank}` } = {},
): SettledTicket<string>[] {
  return gathering.enter({ node: idOf("worker", rank), incarnation: life, generation, ticket });
}

test("the first generation waits for every worker that is alive, also for those that do not listen yet", () => {
  const gathering = new Gathering<string>();
  const nodes = rosterOf({}, { address: "" }, { state: "dead" }, { state: "left" });
  enter(gathering, 0);
  assert.deepEqual(gathering.review(nodes), []);
  assert.deepEqual(gathering.standing(), [{ node: 9, incarnation: 1 }]);
  enter(gathering, 1);
  assert.deepEqual(told(gathering.review(nodes)), { t0: "1: 0.1 1.1", t1: "1: 0.1 1.1" });
  assert.equal(gathering.generation, 1);
  assert.deepEqual(gathering.review(nodes), []);
});

test("later generations wait for those who listen, not for one that was restarted and has not come", () => {
  const gathering = new Gathering<string>();
  for (const rank of [0, 1, 2]) enter(gathering, rank);
  gathering.review(rosterOf({}, {}, {}));
  const nodes = rosterOf({}, { life: 2, address: "" }, {});
  enter(gathering, 0, { generation: 1 });
  assert.deepEqual(gathering.review(nodes), []);
  enter(gathering, 2, { generation: 1 });
  assert.deepEqual(told(gathering.review(nodes)), { t0: "2: 0.1 2.1", t2: "2: 0.1 2.1" });
  enter(gathering, 1, { life: 2 });
  const listening = rosterOf({}, { life: 2 }, {});
  assert.deepEqual(gathering.review(listening), []);
  for (const rank of [0, 2]) enter(gathering, rank, { generation: 2 });
  assert.deepEqual(told(gathering.review(listening)), { t0: "3: 0.1 1.2 2.1", t1: "3: 0.1 1.2 2.1", t2: "3: 0.1 1.2 2.1" });
});

test("a worker that dies while others wait for it lets them go on", () => {
  const gathering = new Gathering<string>();
  enter(gathering, 0);
  assert.deepEqual(gathering.review(rosterOf({}, {})), []);
  gathering.died(idOf("worker", 1));
  assert.deepEqual(told(gathering.review(rosterOf({}, { state: "dead" }))), { t0: "1: 0.1" });
});

test("who comes again, leaves, or was replaced is no longer waited for under its old ticket", () => {
  const gathering = new Gathering<string>();
  enter(gathering, 0);
  assert.deepEqual(told(enter(gathering, 0, { ticket: "again" })), { t0: "ABORTED" });
  assert.deepEqual(told(gathering.leave(idOf("worker", 0))), { again: "ABORTED" });
  assert.deepEqual(gathering.leave(idOf("worker", 0)), []);
  enter(gathering, 1);
  assert.deepEqual(told(gathering.review(rosterOf({}, { life: 2 }))), { t1: "ABORTED" });
});

test("who missed the answer gets the same one while its members live, and otherwise waits for the next", () => {
  const gathering = new Gathering<string>();
  gathering.recall({ generation: 4, members: [0, 1].map((rank) => ({ node: idOf("worker", rank), incarnation: 1 })) });
  enter(gathering, 1, { generation: 3 });
  assert.deepEqual(told(gathering.review(rosterOf({}, {}))), { t1: "4: 0.1 1.1" });
  assert.equal(gathering.ended, 3);
  gathering.died(idOf("worker", 0)); // and is heard of again
  assert.equal(gathering.ended, 4);
  enter(gathering, 1, { generation: 3 });
  assert.deepEqual(gathering.review(rosterOf({}, {})), []);
  enter(gathering, 0, { generation: 4 });
  assert.deepEqual(told(gathering.review(rosterOf({}, {}))), { t0: "5: 0.1 1.1", t1: "5: 0.1 1.1" });
});

test("numbers rise above what the workers bring along, whatever a scheduler has forgotten", () => {
  const gathering = new Gathering<string>();
  enter(gathering, 0, { generation: 7 });
  assert.deepEqual(told(gathering.review(rosterOf({}, { address: "" }))), { t0: "8: 0.1" });
  gathering.recall({ generation: 6, members: [] });
  assert.equal(gathering.generation, 8);
});

test("a generation is over when a member dies, is restarted, leaves, or wants the next one", () => {
  const ends: readonly ((gathering: Gathering<string>) => void)[] = [
    (gathering) => gathering.died(idOf("worker", 1)),
    (gathering) => gathering.review(rosterOf({}, { life: 2 })),
    (gathering) => gathering.review(rosterOf({}, { state: "left" })),
    (gathering) => gathering.leave(idOf("worker", 1)),
    (gathering) => enter(gathering, 1, { generation: 1 }),
  ];
  for (const end of ends) {
    const gathering = new Gathering<string>();
    for (const rank of [0, 1]) enter(gathering, rank);
    gathering.review(rosterOf({}, {}));
    assert.deepEqual([gathering.generation, gathering.ended], [1, 0]);
    end(gathering);
    assert.deepEqual([gathering.generation, gathering.ended], [1, 1], String(end));
  }
});

test("a restarted scheduler that is told what is over does not give it again", () => {
  const gathering = new Gathering<string>();
  gathering.recall({ generation: 4, members: [0, 1].map((rank) => ({ node: idOf("worker", rank), incarnation: 1 })) }, 4);
  enter(gathering, 1, { generation: 3 });
  assert.deepEqual(gathering.review(rosterOf({}, {})), []);
});

test("a restarted scheduler knows from rosters alone that there were generations, and waits for nobody who has left them", () => {
  const gathering = new Gathering<string>();
  gathering.recall(undefined, 2);
  enter(gathering, 1, { life: 2 });
  assert.deepEqual(told(gathering.review(rosterOf({ address: "" }, { life: 2 }))), { t1: "3: 1.2" });
});
