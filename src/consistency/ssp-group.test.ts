// Goal: the members of a group stay within its tolerance of each other, whoever is slow waits for nobody, and nobody
// waits for the dead.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { Random } from "../base/random.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import { SspGroups, type SspWaitId } from "./ssp-group.ts";

const GROUP = 2n ** 63n + 5n;
const holderOf = (rank: number, incarnation = 1) => ({ worker: idOf("worker", rank), incarnation });

/** Groups that write down who passed ("rank@version") and who failed. */
function openGroups({ aliveCount = 8 } = {}) {
  const clock = new SimClock();
  const alive = { count: aliveCount };
  const groups = new SspGroups({ clock, aliveCount: () => alive.count });
  const events: string[] = [];
  const init = (rank: number, { size = 2, tolerance = 0, incarnation = 1, group = GROUP } = {}): number =>
    groups.init({ ...holderOf(rank, incarnation), group, size, tolerance });
  const sync = (rank: number, version: number, { timeoutMs = 1000, incarnation = 1, group = GROUP } = {}): SspWaitId | undefined => {
    const name = `${rank}@${version}`;
    const waiter = { admitted: () => events.push(name), failed: ({ code }: { code: string }) => events.push(`${name}:${code}`) };
    const waiting = groups.sync({ ...holderOf(rank, incarnation), group, version, timeoutMs, waiter });
    if (waiting === undefined) events.push(name);
    return waiting;
  };
  const news = (): string[] => events.splice(0);
  return { clock, alive, groups, init, sync, news };
}

test("a sync passes exactly when every member's version plus the tolerance has reached it (SspGroup.G1)", () => {
  for (let tolerance = 0; tolerance < 4; tolerance++) {
    const { init, sync, news } = openGroups();
    init(0, { tolerance });
    init(1, { tolerance });
    sync(0, 5);
    for (let version = 1; version < 5 - tolerance; version++) {
      sync(1, version);
      assert.deepEqual(news(), [`1@${version}`], "the slower one never waits, the faster one still does");
    }
    sync(1, 5 - tolerance);
    assert.deepEqual(news().sort(), ["0@5", `1@${5 - tolerance}`], `tolerance ${tolerance}`);
  }
});

test("forms with exactly as many as it was made for, of any size; nobody passes before", () => {
  for (const size of [1, 2, 3, 8, 9, 64]) {
    const { init, sync, news } = openGroups({ aliveCount: size });
    for (let rank = 0; rank < size; rank++) {
      assert.deepEqual(news(), []);
      assert.equal(init(rank, { size }), 0);
      sync(rank, 0);
    }
    assert.equal(news().length, size, `all ${size}`);
  }
});

test("who comes late to a forming group starts at 0 like the others, however far they are", () => {
  const { init, sync, news } = openGroups();
  init(0, { tolerance: 2 });
  sync(0, 5);
  assert.equal(init(1, { tolerance: 2 }), 0);
  sync(1, 2);
  assert.deepEqual(news(), ["1@2"]);
  sync(1, 3);
  assert.deepEqual(news().sort(), ["0@5", "1@3"]);
});

test("versions only rise (SspGroup.G2)", () => {
  const { init, sync, news } = openGroups();
  init(0);
  init(1);
  sync(0, 4);
  sync(1, 4);
  sync(1, 1);
  assert.deepEqual(news().sort(), ["0@4", "1@1", "1@4"]);
});

