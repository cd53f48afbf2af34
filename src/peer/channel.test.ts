// Goal: one conversation over links that come and go: every call ends once, every request is taken once, whatever comes
// again or late.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { answersIn, ChannelStage, nameIn, STAGE_FUNCTION, TestCall, testCalls } from "../testing/channel-stage.ts";
import { StubLink } from "../testing/stub-link.ts";
import { Kind } from "../wire/frame.ts";
import { encodeJson } from "../wire/json-body.ts";
import { Answer, labelOf } from "./answer.ts";
import type { FunctionHandler } from "./channel.ts";

const dead = new WeighbridgeError("NODE_DEAD", "server 0 is dead");
const outcomes = (list: readonly TestCall[]): string[] => list.map(({ outcome }) => outcome);

test("an answer ends its call, in whatever order answers come, and what nobody waits for is counted", async () => {
  const stage = new ChannelStage();
  const list = testCalls(3);
  await stage.send(...list);
  stage.reply(3, "three");
  stage.reply(1);
  stage.reply(1);
  assert.throws(() => stage.reply(9), /answered request 9; requests 1 to 3 were made/, "which breaks the link");
  assert.throws(() => stage.reply(0), /answered request 0/);
  assert.deepEqual(outcomes(list), ["answered", "open", "answered three"]);
  assert.equal(stage.metrics.orphanAnswers, 3);
  assert.equal(stage.channel.openCallCount, 1);
});

test("an answer that came before never lands in another call's memory", async () => {
  const stage = new ChannelStage();
  const first = new TestCall("first", { room: 8 });
  await stage.send(first);
  stage.reply(1, "first");
  const others = testCalls(16, { room: 8 });
  await stage.send(...others);
  stage.reply(1, "again");
  for (const other of others) assert.deepEqual(other.room, new Uint8Array(8));
});

test("an answer that makes no sense fails its call, and only that", async () => {
  const stage = new ChannelStage();
  const list = testCalls(2);
  await stage.send(...list);
  stage.reply(1, "nonsense");
  stage.reply(2, "fine");
  assert.deepEqual(outcomes(list), ["HANDLER_FAILED", "answered fine"]);
});

test("a failure ends its call with the code; one that cannot be read breaks the link and loses no call (Channel.N5)", async () => {
  const stage = new ChannelStage();
  const list = testCalls(2);
  await stage.send(...list);
  stage.receive(Kind.FAILURE, 1, nameIn(encodeJson({ code: "ARENA_FULL", message: "no room", retryable: false })));
  assert.throws(() => stage.receive(Kind.FAILURE, 2, "{"));
  await stage.reconnect();
  stage.reply(2);
  assert.deepEqual(outcomes(list), ["ARENA_FULL", "answered"]);
});

test("the end of the channel fails every open call, and later ones too, never from inside send (Channel.N5)", async () => {
  const stage = new ChannelStage();
  const list = testCalls(3);
  await stage.send(...list);
  stage.breakLink();
  const queued = new TestCall("queued");
  stage.channel.send(queued);
  stage.channel.end(dead);
  assert.deepEqual(outcomes([...list, queued]), ["NODE_DEAD", "NODE_DEAD", "NODE_DEAD", "NODE_DEAD"]);
  const late = new TestCall("late");
  stage.channel.send(late);
  assert.equal(late.outcome, "open");
  await stage.clock.run();
  assert.equal(late.outcome, "NODE_DEAD");
  stage.channel.end(new WeighbridgeError("CLOSED", "again"));
});

test("a new incarnation of the other node fails what it may have done; what means the same again is given back (Channel.N5)", async () => {
  const stage = new ChannelStage();
  const push = new TestCall("push");
  const status = new TestCall("status", { isUpdate: false, isIdempotent: true });
  await stage.send(push, status);
  const { link } = stage;
  assert.deepEqual(stage.channel.renew(2, dead), [status]);
  assert.deepEqual(outcomes([push, status]), ["NODE_DEAD", "open"]);
  assert.deepEqual([link.isDestroyed, stage.channel.link], [true, undefined], "what the old incarnation still says is not heard");
  stage.left();
  await stage.reconnect();
  await stage.send(status);
  assert.deepEqual(stage.left(), ["1/0 status"], "numbers begin again with an incarnation");
});

