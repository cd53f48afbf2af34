// Goal: calls and answers leave in order and by priority, no more than so many at a time, and what cannot leave costs a
// bounded amount.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { answersIn, ChannelStage, nameIn, STAGE_FUNCTION, TestCall, testCalls } from "../testing/channel-stage.ts";
import { HEADER_BYTES, Kind } from "../wire/frame.ts";
import { Answer } from "./answer.ts";
import type { FunctionHandler } from "./channel.ts";

const KIB = 1024;
const dead = new WeighbridgeError("NODE_DEAD", "server 0 is dead");

test("calls are numbered as they leave; updates are stamped, other calls are not (FrameWriter.N1)", async () => {
  const stage = new ChannelStage();
  await stage.send(new TestCall("a"), new TestCall("b", { isUpdate: false }), new TestCall("c"));
  assert.deepEqual(stage.left(), ["1/1 a", "2/0 b", "3/2 c"]);
});

test("calls made in one turn share a write", async () => {
  const stage = new ChannelStage();
  await stage.send(...testCalls(50));
  assert.equal(stage.link.flush(), true);
  assert.equal(stage.link.flush(), false);
});

test("a link that takes every write at once gets all of them, in order and without a pile of calls", async () => {
  const stage = new ChannelStage({ limits: { writeBytesMax: 1 * KIB, inFlightBytesMax: 2 * KIB } });
  stage.link.flushesAtOnce = true;
  await stage.send(...testCalls(20_000, { byteCount: 512 }));
  const numbers = stage.left().map((line) => Number(line.split("/")[0]));
  assert.deepEqual(
    numbers,
    Array.from({ length: 20_000 }, (_, i) => i + 1),
  );
});

test("after a reconnect everything unanswered leaves again, as it was, before anything new (FrameWriter.N2)", async () => {
  const stage = new ChannelStage();
  const list = testCalls(4, { isUpdate: true });
  await stage.send(...list);
  stage.left();
  stage.reply(2);
  stage.breakLink();
  await stage.send(new TestCall("new", { priority: 9 }));
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 call1", "3/3 call3", "4/4 call4", "5/5 new"]);
  assert.equal(stage.metrics.resends, 3);
});

test("a call leaves with the epoch by which it was cut, and again with the same one (spec/protocol.md, F8)", async () => {
  const stage = new ChannelStage();
  await stage.send(new TestCall("a", { epoch: 7 }), new TestCall("b", { epoch: 5000 }), new TestCall("c"));
  const epochs = (): number[] => stage.link.take().map(({ header }) => header.epoch);
  assert.deepEqual(epochs(), [7, 5000, 0]);
  stage.breakLink();
  await stage.reconnect();
  assert.deepEqual(epochs(), [7, 5000, 0]);
});

test("calls made without a link wait for one, by priority", async () => {
  const stage = new ChannelStage();
  stage.breakLink();
  await stage.send(new TestCall("low"), new TestCall("high", { priority: 1 }));
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 high", "2/2 low"]);
});

test("on a link that never flushes no more than the bound and one frame are written (FrameWriter.N3)", async () => {
  const limits = { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB };
  const frameBytes = HEADER_BYTES + 10 * KIB;
  const stage = new ChannelStage({ limits });
  for (let i = 0; i < 100; i++) await stage.send(new TestCall(`call${i}`, { byteCount: 10 * KIB }));
  assert.ok(stage.link.unflushedBytes >= limits.inFlightBytesMax, "the bound is used");
  assert.ok(stage.link.unflushedBytes < limits.inFlightBytesMax + frameBytes, `${stage.link.unflushedBytes}`);
});

test("the same bound holds for a burst of calls in one turn, for answers, and for what leaves again", async () => {
  const limits = { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB };
  const bound = limits.inFlightBytesMax + HEADER_BYTES + 10 * KIB;
  const stage = new ChannelStage({ limits });
  await stage.send(...testCalls(100, { byteCount: 10 * KIB }));
  assert.ok(stage.link.unflushedBytes < bound, `${stage.link.unflushedBytes}`);
  await stage.reconnect();
  assert.ok(stage.link.unflushedBytes < bound, `${stage.link.unflushedBytes}`);
  const payload = new Uint8Array(10 * KIB);
  const server = new ChannelStage({ limits, handler: { handle: (channel, header) => channel.answerHeld(header, payload) } });
  for (let request = 1; request <= 100; request++) server.receive(Kind.REQUEST, request);
  await server.clock.run();
  assert.ok(server.link.unflushedBytes < bound, `${server.link.unflushedBytes}`);
});

