// Goal: clocks, rounds and reads move in the one order that keeps the promises. What holds for whole jobs is in
// test/simulation/staleness.test.ts.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { wasTakenOut } from "../wire/failure.ts";
import { idOf } from "../wire/node-id.ts";
import { Pacer } from "./pacer.ts";
import type { CompleteRound, SyncUpdate } from "./update-rounds.ts";

const holderOf = (rank: number, incarnation = 1) => ({ worker: idOf("worker", rank), incarnation });

/** An update that writes down what becomes of it. */
class Noted implements SyncUpdate<Noted> {
  readonly #name: string;
  readonly #events: string[];

  constructor(name: string, events: string[]) {
    this.#name = name;
    this.#events = events;
  }

  applyRound({ clock, contributions }: CompleteRound<Noted>): void {
    this.#events.push(`round ${clock}: ${contributions.map(({ handle }) => handle.#name).join(" ")}`);
  }

  free(): void {
    this.#events.push(`discard ${this.#name}`);
  }
}

/** A pacer for two workers that writes down what it lets happen. */
function openPacer() {
  const events: string[] = [];
  const pacer = new Pacer<Noted>({
    clock: new SimClock(),
    expectedCount: 2,
    parkedReadsMax: 4,
    parkedBytesMax: 100,
    contributionsMax: 100,
    openBytesMax: 100,
  });
  pacer.join(holderOf(0));
  pacer.join(holderOf(1));
  const read = (rank: number, clock: number, { staleness = 0, parameter = 0, incarnation = 1 } = {}) =>
    pacer.read({
      ...holderOf(rank, incarnation),
      parameter,
      clock,
      staleness,
      bytes: 1,
      timeoutMs: 1000,
      read: {
        admitted: () => events.push(`read ${rank} at ${clock}`),
        failed: ({ code }) => events.push(`read ${rank} at ${clock}: ${code}`),
      },
    });
  const push = (rank: number, clock: number, name: string, incarnation = 1): void => {
    pacer.clocks.checkUpdate(holderOf(rank, incarnation), clock);
    pacer.rounds.put({ ...holderOf(rank, incarnation), parameter: 0, clock }, new Noted(name, events), 1);
  };
  const news = (): string[] => events.splice(0);
  return { pacer, read, push, news };
}

test("rounds are applied before the reads that need them are admitted (UpdateRounds.W3)", () => {
  const { pacer, read, push, news } = openPacer();
  push(1, 0, "b");
  push(0, 0, "a");
  pacer.rounds.advance(holderOf(0), 1);
  assert.notEqual(read(0, 1), undefined, "parked");
  pacer.rounds.advance(holderOf(1), 1);
  assert.deepEqual(news(), ["round 0: a b", "read 0 at 1"]);
  assert.equal(read(1, 1), undefined, "answered at once");
});

test("the death of the slowest drops what it did not finish, applies what the others did, and lets them read", () => {
  const { pacer, read, push, news } = openPacer();
  push(1, 0, "unfinished");
  push(0, 0, "a");
  pacer.rounds.advance(holderOf(0), 1);
  read(0, 1);
  pacer.died(holderOf(1));
  assert.deepEqual(news(), ["discard unfinished", "round 0: a", "read 0 at 1"]);
});

test("who leaves has finished: its updates count", () => {
  const { pacer, push, news } = openPacer();
  push(1, 0, "b");
  push(0, 0, "a");
  pacer.leave(holderOf(1));
  assert.deepEqual(news(), []);
  pacer.leave(holderOf(0));
  assert.deepEqual(news(), ["round 0: a b"]);
  assert.equal(pacer.clockMin, 1);
});

test("what a worker pushed before it left counts, whatever becomes of it after it has joined again", () => {
  const { pacer, push, news } = openPacer();
  push(1, 0, "b");
  push(0, 0, "a");
  pacer.leave(holderOf(1));
  assert.equal(pacer.join(holderOf(1)), 0);
  pacer.rounds.advance(holderOf(1), 1); // it has finished clock 0 by leaving (StalenessController.W7)
  push(1, 1, "unfinished");
  pacer.died(holderOf(1));
  assert.deepEqual(news(), ["discard unfinished"]);
  pacer.rounds.advance(holderOf(0), 1);
  assert.deepEqual(news(), ["round 0: a b"]);
});