test("the next hello says of updates that failed for a death which were applied: those the same incarnation took, of another none (Call.K4)", async () => {
  const stage = new ChannelStage();
  const [first, second, waiting] = testCalls(3) as [TestCall, TestCall, TestCall];
  const read = new TestCall("read", { isUpdate: false });
  await stage.send(first, second, read);
  stage.channel.failCalls(dead);
  const fates = (): (string | undefined)[] => [first, second, read, waiting].map(({ fate }) => fate?.outcome);
  stage.channel.detach(stage.link);
  stage.channel.send(waiting);
  stage.channel.failCalls(dead);
  assert.deepEqual(fates(), ["open", "open", undefined, undefined], "what did not leave was not applied, and reads apply nothing");
  stage.channel.resume(2);
  assert.deepEqual(fates(), ["applied", "dropped", undefined, undefined]);
  await stage.reconnect();
  const [lost, forgotten] = testCalls(2) as [TestCall, TestCall];
  await stage.send(lost);
  stage.channel.failCalls(dead);
  stage.channel.renew(stage.channel.incarnation + 1, dead);
  await stage.reconnect();
  await stage.send(forgotten);
  stage.channel.failCalls(dead);
  stage.channel.renew(stage.channel.incarnation, dead);
  assert.deepEqual([lost.fate?.outcome, forgotten.fate?.outcome], ["dropped", "unknown"]);
});

test("calls given up leave their numbers behind: the same incarnation goes on with the next one", async () => {
  const stage = new ChannelStage();
  const [first, second, third] = testCalls(3) as [TestCall, TestCall, TestCall];
  await stage.send(first, second);
  const { link } = stage;
  stage.channel.failCalls(dead);
  assert.deepEqual(outcomes([first, second]), ["NODE_DEAD", "NODE_DEAD"]);
  assert.equal(link.isDestroyed, true, "an answer on its way must not land in memory that was given back");
  await stage.reconnect();
  await stage.send(third);
  const [frame] = stage.link.take();
  assert.deepEqual([frame?.header.request, frame?.header.settled], [3, 3]);
  assert.deepEqual(
    [1, 2, 3, 4, 5].map((expects) => stage.channel.canResumeAt(expects)),
    [true, true, true, true, false],
  );
  stage.reply(1, "late");
  stage.reply(3);
  assert.equal(third.outcome, "answered");
  assert.deepEqual(
    [1, 3, 4].map((expects) => stage.channel.canResumeAt(expects)),
    [false, false, true],
  );
  assert.equal(stage.metrics.orphanAnswers, 1);
});

test("calls to a node out of reach say whether they may have been applied, and never leave again (Channel.N6)", async () => {
  const stage = new ChannelStage();
  const update = new TestCall("update");
  const read = new TestCall("read", { isUpdate: false });
  const waiting = new TestCall("waiting");
  const ends: string[] = [];
  for (const call of [update, read, waiting]) {
    call.failed = ({ code, message, retryable }) => {
      ends.push(`${call.name}: ${code} ${/may have been applied|nothing was applied/.exec(message)?.[0]}, retryable ${retryable}`);
    };
  }
  await stage.send(update, read);
  stage.breakLink();
  await stage.send(waiting);
  stage.channel.failLost("LINK_LOST", "server 0 could not be reached");
  assert.deepEqual(ends, [
    "update: LINK_LOST may have been applied, retryable false",
    "read: LINK_LOST nothing was applied, retryable true",
    "waiting: LINK_LOST nothing was applied, retryable true",
  ]);
  assert.equal(stage.channel.isAwaiting, false);
  await stage.reconnect();
  assert.deepEqual(stage.left(), []);
  await stage.send(new TestCall("next"));
  const [frame] = stage.link.take();
  assert.deepEqual([frame?.header.request, frame?.header.stamp, frame?.header.settled], [3, 2, 3], "it goes on behind them");
  assert.ok(stage.channel.canResumeAt(1) && stage.channel.canResumeAt(3), "whether the other side took them or not");
});

