// scaling.test — Goal: every change of the servers ends as it was asked for, or as if nobody had asked; changes wait
// for each other; and nothing begins that some server refuses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { type ErrorCode, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { throwsCode } from "../testing/throws-code.ts";
import { idOf } from "../wire/node-id.ts";
import type { RosterEntry } from "../wire/roster.ts";
import type { MoveOptions } from "./placement-moves.ts";
import { Scaling, type ScalingOptions, type WishedServers } from "./scaling.ts";
import { StateJournal } from "./state-journal.ts";

/** Servers 0 and 1 of a job; a test lets others come, and moves parts by `move`. */
class Stage {
  readonly clock = new SimClock();
  readonly journal: StateJournal;
  readonly scaling: Scaling;
  readonly there = new Set([0, 1]);
  /** Of replicated servers: the ranks of standbys, and whether they have everything. */
  readonly standbys = new Map<number, "filling" | "filled">();
  readonly moves: string[] = [];
  readonly wished: WishedServers[] = [];
  isSettled = true;
  refusal: WeighbridgeError | undefined;
  survey: () => Promise<void> = async () => {};
  /** Moves at once unless a test says otherwise. */
  move = async (servers: readonly number[], _how: MoveOptions): Promise<void> => this.place(servers);

  constructor({ journal = new StateJournal(), ...options }: Partial<ScalingOptions> = {}) {
    this.journal = journal;
    if (journal.state.placement === undefined) {
      journal.write({ kind: "placement", placement: { epoch: 1, policy: "ring", servers: [0, 1] } });
      for (const rank of this.there) journal.write({ kind: "incarnation", node: idOf("server", rank), incarnation: 1 });
    }
    this.scaling = new Scaling({
      clock: this.clock,
      log: SILENT_LOG,
      journal,
      view: () => ({
        version: 1,
        nodes: [...[...this.there].map((rank) => this.#entryOf(rank)), ...[...this.standbys.keys()].map((rank) => this.#standbyOf(rank))],
      }),
      isSettled: () => this.isSettled,
      askedRanks: () => [],
      refusal: () => this.refusal,
      survey: () => this.survey(),
      moveTo: (servers, how) => {
        this.moves.push(servers.join(" "));
        return this.move(servers, how ?? {});
      },
      changed: () => {},
      onServers: (servers) => this.wished.push(servers),
      ...options,
    });
  }

  #entryOf(rank: number): RosterEntry {
    const isRetired = this.journal.state.scaling.retired.includes(rank);
    const fixed = { role: "server", address: "", incarnation: 1, state: "alive", label: "" } as const;
    return { ...fixed, node: idOf("server", rank), rank, isRetired };
  }

  #standbyOf(rank: number): RosterEntry {
    const isFilling = this.standbys.get(rank) === "filling";
    return { ...this.#entryOf(rank), role: "standby", node: idOf("standby", rank), isFilling };
  }

  get servers(): string {
    return (this.journal.state.placement?.servers ?? []).join(" ");
  }

  place(servers: readonly number[]): void {
    const { epoch } = this.journal.state.placement ?? { epoch: 0 };
    this.journal.write({ kind: "placement", placement: { epoch: epoch + 1, policy: "ring", servers } });
  }

  /** These have come. */
  come(...ranks: readonly number[]): void {
    for (const rank of ranks) {
      this.there.add(rank);
      this.journal.write({ kind: "incarnation", node: idOf("server", rank), incarnation: 1 });
    }
    this.scaling.review();
  }

  /** Those that are to leave have left. */
  leave(): void {
    for (const rank of this.journal.state.scaling.retired) this.there.delete(rank);
    this.scaling.review();
  }

  async settle(ms = 0): Promise<void> {
    await this.clock.advance(ms);
  }

  /** "1 done", "2 rolledBack". */
  ends(): string[] {
    return this.scaling.report().ended.map(({ number, outcome }) => `${number} ${outcome}`);
  }
}

test("a change is taken back when one of two processes has ended for good, also when its rank was whole until then", async () => {
  const stage = new Stage({ replicas: 2 });
  const number = await stage.scaling.request({ add: 2 });
  await stage.settle();
  stage.standbys.set(2, "filled");
  stage.come(2);
  stage.scaling.lost(2); // its head: the scheduler has not noticed yet
  await stage.settle(1000);
  assert.deepEqual(stage.ends(), []);
  stage.standbys.delete(2); // it has taken over, and nobody stands by
  stage.come();
  await stage.settle();
  stage.leave();
  await stage.settle();
  const { outcome, reason } = await stage.scaling.ended(number);
  assert.deepEqual([outcome, reason], ["rolledBack", "a process of server 2 has ended, and no other one is started for it"]);
});

test("a change whose server has ended, and for which no other is started, is taken back at once", async () => {
  const stage = new Stage();
  const number = await stage.scaling.request({ add: 2 });
  await stage.settle();
  stage.scaling.lost(1); // it is one of the job
  stage.come(2);
  stage.scaling.lost(2); // it is there
  await stage.settle();
  assert.deepEqual(stage.ends(), []);
  stage.scaling.lost(3);
  await stage.settle();
  stage.leave();
  await stage.settle();
  const { outcome, reason } = await stage.scaling.ended(number);
  assert.deepEqual(
    [outcome, reason, stage.servers],
    ["rolledBack", "a process of server 3 has ended, and no other one is started for it", "0 1"],
  );
});

test("a server to which parts are on their way has none yet, for whoever starts processes", async () => {
  const stage = new Stage();
  const moving = new Deferred<void>();
  stage.move = async (servers) => {
    const previous = stage.journal.state.placement;
    stage.journal.write({ kind: "placement", placement: { epoch: 2, policy: "ring", servers }, pending: { previous } });
    stage.scaling.review();
    await moving.promise;
    stage.journal.write({ kind: "handedOver", epoch: 2 });
  };
  await stage.scaling.request({ to: 3, timeoutMs: 5000 });
  stage.come(2);
  await stage.settle();
  assert.deepEqual(stage.wished.at(-1), { wished: [0, 1, 2], placed: [0, 1] });
  moving.resolve();
  await stage.settle();
  assert.deepEqual(stage.wished.at(-1), { wished: [0, 1, 2], placed: [0, 1, 2] });
});

test("a scale-out waits for the servers that it asks for, has parts moved to them, and reports each step", async () => {
  const stage = new Stage();
  const moving = new Deferred<void>();
  stage.move = async (servers, { onProgress }) => {
    onProgress?.({ parts: 2000, moved: 500 });
    await moving.promise;
    stage.place(servers);
  };
  assert.equal(await stage.scaling.request({ to: 4, timeoutMs: 5000 }), 1);
  await stage.settle(1000);
  const { current, wishedCount } = stage.scaling.report();
  assert.deepEqual([current?.step, current?.direction, current?.awaited, current?.waitMs], ["waiting", "out", [2, 3], 4000]);
  assert.equal(wishedCount, 4);
  assert.deepEqual(stage.wished.at(-1), { wished: [0, 1, 2, 3], placed: [0, 1] });
  stage.come(2);
  await stage.settle();
  assert.deepEqual(stage.scaling.report().current?.awaited, [3]);
  stage.come(3);
  await stage.settle();
  const { step, parts, moved, awaited } = stage.scaling.report().current ?? {};
  assert.deepEqual([step, parts, moved, awaited], ["moving", 2000, 500, []]);
  moving.resolve();
  await stage.settle();
  assert.deepEqual([stage.servers, stage.ends(), stage.moves], ["0 1 2 3", ["1 done"], ["0 1 2 3"]]);
  const { shares, skew } = stage.scaling.report();
  const counts = shares.map(({ parts }) => parts);
  assert.equal(
    counts.reduce((sum, parts) => sum + parts, 0),
    4096,
  );
  assert.equal(skew, Math.max(...counts) / 1024);
});

test("servers that do not come in time are waited for no longer, and those that came leave again", async () => {
  const stage = new Stage();
  await stage.scaling.request({ add: 2, timeoutMs: 3000 });
  await stage.settle(1000);
  stage.come(2);
  await stage.settle(2000);
  assert.deepEqual(stage.journal.state.scaling.retired, [2]);
  assert.deepEqual(stage.wished.at(-1)?.wished, [0, 1]);
  stage.leave();
  await stage.settle();
  const [end] = stage.scaling.report().ended;
  assert.equal(end?.outcome, "rolledBack");
  assert.match(end?.reason ?? "", /waited 2000 ms for server 3 to come|server 3/);
  assert.deepEqual([stage.moves, stage.servers], [[], "0 1"]);
});

test("a change that fails while parts move, or is rolled back meanwhile, is moved back", async () => {
  for (const how of ["fails", "rollback"] as const) {
    const stage = new Stage();
    stage.there.add(2).add(3);
    stage.move = async (servers, { signal }) => {
      if (stage.moves.length > 1) return stage.place(servers);
      stage.place([0, 1, 2, 3]); // some parts have moved
      if (how === "fails") throw new WeighbridgeError("NODE_DEAD", "server 2 is dead");
      await new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason as Error)));
    };
    await stage.scaling.request({ to: 4 });
    await stage.settle();
    const back = how === "rollback" ? stage.scaling.rollBack("out") : undefined;
    await stage.settle();
    stage.leave();
    await stage.settle();
    assert.equal(await (back ?? 1), 1);
    assert.deepEqual([stage.moves, stage.servers, stage.ends()], [["0 1 2 3", "0 1"], "0 1", ["1 rolledBack"]], how);
    assert.match(stage.scaling.report().ended[0]?.reason ?? "", how === "fails" ? /server 2 is dead/ : /rollback/);
  }
});

