// Goal: a run is sent ahead only while nothing but its handler can refuse one of its pushes, and a standby that decides
// otherwise than its head is found at the next entry.

import assert from "node:assert/strict";
import { test } from "node:test";
import { badRequest, WeighbridgeError } from "../../base/errors.ts";
import { kvPull, kvPush } from "../../contracts/kv.ts";
import type { Channel, FunctionHandler } from "../../peer/channel.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { APP_CUT, FrameHeader, Kind } from "../../wire/frame.ts";
import { idOf } from "../../wire/node-id.ts";
import { LoggedRequests } from "./logged-requests.ts";
import type { Replica } from "./replica.ts";
import type { ReplicaLog } from "./replica-log.ts";
import { isDetermined, RefusedAhead, RunAhead } from "./run-ahead.ts";

const WORKER = idOf("worker", 0);
const EPOCH = 3;
const STRIDE = 16;

/** A head whose own keys are those below 100. */
class Stage {
  readonly sent: number[] = [];
  readonly givenUp: string[] = [];
  readonly ownership = {
    epoch: EPOCH,
    isSettling: false,
    isOnTheWay: false,
    range: { firstLow: 0, firstHigh: 0, endLow: 100, endHigh: 0, hasEnd: true },
  };
  readonly arena = { stateFreeBytes: 80, stateBytesMax: 100 };
  readonly apps = { served: new Map([[1, {} as FunctionHandler]]) };
  readonly parameters = { isRestoring: false };
  takesAhead = true;
  sinkNumber = 1;
  readonly ahead: RunAhead;
  readonly channel = { id: WORKER, incarnation: 1, name: "worker 0" } as Channel;

  constructor() {
    this.ahead = new RunAhead(this as unknown as ReplicaLog, this as never);
  }

  appendRun(_channel: Channel, { request, more }: FrameHeader): void {
    this.sent.push(request, request + more);
  }

  giveUp(error: WeighbridgeError): void {
    this.givenUp.push(error.message);
  }

  /** The first of pushes of one float to each of these keys, from this request on. */
  has(keys: readonly number[], change: Partial<FrameHeader> = {}, channel: Channel = this.channel): boolean {
    const header = new FrameHeader().reset(Kind.REQUEST, kvPush.id);
    Object.assign(header, { request: 10, stamp: 20, epoch: EPOCH, app: 1, arg0: 1, payloadBytes: 12, more: keys.length - 1, ...change });
    const bytes = new Uint8Array(keys.length * STRIDE);
    for (const [i, key] of keys.entries()) new Uint32Array(bytes.buffer)[(i * STRIDE) / 4] = key;
    return this.ahead.has(channel, header, bytes, 0);
  }
}

test("a run leaves with its first push, and each of its others is in the log then (RunAhead.A1)", () => {
  const stage = new Stage();
  assert.equal(stage.has([1, 2, 99]), true);
  assert.deepEqual([stage.sent, stage.ahead.isOver, stage.ahead.count], [[10, 12], false, 3]);
  assert.equal(stage.has([2], { request: 11 }), true);
  assert.equal(stage.has([99], { request: 12 }), true);
  assert.deepEqual([stage.sent, stage.ahead.isOver], [[10, 12], true]);
  assert.equal(stage.has([5], { request: 13 }), false, "a single push is handled first");
});

const NOT_SENT: readonly (readonly [string, Partial<FrameHeader>, (stage: Stage) => void])[] = [
  ["cut by another placement", { epoch: EPOCH - 1 }, () => {}],
  ["cut by an application", { flags: APP_CUT }, () => {}],
  ["of pulls", { functionId: kvPull.id, stamp: 0 }, () => {}],
  ["for an application that is not there", { app: 2 }, () => {}],
  ["whose lengths do not add up", { arg0: 2 }, () => {}],
  ["with keys of another server", {}, ({ ownership }) => Object.assign(ownership.range, { endLow: 2 })],
  ["without a standby that has everything", {}, (stage) => Object.assign(stage, { takesAhead: false })],
  ["while parts move", {}, ({ ownership }) => Object.assign(ownership, { isOnTheWay: true })],
  ["while parts come or go", {}, ({ ownership }) => Object.assign(ownership, { isSettling: true })],
  ["while a checkpoint is being restored", {}, ({ parameters }) => Object.assign(parameters, { isRestoring: true })],
  ["while less than half of the memory is free", {}, ({ arena }) => Object.assign(arena, { stateFreeBytes: 49 })],
];
for (const [what, header, arrange] of NOT_SENT) {
  test(`a run ${what} is handled first (RunAhead.A1, RunAhead.A2)`, () => {
    const stage = new Stage();
    arrange(stage);
    assert.equal(stage.has([1, 2], header), false);
    assert.deepEqual(stage.sent, []);
  });
}