test("all have to say the same of a group, and it takes no more than it was made for", () => {
  const { init, groups } = openGroups();
  init(0);
  assert.equal(init(0), 0, "the same again changes nothing");
  assert.throws(
    () => init(1, { size: 3 }),
    (error) => isWeighbridgeError(error, "BAD_ARGUMENT") && /size 3 and tolerance 0: it has size 2 and tolerance 0/.test(error.message),
  );
  assert.throws(() => init(1, { tolerance: 1 }), throwsCode("BAD_ARGUMENT"));
  init(1);
  assert.throws(() => init(2), throwsCode("BAD_ARGUMENT"));
  for (const size of [0, -1, 1.5, Number.NaN, 1e9]) assert.throws(() => init(0, { size, group: 7n }), throwsCode("BAD_ARGUMENT"));
  assert.throws(() => init(0, { tolerance: -1, group: 7n }), throwsCode("BAD_ARGUMENT"));
  assert.equal(groups.groupCount, 1, "what was refused left nothing behind");
});

test("who is no member, and a group that is none, are told so", () => {
  const { init, sync } = openGroups();
  assert.throws(() => sync(0, 1), throwsCode("NO_ROUTE"));
  init(0);
  assert.throws(() => sync(1, 1), throwsCode("NO_ROUTE", /is no member of SSP group \d+: it has to init it first/));
  assert.throws(() => sync(0, -1), throwsCode("BAD_REQUEST"));
});

test("a member that dies is not waited for, and its own syncs fail (SspGroup.G3)", () => {
  const { init, sync, groups, news } = openGroups();
  for (const rank of [0, 1, 2]) init(rank, { size: 3 });
  sync(0, 5);
  sync(1, 3);
  groups.gone(holderOf(2));
  assert.deepEqual(news(), ["1@3"]);
  groups.gone(holderOf(1));
  assert.deepEqual(news(), ["0@5"]);
  sync(0, 6);
  sync(0, 6);
  assert.deepEqual(news(), ["0@6", "0@6"]);
  assert.throws(() => sync(1, 9), throwsCode("NODE_DEAD"));
});

test("a sync of the one who dies fails", () => {
  const { init, sync, groups, news } = openGroups();
  init(0);
  init(1);
  sync(0, 5);
  groups.gone(holderOf(0));
  assert.deepEqual(news(), ["0@5:NODE_DEAD"]);
});

test("a member that dies while the group forms counts as come; one that never came is not missed once too few are alive (SspGroup.G3)", () => {
  const { init, sync, groups, news, alive } = openGroups({ aliveCount: 3 });
  init(0, { size: 3 });
  init(1, { size: 3 });
  sync(0, 0);
  alive.count = 2;
  groups.gone(holderOf(1));
  assert.deepEqual(news(), [], "worker 2 may still come");
  alive.count = 1;
  groups.gone(holderOf(2));
  assert.deepEqual(news(), ["0@0:NODE_DEAD"]);
  assert.throws(() => sync(0, 0), throwsCode("NODE_DEAD"));
  alive.count = 2; // Worker 2 was restarted.
  sync(0, 0);
  init(2, { size: 3, incarnation: 2 });
  assert.deepEqual(news(), ["0@0"]);
});

test("a member that was restarted starts at the lowest, whether its death was heard of or not (SspGroup.G2)", () => {
  const { init, sync, groups, news } = openGroups();
  init(0);
  init(1);
  sync(0, 6);
  sync(1, 4);
  news();
  assert.equal(init(1, { incarnation: 2 }), 6);
  assert.deepEqual(news(), ["0@6"], "its old incarnation has died first");
  groups.gone(holderOf(1, 1));
  sync(0, 7);
  assert.deepEqual(news(), [], "the new one is waited for");
  assert.throws(() => sync(1, 7, { incarnation: 1 }), throwsCode("FENCED"));
  sync(1, 7, { incarnation: 2 });
  assert.deepEqual(news().sort(), ["0@7", "1@7"]);
});

test("an init that was under way when its worker died makes no member", () => {
  const { init, groups } = openGroups();
  init(0);
  groups.gone(holderOf(1));
  assert.throws(() => init(1), throwsCode("NODE_DEAD"));
  groups.revived(holderOf(1));
  assert.equal(init(1), 0);
});