test("a restart ends the old incarnation first: its reads fail, its unfinished updates go", () => {
  const { pacer, read, push, news } = openPacer();
  pacer.rounds.advance(holderOf(0), 1);
  push(0, 1, "old");
  read(0, 1);
  assert.equal(pacer.join(holderOf(0, 2)), 0);
  assert.deepEqual(news(), ["discard old", "read 0 at 1: NODE_DEAD"]);
  pacer.died(holderOf(0, 1));
  push(0, 0, "new", 2);
  assert.throws(() => push(0, 1, "late", 1), throwsCode("FENCED"));
});

test("a member that joins again begins anew where it stands: what it did not finish can be pushed again, and no round is made without it", () => {
  const { pacer, push, news } = openPacer();
  push(1, 0, "other's");
  pacer.rounds.advance(holderOf(1), 3);
  push(0, 0, "first try");
  assert.equal(pacer.join(holderOf(0)), 0, "the slowest stays the slowest");
  assert.deepEqual(news(), ["discard first try"]);
  push(0, 0, "second try");
  pacer.rounds.advance(holderOf(0), 1);
  assert.deepEqual(news(), ["round 0: second try other's"]);
  assert.throws(() => push(0, 0, "stale"), throwsCode("STALE_UPDATE"));
});

test("who was taken for dead is told so, and joins again once it was heard of", () => {
  const { pacer, read } = openPacer();
  pacer.rounds.advance(holderOf(0), 2);
  pacer.died(holderOf(1));
  for (const attempt of [
    () => pacer.join(holderOf(1)),
    () => pacer.rounds.advance(holderOf(1), 1),
    () => pacer.clocks.checkUpdate(holderOf(1), 0),
    () => read(1, 9),
  ]) {
    assert.throws(attempt, throwsCode("NODE_DEAD"));
  }
  pacer.revived(holderOf(1));
  assert.throws(() => read(1, 9), throwsCode("NOT_JOINED"), "only members wait");
  assert.equal(pacer.join(holderOf(1)), 2);
});

test("a worker that was taken for dead reads nothing that has a bound until it has joined again (StalenessController.W8)", () => {
  const { pacer, read } = openPacer();
  pacer.rounds.advance(holderOf(0), 2);
  pacer.died(holderOf(1));
  const told = (error: unknown): boolean => throwsCode("NODE_DEAD")(error) && wasTakenOut(error);
  assert.throws(() => read(1, 0), told, "its minimum has come");
  assert.equal(read(1, 9, { staleness: Infinity }), undefined, "it goes by nobody's clock");
  assert.equal(read(0, 2), undefined, "the others");
  assert.equal(read(1, 0, { incarnation: 2 }), undefined, "a newer incarnation was taken out of nothing");
  pacer.revived(holderOf(1));
  assert.throws(() => read(1, 0), throwsCode("NOT_JOINED"));
  pacer.join(holderOf(1));
  assert.equal(read(1, 2), undefined);
  pacer.leave(holderOf(1));
  assert.equal(read(1, 2), undefined, "it left in good order");
});

test("nobody waits for an incarnation whose successor is heard of, though the news of its death never came (StalenessController.W7)", () => {
  for (const news of ["died", "leaveJob", "revived"] as const) {
    const { pacer, read, push, news: events } = openPacer();
    push(0, 0, "a");
    push(1, 0, "b");
    pacer.rounds.advance(holderOf(0), 1);
    pacer.rounds.advance(holderOf(1), 1);
    push(1, 1, "unfinished");
    pacer.rounds.advance(holderOf(0), 2);
    read(0, 2);
    assert.deepEqual(events(), ["round 0: a b"]);
    pacer[news](holderOf(1, 2)); // incarnation 2 began, and maybe ended, while this server heard of nothing
    assert.deepEqual(events(), ["discard unfinished", "read 0 at 2"], news);
  }
});

test("a raised bound admits at once, a wrong one is refused", () => {
  const { pacer, read, news } = openPacer();
  pacer.rounds.advance(holderOf(0), 4);
  read(0, 4, { parameter: 1 });
  read(0, 4, { parameter: 2 });
  pacer.changeStaleness(1, 4);
  assert.deepEqual(news(), ["read 0 at 4"]);
  assert.throws(() => pacer.changeStaleness(2, -1), throwsCode("BAD_ARGUMENT"));
  assert.throws(() => read(0, 4, { staleness: Number.NaN }), throwsCode("BAD_ARGUMENT"));
  assert.equal(pacer.lot.readCount, 1);
});