test("calls to a node that has left in order are refused, but for updates that had departed and those that name the node (Router.R9)", async () => {
  const stage = new ChannelStage();
  const placed = { epoch: 3 };
  const departed = [new TestCall("update", placed), new TestCall("read", { ...placed, isUpdate: false }), new TestCall("named")];
  const waiting = [new TestCall("waits", placed), new TestCall("reads", { ...placed, isUpdate: false })];
  const ends: string[] = [];
  for (const call of [...departed, ...waiting]) call.failed = ({ code, retryable }) => void ends.push(`${call.name}: ${code} ${retryable}`);
  await stage.send(...departed);
  stage.breakLink();
  await stage.send(...waiting);
  stage.channel.failLeft();
  assert.deepEqual(ends, [
    "waits: WRONG_EPOCH true",
    "reads: WRONG_EPOCH true",
    "update: LINK_LOST false",
    "read: WRONG_EPOCH true",
    "named: NODE_DEAD false",
  ]);
  assert.equal(stage.channel.isAwaiting, false);
});

test("a gap is told once, and the missing request and all behind it leave again", async () => {
  const server = new ChannelStage({ handler: { handle: (channel, header) => channel.acknowledge(header) } });
  for (const request of [1, 3, 4, 2, 3, 4]) server.receive(Kind.REQUEST, request);
  await server.clock.run();
  assert.deepEqual(answersIn(server.link.take()).sort(), ["NOTICE 2", "REPLY 1", "REPLY 2", "REPLY 3", "REPLY 4"]);
  assert.equal(server.metrics.gaps, 2);
  const worker = new ChannelStage();
  await worker.send(...testCalls(4));
  worker.left();
  worker.receive(Kind.NOTICE, 3);
  await worker.clock.run();
  assert.deepEqual(worker.left(), ["3/3 call3", "4/4 call4"]);
  assert.throws(() => worker.receive(Kind.NOTICE, 99), /misses request 99/, "which breaks the link");
  await worker.clock.run();
  assert.deepEqual(worker.left(), []);
});

test("a request that comes again is answered again and applied once; one whose answer is due is ignored", async () => {
  const seen: string[] = [];
  let answerLater = (): void => assert.fail("nothing was parked");
  const handler: FunctionHandler = {
    handle(channel, header, bytes, at, fresh): void {
      const text = new TextDecoder().decode(bytes.subarray(at, at + header.payloadBytes));
      seen.push(`${text} ${fresh ? "fresh" : "again"}`);
      const label = labelOf(header);
      if (text !== "later") channel.acknowledge(header);
      else channel.park(header.request);
      answerLater = () => channel.answerRemembered(label.request, [new Answer(label, { payload: new TextEncoder().encode("done") })]);
    },
  };
  const stage = new ChannelStage({ handler });
  stage.receive(Kind.REQUEST, 1, "now");
  stage.receive(Kind.REQUEST, 1, "now");
  stage.receive(Kind.REQUEST, 2, "later");
  stage.receive(Kind.REQUEST, 2, "later");
  assert.equal(stage.channel.parkedCount, 1);
  answerLater();
  stage.receive(Kind.REQUEST, 2, "later");
  await stage.clock.run();
  assert.deepEqual(seen, ["now fresh", "now again", "later fresh"]);
  assert.deepEqual(answersIn(stage.link.take()), ["REPLY 1", "REPLY 1", "REPLY 2 done", "REPLY 2 done"]);
  assert.equal(stage.metrics.duplicates, 3);
});

test("an answer given while the link is down is there when the caller repeats its request", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.park(header.request) };
  const stage = new ChannelStage({ handler });
  stage.receive(Kind.REQUEST, 1);
  const label = { functionId: STAGE_FUNCTION, priority: 0, request: 1, app: 0, customer: 0, command: 0 };
  stage.breakLink();
  stage.channel.answerRemembered(1, [new Answer(label, { payload: new TextEncoder().encode("kept") })]);
  await stage.reconnect();
  stage.receive(Kind.REQUEST, 1);
  await stage.clock.run();
  assert.deepEqual(answersIn(stage.link.take()), ["REPLY 1 kept"]);
});