test("a sync ends with DEADLINE, or is given up, or the server closes (SspGroup.G4)", async () => {
  const { clock, init, sync, groups, news } = openGroups();
  init(0);
  init(1);
  sync(0, 1, { timeoutMs: 50 });
  await clock.advance(50);
  assert.deepEqual(news(), ["0@1:DEADLINE"]);
  const waiting = sync(0, 2);
  assert.ok(waiting);
  groups.cancel(waiting);
  sync(0, 3);
  groups.close();
  assert.deepEqual(news(), ["0@3:CLOSED"]);
  assert.deepEqual([clock.pendingCount, groups.groupCount], [0, 0]);
});

test("syncs of a group are bounded, and a group ends with its last member (SspGroup.G4)", () => {
  const { init, sync, groups } = openGroups();
  init(0);
  init(1);
  for (let i = 0; i < 8; i++) sync(0, 9);
  assert.throws(() => sync(0, 9), throwsCode("QUEUE_FULL"));
  groups.gone(holderOf(0));
  groups.gone(holderOf(1));
  assert.equal(groups.groupCount, 0);
  assert.equal(init(2, { size: 5, tolerance: 1 }), 0, "its key can be used for another group");
});

test("keeps groups apart", () => {
  const { init, sync, news } = openGroups();
  for (const group of [1n, 2n]) for (const rank of [0, 1]) init(rank, { group });
  sync(0, 1, { group: 1n });
  sync(1, 1, { group: 2n });
  assert.deepEqual(news(), []);
  sync(1, 1, { group: 1n });
  assert.deepEqual(news().sort(), ["0@1", "1@1"]);
});

test("members that loop and die at random never pass too early, and never hang", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const size = 1 + random.below(9);
    const tolerance = random.below(4);
    const { init, groups } = openGroups({ aliveCount: size });
    const versions = new Map<number, number>();
    const waiting = new Map<number, number>();
    for (let rank = 0; rank < size; rank++) versions.set(rank, init(rank, { size, tolerance }));
    const check = (rank: number, version: number): void => {
      waiting.delete(rank);
      for (const [other, at] of versions)
        assert.ok(at + tolerance >= version, `seed ${seed}: ${rank}@${version} passes, ${other} is at ${at}`);
    };
    for (let step = 0; step < 400 && versions.size > 0; step++) {
      const ready = [...versions.keys()].filter((rank) => !waiting.has(rank));
      assert.ok(ready.length > 0, `seed ${seed}: everybody waits`);
      const rank = ready[random.below(ready.length)] as number;
      if (random.chance(0.01)) {
        versions.delete(rank);
        groups.gone(holderOf(rank));
        continue;
      }
      const version = (versions.get(rank) as number) + 1;
      versions.set(rank, version);
      waiting.set(rank, version);
      const waiter = { admitted: () => check(rank, version), failed: () => assert.fail(`seed ${seed}`) };
      if (groups.sync({ ...holderOf(rank), group: GROUP, version, timeoutMs: 1000, waiter }) === undefined) check(rank, version);
    }
  }
});

test("a group goes on at another server with the versions of its members; who waits here is told to ask there", () => {
  const [one, other] = [openGroups(), openGroups()];
  one.init(0, { tolerance: 1 });
  one.init(1, { tolerance: 1 });
  one.sync(1, 3);
  one.sync(0, 5);
  assert.deepEqual(one.news(), ["1@3"]);
  other.groups.load(one.groups.save((key) => key === GROUP));
  one.groups.drop((key) => key === GROUP, new WeighbridgeError("WRONG_EPOCH", "it is elsewhere", { retryable: true }));
  assert.deepEqual([one.news(), one.groups.groupCount], [["0@5:WRONG_EPOCH"], 0]);
  other.sync(0, 5);
  assert.deepEqual(other.news(), []);
  other.sync(1, 4);
  assert.deepEqual(other.news().sort(), ["0@5", "1@4"]);
  assert.deepEqual(
    other.groups.save(() => false),
    [],
  );
});