test("an urgent call passes what has not been handed to the link (FrameWriter.N3)", async () => {
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB } });
  await stage.send(...testCalls(100, { byteCount: 10 * KIB }));
  const before = stage.left().length;
  assert.ok(before < 10);
  await stage.send(new TestCall("urgent", { priority: 1 }));
  await stage.flush();
  assert.equal(
    stage.left().findIndex((line) => line.endsWith("urgent")),
    0,
  );
});

test("while too much of answers waits the link is not read; it is again when half of it left (FrameWriter.N4)", async () => {
  let held = 0;
  const handler: FunctionHandler = {
    handle(channel, header): void {
      held++;
      channel.answerHeld(header, new Uint8Array(10 * KIB), { release: () => held-- });
    },
  };
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 20 * KIB, writeBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
  let request = 0;
  while (!stage.link.isPaused) {
    stage.receive(Kind.REQUEST, ++request);
    await stage.clock.run();
    assert.ok(request < 20, "never paused");
  }
  stage.link.flush();
  await stage.clock.run();
  assert.equal(stage.link.isPaused, true, "more than half still waits");
  await stage.flush();
  assert.equal(stage.link.isPaused, false);
  assert.equal(held, 0);
  assert.equal(stage.link.take().length, request);
});

test("a link whose input is held back is not read until the promise resolves, nor while too much of answers waits (FrameWriter.N7)", async () => {
  const holds: (() => void)[] = [];
  const handler: FunctionHandler = {
    handle(channel, header): void {
      channel.holdInput(new Promise((resolve) => holds.push(resolve)));
      channel.answerHeld(header, new Uint8Array(10 * KIB));
    },
  };
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 1 * KIB, answerBytesMax: 15 * KIB }, handler });
  stage.receive(Kind.REQUEST, 1);
  await stage.clock.run();
  assert.equal(stage.link.isPaused, true);
  for (const release of holds.splice(0)) release();
  await stage.clock.run();
  assert.equal(stage.link.isPaused, false);
  stage.receive(Kind.REQUEST, 2);
  stage.receive(Kind.REQUEST, 3);
  for (const release of holds.splice(0)) release();
  await stage.clock.run();
  assert.equal(stage.link.isPaused, true, "answers wait");
  await stage.flush();
  assert.equal(stage.link.isPaused, false);
});

test("a link that two hold back is read when both have let go (FrameWriter.N7)", async () => {
  const holds: (() => void)[] = [];
  const stage = new ChannelStage();
  for (let i = 0; i < 2; i++) stage.channel.holdInput(new Promise((resolve) => holds.push(resolve)));
  for (const isPaused of [true, false]) {
    assert.equal(stage.link.isPaused, true);
    holds.shift()?.();
    await stage.clock.run();
    assert.equal(stage.link.isPaused, isPaused);
  }
});

test("acknowledgements without a payload count as well (FrameWriter.N4)", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.acknowledge(header) };
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 1 * KIB, answerBytesMax: 4 * KIB }, handler });
  for (let request = 1; request <= 200; request++) {
    stage.receive(Kind.REQUEST, request);
    await stage.clock.run();
  }
  assert.equal(stage.link.isPaused, true);
  await stage.flush();
  assert.equal(stage.link.isPaused, false);
  assert.equal(stage.link.take().length, 200);
});

test("an acknowledgement that nobody waits for leaves with the next answer, or a little later by itself (FrameWriter.N8)", async () => {
  const handler: FunctionHandler = {
    handle: (channel, header, bytes) => channel.acknowledge(header, nameIn(bytes) === "later"),
  };
  const stage = new ChannelStage({ handler });
  await stage.clock.run();
  stage.channel.beginInput();
  stage.receive(Kind.REQUEST, 1, "later");
  stage.channel.endInput(true);
  await stage.clock.run({ untilMs: 1 });
  assert.deepEqual(answersIn(stage.link.take()), []);
  stage.receive(Kind.REQUEST, 2, "now");
  await stage.clock.run({ untilMs: 1 });
  assert.deepEqual(answersIn(stage.link.take()), ["REPLY 1", "REPLY 2"]);
  await stage.flush();
  for (const request of [3, 4]) stage.receive(Kind.REQUEST, request, "later");
  await stage.clock.run();
  assert.deepEqual(answersIn(stage.link.take()), ["REPLY 3", "REPLY 4"]);
  assert.equal(stage.link.flush(), true);
  assert.equal(stage.link.flush(), false, "both in one write");
});