test("a read that is given up, a parameter that is no more, a server that closes: nobody is left waiting", () => {
  const { pacer, read, push, news } = openPacer();
  pacer.rounds.advance(holderOf(0), 1);
  const given = read(0, 1);
  assert.ok(given);
  pacer.lot.cancel(given);
  read(0, 1, { parameter: 0 });
  push(0, 1, "a");
  pacer.forget(0, new WeighbridgeError("NO_ROUTE", "no such parameter"));
  assert.deepEqual(news(), ["discard a", "read 0 at 1: NO_ROUTE"]);
  read(0, 1);
  pacer.close();
  assert.deepEqual(news(), ["read 0 at 1: CLOSED"]);
  assert.deepEqual([pacer.lot.readCount, pacer.rounds.contributionCount], [0, 0]);
});

test("a set that is declared complete goes on without those who were expected", () => {
  const clock = new SimClock();
  const limits = { parkedReadsMax: 1, parkedBytesMax: 1, contributionsMax: 1, openBytesMax: 1 };
  const events: string[] = [];
  const pacer = new Pacer<Noted>({ clock, expectedCount: 3, ...limits });
  pacer.join(holderOf(0));
  const stamp = { ...holderOf(0), parameter: 0, clock: 0 };
  const update = new Noted("a", events);
  pacer.rounds.checkRoom(stamp, 1);
  pacer.rounds.put(stamp, update, 1);
  assert.equal(pacer.rounds.find(stamp), update);
  pacer.rounds.advance(holderOf(0), 1);
  assert.deepEqual(events, []);
  pacer.form();
  assert.deepEqual(events, ["round 0: a"]);
});

test("a cut comes after every round below its clock and before any other, however far the minimum jumps (UpdateRounds.D1)", () => {
  const { pacer, read, push, news } = openPacer();
  for (const clock of [0, 1, 2]) push(0, clock, `a${clock}`);
  pacer.rounds.advance(holderOf(0), 3);
  const events: string[] = [];
  pacer.rounds.cutAt(2, () => events.push(...news(), "cut"));
  read(0, 3);
  pacer.leave(holderOf(1)); // nobody is left below 3
  assert.deepEqual([...events, ...news()], ["round 0: a0", "round 1: a1", "cut", "round 2: a2", "read 0 at 3"]);
  assert.throws(() => pacer.rounds.cutAt(2, () => {}), throwsCode("BAD_ARGUMENT"));
  pacer.rounds.cutAt(3, () => events.push("at once"));
  assert.equal(events.at(-1), "at once");
  pacer.rounds.cutAt(4, () => events.push("cancelled"));
  assert.throws(() => pacer.rounds.cutAt(4, () => {}), throwsCode("QUEUE_FULL"), "one at a time, and it is worth another try");
  pacer.rounds.cancelCut();
  pacer.rounds.advance(holderOf(0), 5);
  assert.equal(events.at(-1), "at once");
});

test("a restored job begins at its clock: members stand there, newcomers join there, and earlier updates are refused (spec/consistency.md, D4)", () => {
  const { pacer, push } = openPacer();
  pacer.startAt(7);
  assert.equal(pacer.clockMin, 7);
  assert.deepEqual(
    pacer.members().map(({ clock }) => clock),
    [7, 7],
  );
  assert.throws(() => push(0, 6, "late"), throwsCode("STALE_UPDATE"));
  pacer.rounds.advance(holderOf(0), 8);
  assert.equal(pacer.clockMin, 7);
  assert.equal(pacer.join(holderOf(1, 2)), 8, "its incarnation before was the slowest");
  pacer.rounds.advance(holderOf(1, 2), 9);
  assert.equal(pacer.clockMin, 8);
});

test("an incarnation that was taken for dead hears once, when it joins again, of the clocks of which its updates were dropped", () => {
  const { pacer, push } = openPacer();
  push(1, 0, "finished");
  pacer.rounds.advance(holderOf(1), 1);
  push(1, 2, "ahead");
  push(1, 1, "unfinished");
  pacer.died(holderOf(1));
  pacer.revived(holderOf(1));
  pacer.join(holderOf(1));
  assert.deepEqual([pacer.takeLost(holderOf(1)), pacer.takeLost(holderOf(1))], [[1, 2], []]);
  push(1, 1, "again");
  pacer.join(holderOf(1)); // it drops that itself
  assert.deepEqual(pacer.takeLost(holderOf(1)), []);
  push(1, 1, "again");
  pacer.died(holderOf(1));
  assert.deepEqual(pacer.takeLost(holderOf(1, 2)), [], "which is another one's business");
});