test("a rollback while the servers are asked takes the change back, whatever they answer", async () => {
  for (const answer of ["can", "cannot"] as const) {
    const stage = new Stage();
    const surveyed = new Deferred<void>();
    const asked = stage.scaling.request({ to: 3 });
    assert.equal(await asked, 1);
    stage.survey = () => surveyed.promise;
    await stage.scaling.request({ leave: [1] }); // it begins when the first has ended
    const first = stage.scaling.rollBack("out");
    await stage.settle();
    assert.equal(await first, 1);
    await stage.settle();
    assert.equal(stage.scaling.report().current, undefined, "the servers are being asked");
    await assert.rejects(stage.scaling.rollBack("out"), throwsCode("BAD_REQUEST", /no scale-out is under way/));
    const back = stage.scaling.rollBack("in");
    await stage.settle();
    if (answer === "can") surveyed.resolve();
    else surveyed.reject(new WeighbridgeError("UNSUPPORTED", "application 0 has keys"));
    assert.equal(await back, 2);
    assert.deepEqual([stage.moves, stage.servers, stage.ends()], [[], "0 1", ["1 rolledBack", "2 rolledBack"]], answer);
  }
});

test("a rollback before a request is answered says that nothing is under way yet", async () => {
  const stage = new Stage();
  const surveyed = new Deferred<void>();
  stage.survey = () => surveyed.promise;
  const asked = stage.scaling.request({ to: 3 });
  await assert.rejects(stage.scaling.rollBack(), throwsCode("BAD_REQUEST", /not accepted yet: the servers are asked whether they can/));
  surveyed.resolve();
  assert.equal(await asked, 1);
});