test("what a handler throws goes back as a failure, remembered; an unknown function as well", async () => {
  let served = 0;
  const handler: FunctionHandler = {
    handle(): void {
      served++;
      throw served === 1 ? new Error("no idea") : new WeighbridgeError("VALUE_LENGTH", "too long");
    },
  };
  const stage = new ChannelStage({ handler });
  stage.receive(Kind.REQUEST, 1);
  stage.receive(Kind.REQUEST, 2);
  stage.receive(Kind.REQUEST, 3, "", { functionId: 999 });
  stage.receive(Kind.REQUEST, 1);
  await stage.clock.run();
  const expected: ErrorCode[] = ["HANDLER_FAILED", "VALUE_LENGTH", "UNKNOWN_FUNCTION", "HANDLER_FAILED"];
  assert.deepEqual(
    answersIn(stage.link.take()),
    expected.map((code, i) => `FAILURE ${(i % 3) + 1} ${code}`),
  );
  assert.equal(served, 2);
  assert.equal(stage.metrics.requestsFailed, 3);
});

test("a second hello breaks the link", () => {
  assert.throws(
    () => new ChannelStage().receive(Kind.HELLO, 0),
    (error) => isWeighbridgeError(error, "BAD_FRAME"),
  );
});

test("a call whose memory is gone fails with BUFFER_DETACHED: what waits, what is written, what is unanswered; others go on (Call.K3)", async () => {
  const stage = new ChannelStage({ limits: { inFlightBytesMax: 1 } });
  const list = testCalls(4);
  await stage.send(...list);
  assert.deepEqual(stage.left(), ["1/1 call1"]);
  list[2]?.detach(); // it waits
  await stage.flush();
  assert.deepEqual(stage.left(), ["2/2 call2", "3/3 ", "4/4 call4"], "under its number, so that the other side misses nothing");
  assert.deepEqual(outcomes(list), ["open", "open", "BUFFER_DETACHED", "open"]);
  list[1]?.detach(); // it has left
  stage.reply(1);
  stage.reply(2);
  stage.receive(Kind.FAILURE, 3, nameIn(encodeJson({ code: "BAD_REQUEST", message: "withdrawn", retryable: false })));
  stage.reply(4);
  assert.deepEqual(outcomes(list), ["answered", "BUFFER_DETACHED", "BUFFER_DETACHED", "answered"]);
  assert.equal(stage.channel.openCallCount, 0);
});

test("a call whose memory is gone is not sent again after a reconnect; a withdrawn frame keeps its place, also when that is lost (Call.K3)", async () => {
  const stage = new ChannelStage();
  const list = testCalls(3);
  await stage.send(...list);
  stage.left();
  list[1]?.detach();
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 call1", "2/2 ", "3/3 call3"]);
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 call1", "2/2 ", "3/3 call3"]);
  for (const request of [1, 2, 3]) stage.reply(request);
  assert.deepEqual(outcomes(list), ["answered", "BUFFER_DETACHED", "answered"]);
});

test("memory that goes between the encoding of a frame and its write breaks the link, and nothing of the batch is lost (Call.K3)", async () => {
  const stage = new ChannelStage();
  const list = testCalls(3);
  for (const call of list) stage.channel.send(call);
  list[0]?.detach();
  await stage.clock.run();
  assert.deepEqual([stage.left(), stage.link.isDestroyed], [[], true]);
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 ", "2/2 call2", "3/3 call3"]);
  for (const request of [1, 2, 3]) stage.reply(request);
  assert.deepEqual(outcomes(list), ["BUFFER_DETACHED", "answered", "answered"]);
});

test("another process goes on with the node's state: open calls leave again in their order with their stamps, before new ones (Channel.N7)", async () => {
  const stage = new ChannelStage({ limits: { pendingMax: 3 } });
  const list = ["low", "read", "high", "waits"].map((name, i) => new TestCall(name, { priority: i, isUpdate: name !== "read" }));
  await stage.send(...list);
  stage.left();
  stage.reply(1);
  await stage.clock.run();
  const before = stage.left();
  assert.deepEqual(before, ["4/3 waits"]);
  stage.channel.continueWith(2);
  assert.deepEqual([stage.channel.incarnation, stage.channel.since, stage.channel.conversation], [2, 1, 2]);
  const late = new TestCall("new", { priority: 9, isUpdate: true });
  stage.channel.send(late);
  stage.link = new StubLink();
  stage.channel.attach(stage.link);
  await stage.clock.run();
  assert.deepEqual(stage.left(), ["1/0 read", "2/2 high", "3/3 waits"]);
  for (const request of [1, 2, 3]) stage.reply(request);
  await stage.flush();
  assert.deepEqual(stage.left(), ["4/4 new"]);
  assert.deepEqual(outcomes(list), ["answered", "answered", "answered", "answered"]);
});
