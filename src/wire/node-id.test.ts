// Goal: numbers of nodes as ps-lite counts them, both ways, and names for any number a peer may send.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Group, idOf, inGroup, nameOf, type Role, rankOf, roleOf, SCHEDULER_ID } from "./node-id.ts";

test("servers are 8, 10, 12 …, workers 9, 11, 13 …, the scheduler is 1", () => {
  assert.deepEqual([idOf("server", 0), idOf("server", 1), idOf("worker", 0), idOf("worker", 1)], [8, 10, 9, 11]);
  assert.equal(idOf("scheduler", 0), SCHEDULER_ID);
  assert.equal(SCHEDULER_ID, 1);
});

test("role and rank come back from the number", () => {
  for (const role of ["server", "worker"] as const) {
    for (const rank of [0, 1, 2, 1000, 2 ** 40]) {
      const id = idOf(role, rank);
      assert.deepEqual([roleOf(id), rankOf(id)], [role, rank]);
    }
  }
  assert.deepEqual([roleOf(SCHEDULER_ID), rankOf(SCHEDULER_ID)], ["scheduler", 0]);
});

test("groups are sums of roles", () => {
  const members = (group: number): Role[] => (["scheduler", "server", "worker"] as const).filter((role) => inGroup(role, group));
  assert.deepEqual(members(Group.SCHEDULER), ["scheduler"]);
  assert.deepEqual(members(Group.SERVERS), ["server"]);
  assert.deepEqual(members(Group.WORKERS), ["worker"]);
  assert.deepEqual(members(Group.SERVERS + Group.WORKERS), ["server", "worker"]);
  assert.deepEqual(members(Group.ALL), ["scheduler", "server", "worker"]);
  assert.deepEqual(members(0), []);
});

test("the standby of a server has its rank, a number above those of all others, and waits with the servers", () => {
  const id = idOf("standby", 3);
  assert.deepEqual([roleOf(id), rankOf(id), nameOf(id)], ["standby", 3, "standby 3"]);
  assert.ok(id > idOf("server", 2 ** 40) && id + 2 ** 31 <= Number.MAX_SAFE_INTEGER);
  assert.deepEqual([inGroup("standby", Group.SERVERS), inGroup("standby", Group.WORKERS)], [true, false]);
});

test("every number has a name", () => {
  assert.deepEqual([1, 8, 9, 11].map(nameOf), ["the scheduler", "server 0", "worker 0", "worker 1"]);
  for (const id of [-5, 0, 2, 7]) assert.equal(nameOf(id), "an unregistered peer");
  assert.equal(nameOf(2 ** 52), `server ${2 ** 51 - 4}`);
});
