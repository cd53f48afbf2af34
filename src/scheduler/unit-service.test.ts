// Goal: whoever asks for units is answered as soon as there is something to say, and never left waiting.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { type LogFields, SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import type { RosterView } from "../wire/roster.ts";
import type { UnitsReply, UnitsRequest } from "../wire/units.ts";
import { UnitService } from "./unit-service.ts";

const BASE: UnitsRequest = {
  ...{ name: "train", epoch: 0, batchCount: 2, partCount: 1, assignment: "free" },
  ...{ done: [], held: [], unused: [], want: 1, waitMs: 100, inherited: 0, leaves: false },
};

function roster(...ranks: readonly number[]): RosterView {
  const entry = { role: "worker", address: "", incarnation: 1, label: "" } as const;
  return {
    version: 1,
    nodes: [0, 1, 2].map((rank) => ({ ...entry, node: 9 + 2 * rank, rank, state: ranks.includes(rank) ? "alive" : "dead" })),
  };
}

function serviceOf(...ranks: readonly number[]): { service: UnitService; clock: SimClock; logged: readonly LogFields[] } {
  const clock = new SimClock();
  const logged: LogFields[] = [];
  const log = { ...SILENT_LOG, warn: (_: string, fields: LogFields = {}) => void logged.push(fields) };
  const service = new UnitService({ clock, workerCount: 3, log });
  service.follow(roster(...ranks), { isSettled: true });
  return { service, clock, logged };
}

/** Gives the answer, once there is one. */
function watched(answer: UnitsReply | Promise<UnitsReply>): () => UnitsReply | undefined {
  let seen: UnitsReply | undefined;
  Promise.resolve(answer).then(
    (reply) => {
      seen = reply;
    },
    () => {},
  );
  return () => seen;
}

test("what there is is lent at once; without it an ask waits as long as it said, and gets nothing", async () => {
  const { service, clock } = serviceOf(0, 1);
  assert.deepEqual((service.request(0, BASE) as UnitsReply).units, [0, 1]);
  assert.deepEqual((service.request(1, BASE) as UnitsReply).units, [1, 2]);
  assert.deepEqual((service.request(1, { ...BASE, held: [1, 2], waitMs: 0 }) as UnitsReply).units, []);
  const third = watched(service.request(1, { ...BASE, held: [1, 2] }));
  await clock.advance(99);
  assert.equal(third(), undefined);
  await clock.advance(1);
  assert.deepEqual([third()?.units, third()?.isOver], [[], false]);
});

test("what a lost worker had is logged once, by epoch: units that it was lent, and those that were dealt to it alone (UnitService.K3)", () => {
  const { service, logged } = serviceOf(0, 1);
  const rounds = { ...BASE, name: "net", batchCount: 6, partCount: 4, assignment: "rounds", want: 2, waitMs: 0 } as const;
  void service.request(0, { ...rounds, want: 0 });
  void service.request(1, { ...rounds, want: 0 });
  const { units } = service.request(0, { ...rounds, want: 3 }) as UnitsReply;
  assert.deepEqual(units, [0, 2, 4, 6, 8, 10], "half of each of three batches");
  assert.deepEqual((service.request(1, { ...rounds, want: 1 }) as UnitsReply).units, [2, 4]);
  service.died(1);
  service.follow(roster(0), { isSettled: true });
  assert.deepEqual(logged, [{ worker: 1, epochOf: "net", epoch: 0, unitsPerBatch: 4, lent: 2, dealt: 4 }]);
});

test("who waits is lent what another gives back, or loses with its incarnation", async () => {
  for (const death of [true, false]) {
    const { service, clock } = serviceOf(0, 1, 2);
    void service.request(0, BASE);
    void service.request(1, BASE);
    const waiting = watched(service.request(2, { ...BASE, waitMs: 5000 }));
    await clock.advance(10);
    assert.equal(waiting(), undefined);
    if (death) service.follow(roster(0, 2), { isSettled: true });
    else void service.request(1, { ...BASE, want: 0, unused: [1, 2] });
    await clock.advance(0);
    assert.deepEqual([waiting()?.units, waiting()?.repeatedCount], [[1, 2], death ? 1 : 0]);
  }
});

test("who waits is told at once that the epoch is over", async () => {
  const { service, clock } = serviceOf(0, 1);
  void service.request(0, { ...BASE, want: 2 });
  void service.request(0, { ...BASE, held: [0, 1], want: 2 });
  const waiting = watched(service.request(1, { ...BASE, waitMs: 5000 }));
  await clock.advance(10);
  void service.request(0, { ...BASE, want: 0, done: [0, 2] });
  await clock.advance(0);
  assert.equal(waiting()?.isOver, true);
});

test("after a restart an ask waits until everybody was heard, however short its own wait is", async () => {
  const { service, clock } = serviceOf(0, 1);
  service.follow(roster(0, 1), { isSettled: false });
  const waiting = watched(service.request(0, { ...BASE, waitMs: 1 }));
  const telling = watched(service.request(0, { ...BASE, want: 0 }));
  await clock.advance(1000);
  assert.deepEqual([waiting(), telling()?.units], [undefined, []], "who asks for nothing is answered");
  service.recall(1, { open: [{ ...BASE, done: [0, 1], suspect: [], repeatedCount: 0 }], over: [] });
  service.follow(roster(0, 1), { isSettled: true });
  await clock.advance(0);
  assert.deepEqual(waiting()?.units, [1, 2]);
});

test("an ask of an incarnation that is over is answered with nothing: its next incarnation would not know what it was lent", async () => {
  const { service, clock } = serviceOf(0, 1);
  void service.request(0, { ...BASE, want: 2 });
  void service.request(0, { ...BASE, held: [0, 1], want: 2 });
  const waiting = watched(service.request(1, { ...BASE, waitMs: 5000 }));
  await clock.advance(10);
  service.died(1);
  await clock.advance(0);
  assert.deepEqual([waiting()?.units, waiting()?.isOver], [[], false]);
});

test("closing the service fails those who wait", async () => {
  const { service } = serviceOf(0, 1);
  void service.request(0, { ...BASE, want: 2 });
  void service.request(0, { ...BASE, held: [0, 1], want: 2 });
  const waiting = service.request(1, BASE) as Promise<UnitsReply>;
  service.close(new WeighbridgeError("CLOSED", "the scheduler was closed"));
  await assert.rejects(waiting, { code: "CLOSED" });
});