test("a restarted scheduler takes back a change that had not begun, and one that it has not gone on with yet", async () => {
  for (const hasBegun of [true, false]) {
    const journal = new StateJournal();
    const first = new Stage({ journal });
    const wish = { number: 1, ask: { to: 3 }, timeoutMs: 1000, ...(hasBegun ? { begun: { from: [0, 1], to: [0, 1, 2] } } : {}) };
    journal.write({ kind: "wish", wish });
    first.isSettled = false;
    first.scaling.rollBack("out").catch(() => {}); // it is closed before it is answered
    first.scaling.close(new WeighbridgeError("CLOSED", "the scheduler was closed"));
    const second = new Stage({ journal });
    second.scaling.review();
    await second.settle();
    assert.deepEqual([second.moves, second.servers, second.ends()], [[], "0 1", ["1 rolledBack"]], `${hasBegun}`);
  }
  const moved = new Stage();
  moved.journal.write({ kind: "wish", wish: { number: 1, ask: { to: 1 }, timeoutMs: 1000, begun: { from: [0, 1], to: [0] } } });
  moved.place([0]);
  moved.isSettled = false;
  await assert.rejects(moved.scaling.rollBack(), throwsCode("BAD_REQUEST", /has moved all parts/));
});

test("a way back that fails is tried again", async () => {
  const stage = new Stage();
  stage.come(2);
  stage.move = async (servers) => {
    if (stage.moves.length < 4) throw new WeighbridgeError("DEADLINE", "worker 0 is not prepared");
    stage.place(servers);
  };
  await stage.scaling.request({ to: 3 });
  await stage.settle(5000);
  stage.leave();
  await stage.settle();
  assert.deepEqual([stage.moves, stage.ends()], [["0 1 2", "0 1", "0 1", "0 1"], ["1 rolledBack"]]);
});