test("a standby that has pushes which its head did not handle is given up (RunAhead.A3)", () => {
  const stage = new Stage();
  stage.has([1, 2, 3]);
  assert.equal(stage.has([7], { request: 11 }, { ...stage.channel } as Channel), false, "of another worker");
  assert.match(stage.givenUp.join(), /2 of 3 pushes of worker 0 that the standby has were not handled/);
  assert.equal(stage.has([4, 5], { request: 30 }), true, "and the next run is one for itself");
});

test("a push that waited without the others of its run is handled first (RunAhead.A1)", () => {
  const stage = new Stage();
  assert.equal(stage.has([1], { more: 3 }), false);
  assert.deepEqual(stage.sent, []);
});

test("a run of which a part was not handled is over with the standby that has it, and before anything else is logged (RunAhead.A3)", () => {
  const stage = new Stage();
  stage.has([1, 2, 3]);
  stage.sinkNumber++;
  assert.equal(stage.has([2], { request: 11 }), false, "the next standby does not have it");
  assert.deepEqual(stage.givenUp, []);
  stage.has([1, 2], { request: 20 });
  stage.ahead.expectOver();
  assert.match(stage.givenUp.join(), /1 of 2 pushes of worker 0/);
  assert.equal(stage.ahead.isOver, true);
});

test("what a standby refuses for a reason that its head need not have is not taken for a refusal (RunAhead.A2)", () => {
  assert.deepEqual(
    [badRequest("no"), new WeighbridgeError("VALUE_LENGTH", "no"), new WeighbridgeError("ARENA_FULL", "no"), new Error("no")].map(
      isDetermined,
    ),
    [true, true, false, false],
  );
});

test("a standby that refuses what its head refuses goes on; one that decides otherwise does not (RunAhead.A2)", () => {
  const refused = new RefusedAhead();
  const run = { stamp: 20, more: 3 };
  refused.begin(WORKER, 1, run);
  refused.add(21);
  refused.compare(WORKER, 1, 21);
  refused.compare(WORKER, 1, 19); // it is of no run
  refused.compare(WORKER, 2, 20); // of another incarnation
  refused.end();
  refused.begin(WORKER, 1, run);
  assert.throws(() => refused.compare(WORKER, 1, 22), throwsCode("BAD_REQUEST", /refused update 22 of worker 0, which was taken here/));
  refused.begin(WORKER, 1, run);
  refused.add(23);
  assert.throws(() => refused.end(), throwsCode("BAD_REQUEST", /took update 23 of worker 0, which was refused here/));
  refused.begin(WORKER, 1, run);
  refused.add(23);
  refused.forget();
  refused.end();
});

test("an update that was applied, and whose answer alone was lost, stays in the log (LoggedRequests.I7)", () => {
  for (const [code, expected] of [
    ["ANSWER_LOST", ["append", "handled", "refused"]],
    ["VALUE_LENGTH", ["append", "retract", "refused"]],
  ] as const) {
    const steps: string[] = [];
    const log = {
      isOn: true,
      appendFrame: () => steps.push("append"),
      handled: () => steps.push("handled"),
      retract: () => steps.push("retract"),
    };
    const replica = { log, isStandby: false, meet: () => {}, refused: () => steps.push("refused") } as unknown as Replica;
    const inner: FunctionHandler = {
      handle: () => {
        throw new WeighbridgeError(code, "no");
      },
    };
    const header = new FrameHeader().reset(Kind.REQUEST, kvPush.id);
    header.stamp = 4;
    assert.throws(
      () => new LoggedRequests(inner, replica, { isKv: true }).handle({} as Channel, header, new Uint8Array(0), 0, true),
      throwsCode(code),
    );
    assert.deepEqual(steps, expected);
  }
});