/** Serves pushes, ends of clocks, reads that are parked, and reads that are answered. */
const CLOCKED: FunctionHandler = {
  handle(channel, header, bytes): void {
    const name = nameIn(bytes);
    if (name === "wait") channel.park(header.request);
    else if (name === "read") channel.answerCopy(header, new Uint8Array(8), 0, 8);
    else channel.acknowledge(header, name === "end");
  },
};

/** A stage that has taken `before`, and then the rest in one input. */
async function clockedStage(before: readonly string[], input: readonly string[]): Promise<ChannelStage> {
  const stage = new ChannelStage({ handler: CLOCKED });
  let request = 0;
  for (const name of before) stage.receive(Kind.REQUEST, ++request, name);
  await stage.clock.run({ untilMs: 0 });
  stage.channel.beginInput();
  for (const name of input) stage.receive(Kind.REQUEST, ++request, name);
  stage.channel.endInput(true);
  return stage;
}

test("acknowledgements of what came before the end of a clock wait with its own while the other node waits for a read (FrameWriter.N8)", async () => {
  const untilNext = await clockedStage(["wait"], ["push", "push", "end"]);
  await untilNext.clock.run({ untilMs: 1 });
  assert.deepEqual(answersIn(untilNext.link.take()), []);
  const label = { functionId: STAGE_FUNCTION, priority: 0, request: 1, app: 0, customer: 0, command: 0 };
  untilNext.channel.answerRemembered(1, [new Answer(label, { payload: new TextEncoder().encode("values") })]);
  await untilNext.clock.run({ untilMs: 1 });
  assert.deepEqual(answersIn(untilNext.link.take()), ["REPLY 2", "REPLY 3", "REPLY 4", "REPLY 1 values"]);
  assert.deepEqual([untilNext.link.flush(), untilNext.link.flush()], [true, false], "one write");

  const untilLate = await clockedStage(["wait"], ["push", "end"]);
  await untilLate.clock.run({ untilMs: 1 });
  assert.deepEqual(answersIn(untilLate.link.take()), []);
  await untilLate.clock.run({ untilMs: 2 });
  assert.deepEqual(answersIn(untilLate.link.take()), ["REPLY 2", "REPLY 3"]);

  const untilPush = await clockedStage(["wait"], ["push", "end"]);
  untilPush.receive(Kind.REQUEST, 4, "push");
  await untilPush.clock.run({ untilMs: 0 });
  assert.deepEqual(answersIn(untilPush.link.take()), ["REPLY 2", "REPLY 3", "REPLY 4"], "the caller may wait for the last one");
});

test("acknowledgements leave at once if the other node waits for no read, or with an answer to one (FrameWriter.N8)", async () => {
  for (const { before, input } of [
    { before: [], input: ["push", "end"] },
    { before: ["wait"], input: ["push", "end", "push"] },
    { before: ["wait"], input: ["push", "end", "read"] },
    { before: ["wait"], input: ["push", "read", "end"] },
  ]) {
    const { link } = await clockedStage(before, input);
    assert.equal(link.take().length, input.length, [...before, ...input].join());
  }
});

test("acknowledgements that wait when the link breaks hold nothing back on the next one (FrameWriter.N8)", async () => {
  const stage = await clockedStage(["wait"], ["push", "end"]);
  await stage.reconnect();
  assert.deepEqual(answersIn(stage.link.take()), [], "the other node asks again");
  stage.channel.beginInput();
  stage.receive(Kind.REQUEST, 2, "push");
  stage.channel.endInput(true);
  assert.deepEqual(answersIn(stage.link.take()), ["REPLY 2"]);
});

test("a link that breaks lets go of every answer, and the next one is read (FrameWriter.N4)", async () => {
  let held = 0;
  const handler: FunctionHandler = {
    handle(channel, header): void {
      held++;
      channel.answerHeld(header, new Uint8Array(10 * KIB), { release: () => held-- });
    },
  };
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
  for (let request = 1; request <= 10; request++) stage.receive(Kind.REQUEST, request);
  await stage.clock.run();
  assert.equal(stage.link.isPaused, true);
  await stage.reconnect();
  assert.equal(held, 0);
  stage.receive(Kind.REQUEST, 11);
  await stage.flush();
  assert.equal(held, 0);
  assert.equal(stage.link.isPaused, false);
  assert.deepEqual(answersIn(stage.link.take()).length, 1);
});