test("a scale-in moves everything away from those that leave, rank 0 too, and is done when they have left", async () => {
  const stage = new Stage();
  await stage.scaling.request({ leave: [0] });
  await stage.settle();
  assert.deepEqual([stage.servers, stage.scaling.report().current?.step, stage.ends()], ["1", "leaving", []]);
  await assert.rejects(stage.scaling.rollBack("in"), throwsCode("BAD_REQUEST", /has moved all parts/));
  stage.leave();
  await stage.settle();
  assert.deepEqual([stage.ends(), stage.wished.at(-1)], [["1 done"], { wished: [1], placed: [1] }]);
});

test("servers that do not leave keep no change from ending", async () => {
  const stage = new Stage();
  await stage.scaling.request({ to: 1 });
  await stage.settle(9_000);
  assert.deepEqual(stage.ends(), []);
  await stage.settle(2_000);
  assert.deepEqual(stage.ends(), ["1 done"]);
});

test("changes wait for each other, and what is asked for is counted from the end of those before", async () => {
  const stage = new Stage();
  await stage.scaling.request({ add: 1 });
  await stage.scaling.request({ add: 1, requestId: "another one" });
  await stage.scaling.request({ to: 2 });
  assert.deepEqual([stage.scaling.report().current?.number, stage.scaling.report().queued], [1, [2, 3]]);
  for (const rank of [2, 3]) {
    await stage.settle();
    stage.come(rank);
  }
  await stage.settle();
  stage.leave();
  await stage.settle();
  assert.deepEqual(
    [stage.moves, stage.ends()],
    [
      ["0 1 2", "0 1 2 3", "0 1"],
      ["1 done", "2 done", "3 done"],
    ],
  );
});

test("a request that is repeated changes nothing more, or is refused", async () => {
  const stage = new Stage();
  await stage.scaling.request({ leave: [1] });
  await assert.rejects(stage.scaling.request({ leave: [1] }), throwsCode("BAD_REQUEST", /not server 1/));
  await stage.scaling.request({ to: 2 });
  await stage.scaling.request({ to: 2 });
  await stage.settle();
  stage.leave();
  await stage.settle();
  stage.come(2);
  await stage.settle();
  assert.deepEqual([stage.servers, stage.ends()], ["0 2", ["1 done", "2 done", "3 done"]]);
  await stage.scaling.request({ add: 1 });
  await stage.scaling.request({ add: 2 });
  for (const add of [1, 2]) {
    const message = new RegExp(`change ${add + 3} adds ${add} to the servers, and has not ended; .* request_id`);
    await assert.rejects(stage.scaling.request({ add }), throwsCode("BAD_REQUEST", message), "whether it is under way or waits");
  }
});

test("a request that is repeated while the first is not answered yet changes nothing more, or is refused", async () => {
  for (const request of [{ add: 1 }, { leave: [1] }]) {
    const stage = new Stage();
    const outcomes = await Promise.allSettled([stage.scaling.request(request), stage.scaling.request(request)]);
    assert.deepEqual(
      outcomes.map(({ status }) => status),
      ["fulfilled", "rejected"],
    );
  }
});

test("a change whose ground was taken back by the one before fails by itself", async () => {
  const stage = new Stage();
  await stage.scaling.request({ add: 1, timeoutMs: 1000 });
  await stage.settle();
  await stage.scaling.request({ leave: [2] });
  await stage.settle(2000);
  assert.deepEqual(stage.ends(), ["1 rolledBack", "2 failed"]);
});

test("no rank that was held is given again", async () => {
  const stage = new Stage();
  await stage.scaling.request({ to: 3 });
  await stage.settle();
  stage.come(2);
  await stage.settle();
  await stage.scaling.request({ leave: [2] });
  await stage.settle();
  stage.leave();
  await stage.settle();
  await stage.scaling.request({ to: 3 });
  await stage.settle();
  assert.deepEqual(stage.scaling.report().current?.to, [0, 1, 3]);
});

test("what makes no sense, or cannot be, is refused, and nothing begins", async () => {
  const stage = new Stage();
  const cases: readonly (readonly [Parameters<Scaling["request"]>[0], ErrorCode, RegExp])[] = [
    [{}, "BAD_REQUEST", /says one thing/],
    [{ to: 3, add: 1 }, "BAD_REQUEST", /says one thing/],
    [{ to: 0 }, "BAD_REQUEST", /1 to 4096 servers, not 0/],
    [{ to: 4097 }, "BAD_REQUEST", /1 to 4096/],
    [{ add: 0 }, "BAD_REQUEST", /at least 1 server/],
    [{ add: 4095 }, "BAD_REQUEST", /at most 4096 servers, not 4097/],
    [{ leave: [] }, "BAD_REQUEST", /at least one server/],
    [{ leave: [1, 1] }, "BAD_REQUEST", /each server once/],
    [{ leave: [7] }, "BAD_REQUEST", /the job has server 0, server 1, not server 7/],
    [{ leave: [0, 1] }, "BAD_REQUEST", /one server stays/],
    [{ to: 3, timeoutMs: 0 }, "BAD_REQUEST", /at least 1 ms/],
  ];
  for (const [request, code, message] of cases) await assert.rejects(stage.scaling.request(request), throwsCode(code, message));
  stage.survey = async () => {
    throw new WeighbridgeError("UNSUPPORTED", "application 0 has keys");
  };
  await assert.rejects(stage.scaling.request({ to: 3 }), throwsCode("UNSUPPORTED", /application 0/));
  stage.there.delete(1);
  await assert.rejects(stage.scaling.request({ to: 3 }), throwsCode("NODE_DEAD", /while server 1 is dead/));
  stage.isSettled = false;
  await assert.rejects(stage.scaling.request({ to: 3 }), throwsCode("NO_ROUTE", /not ready/));
  stage.refusal = new WeighbridgeError("UNSUPPORTED", "behind ps-lite's protocol");
  await assert.rejects(stage.scaling.request({ to: 3 }), throwsCode("UNSUPPORTED", /ps-lite/));
  await assert.rejects(stage.scaling.rollBack(), throwsCode("BAD_REQUEST", /no change of the servers is under way/));
  await assert.rejects(stage.scaling.rollBack("in"), throwsCode("BAD_REQUEST", /no scale-in is under way/));
  assert.deepEqual([stage.moves, stage.scaling.report().queued, stage.ends()], [[], [], []]);
});

test("so many changes may wait, and no more", async () => {
  const stage = new Stage();
  for (let count = 3; count < 19; count++) await stage.scaling.request({ to: count });
  await assert.rejects(stage.scaling.request({ add: 1 }), throwsCode("QUEUE_FULL", /16 changes/));
});

test("a scheduler that finds a change under way goes on with it, forward or back", async () => {
  for (const isBack of [false, true]) {
    const journal = new StateJournal();
    const first = new Stage({ journal });
    await first.scaling.request({ to: 3 });
    await first.settle();
    first.come(2);
    if (isBack) first.scaling.rollBack().catch(() => {}); // it is closed before it is answered
    first.scaling.close(new WeighbridgeError("CLOSED", "the scheduler was closed"));
    const second = new Stage({ journal });
    second.isSettled = false;
    second.come(2);
    assert.deepEqual(second.moves, []); // not before every node was heard of
    second.isSettled = true;
    second.scaling.review();
    await second.settle();
    second.leave();
    await second.settle();
    assert.deepEqual([second.servers, second.ends()], isBack ? ["0 1", ["1 rolledBack"]] : ["0 1 2", ["1 done"]]);
  }
});