test("answers that were made just now leave as soon as there is enough of them; others wait for the end of the input", () => {
  for (const isFresh of [true, false]) {
    let held = 0;
    const handler: FunctionHandler = {
      handle(channel, header): void {
        held++;
        channel.answerHeld(header, new Uint8Array(100 * KIB), { isFresh, release: () => held-- });
      },
    };
    const stage = new ChannelStage({ handler });
    stage.link.flushesAtOnce = true;
    stage.channel.beginInput();
    stage.receive(Kind.REQUEST, 1);
    assert.equal(held, 1, "too little for a write of its own");
    stage.receive(Kind.REQUEST, 2);
    assert.equal(held, isFresh ? 0 : 2);
    stage.channel.endInput(true);
    assert.equal(held, 0);
    assert.equal(answersIn(stage.link.take()).length, 2);
  }
});

test("at most so many calls queue; beyond that QUEUE_FULL, and whoever waits for room gets it once half is free", async () => {
  const stage = new ChannelStage({ limits: { queuedMax: 10 } });
  stage.breakLink();
  const list = testCalls(10);
  await stage.send(...list);
  assert.equal(stage.channel.room, 0);
  const extra = new TestCall("extra");
  assert.throws(
    () => stage.channel.send(extra),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable,
  );
  let hasRoom = false;
  stage.channel.whenRoom(() => {
    hasRoom = true;
  });
  await stage.clock.run();
  assert.equal(hasRoom, false);
  await stage.reconnect();
  assert.equal(hasRoom, true);
  assert.equal(extra.outcome, "open");
  assert.equal(stage.left().length, 10);
});

test("after a wait for room, calls are admitted however many they are; before it, only those that fit", async () => {
  const stage = new ChannelStage({ limits: { queuedMax: 10 } });
  stage.breakLink();
  await stage.send(...testCalls(5));
  assert.equal(stage.channel.admits(5), true);
  assert.equal(stage.channel.admits(100), true, "half of the queue is free: there is no better moment for so many");
  await stage.send(new TestCall("one more"));
  assert.equal(stage.channel.admits(4), true);
  assert.equal(stage.channel.admits(5), false);
  for (const call of testCalls(20)) stage.channel.send(call, true);
  await stage.reconnect();
  assert.equal(stage.left().length, 26);
});

test("room is there again when the calls that took it failed", async () => {
  for (const fail of ["failCalls", "end", "renew"] as const) {
    const stage = new ChannelStage({ limits: { queuedMax: 4 } });
    stage.breakLink();
    await stage.send(...testCalls(4));
    let hasRoom = false;
    stage.channel.whenRoom(() => {
      hasRoom = true;
    });
    if (fail === "renew") stage.channel.renew(2, dead);
    else stage.channel[fail](dead);
    await stage.clock.run();
    assert.equal(hasRoom, true, fail);
  }
});

test("only so many calls are open at the other node; each answer lets one more leave, also when nothing else happens", async () => {
  const stage = new ChannelStage({ limits: { pendingMax: 4 } });
  const list = testCalls(10);
  await stage.send(...list);
  await stage.flush();
  assert.equal(stage.left().length, 4);
  stage.reply(2);
  await stage.flush();
  assert.equal(stage.left().length, 0, "request 1 is still open, and 2 is kept behind it");
  stage.reply(1);
  await stage.flush();
  assert.equal(stage.left().length, 2);
  for (let request = 3; request <= 10; request++) {
    stage.reply(request);
    await stage.flush();
  }
  assert.ok(list.every(({ outcome }) => outcome === "answered"));
});

test("answers that wait stay when calls are given up: the other node is not dead to itself", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.answerHeld(header, new Uint8Array(10 * KIB)) };
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
  for (let request = 1; request <= 10; request++) stage.receive(Kind.REQUEST, request);
  const call = new TestCall("last");
  await stage.send(call);
  stage.channel.failCalls(dead);
  assert.deepEqual([call.outcome, stage.link.isDestroyed], ["NODE_DEAD", false]);
  await stage.flush();
  assert.equal(stage.link.take().length, 10);
  assert.equal(stage.link.isPaused, false);
});

test("with lost and doubled frames answers are let go exactly once, and the link is not paused for ever", async () => {
  for (const faults of [{ dropPercent: 60 }, { duplicatePercent: 60 }, { reorderPercent: 60 }]) {
    let held = 0;
    const handler: FunctionHandler = {
      handle(channel, header): void {
        let isHeld = true;
        held++;
        const release = (): void => {
          assert.ok(isHeld, "let go twice");
          isHeld = false;
          held--;
        };
        channel.answerHeld(header, new Uint8Array(10 * KIB), { release });
      },
    };
    const stage = new ChannelStage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler, faults });
    for (let request = 1; request <= 100; request++) {
      stage.receive(Kind.REQUEST, request);
      await stage.flush();
    }
    await stage.flush();
    assert.deepEqual([held, stage.link.isPaused], [0, false], JSON.stringify(faults));
  }
});