test("a rank of two processes is waited for until its standby has everything; nothing moves before (AwaitedServers.A1)", async () => {
  const stage = new Stage({ replicas: 2 });
  const awaited = () => {
    const { awaited: servers, awaitedStandbys, fillingStandbys, waitMs } = stage.scaling.report().current ?? {};
    return [servers, awaitedStandbys, fillingStandbys, waitMs];
  };
  await stage.scaling.request({ to: 3, timeoutMs: 5000 });
  await stage.settle();
  assert.deepEqual(awaited(), [[2], [2], [], 5000], "those that are there lack standbys, and are not waited for");
  stage.come(2);
  await stage.settle();
  assert.deepEqual(awaited(), [[], [2], [], 5000]);
  stage.standbys.set(2, "filling");
  stage.scaling.review();
  await stage.settle();
  assert.deepEqual([awaited(), stage.moves], [[[], [], [2], 5000], []]);
  stage.standbys.set(2, "filled");
  stage.scaling.review();
  await stage.settle();
  assert.deepEqual([stage.servers, stage.ends()], ["0 1 2", ["1 done"]]);
});

test("a rank whose second process does not come in time is taken back, with a word that names what was waited for", async () => {
  for (const [standby, reason] of [
    [undefined, /^waited 3000 ms for standby 2 to come$/],
    ["filling", /^waited 2000 ms for standby 2 to be filled$/],
  ] as const) {
    const stage = new Stage({ replicas: 2 });
    stage.come(2);
    await stage.scaling.request({ to: 3, timeoutMs: 3000 });
    await stage.settle(1000);
    if (standby !== undefined) stage.standbys.set(2, standby);
    if (standby !== undefined) stage.scaling.review();
    await stage.settle(2000);
    assert.deepEqual(stage.journal.state.scaling.retired, [2]);
    stage.there.delete(2);
    stage.scaling.review();
    await stage.settle();
    assert.deepEqual(stage.ends(), standby === undefined ? ["1 rolledBack"] : [], "its standby leaves with it");
    stage.standbys.clear();
    stage.scaling.review();
    await stage.settle();
    assert.deepEqual(stage.ends(), ["1 rolledBack"]);
    assert.match(stage.scaling.report().ended[0]?.reason ?? "", reason);
  }
});

test("where a standby has taken over meanwhile the change goes on; without one it is taken back (Scaling.S5)", async () => {
  for (const replicas of [1, 2]) {
    const stage = new Stage({ replicas });
    stage.come(2);
    stage.standbys.set(2, "filled");
    stage.move = async (servers) => {
      stage.place([0, 1, 2]); // some parts have moved
      if (stage.moves.length === 1) throw new WeighbridgeError("NODE_DEAD", "server 2 is dead, and parts were on their way");
      stage.place(servers);
    };
    await stage.scaling.request({ to: 3 });
    await stage.settle();
    assert.deepEqual([stage.moves[1], stage.servers], replicas === 1 ? ["0 1", "0 1"] : ["0 1 2", "0 1 2"]);
  }
});

test("a head that is replaced again and again ends the change (Scaling.S5)", async () => {
  const stage = new Stage({ replicas: 2 });
  stage.move = async (servers) => {
    if (servers.length === 1) throw new WeighbridgeError("NODE_DEAD", "server 0 is dead, and parts were on their way");
  };
  await stage.scaling.request({ to: 1 });
  await stage.settle();
  assert.deepEqual(stage.ends(), ["1 rolledBack"]);
});

test("a scheduler that finds parts on their way to a rank waits for its head alone, and moves them back if that does not come", async () => {
  const journal = new StateJournal();
  const sets = { from: [0, 1], to: [0, 1, 2] };
  const move = { from: [0, 1], to: [0, 1, 2], below: 7 };
  for (const hasHead of [true, false]) {
    const stage = new Stage({ journal, replicas: 2 });
    journal.write({ kind: "placement", placement: { epoch: hasHead ? 5 : 15, policy: "ring", servers: [0, 1, 2], move } });
    journal.write({ kind: "wish", wish: { number: hasHead ? 1 : 2, ask: { to: 3 }, timeoutMs: 1000, begun: sets } });
    if (hasHead) stage.there.add(2);
    stage.scaling.review();
    await stage.settle(1000);
    assert.deepEqual([stage.moves, stage.servers], hasHead ? [["0 1 2"], "0 1 2"] : [["0 1"], "0 1"]);
  }
});
