// Goal: one conversation over links that come and go: calls keep their order and end once, requests are taken once, and what waits is bounded.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ErrorCode, isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { SimClock } from "../testing/sim-clock.ts";
import { type StubFrame, StubLink } from "../testing/stub-link.ts";
import { FrameHeader, HEADER_BYTES, Kind } from "../wire/frame.ts";
import { encodeJson } from "../wire/json-body.ts";
import { Answer, labelOf, setExtent } from "./answer.ts";
import { Call } from "./call.ts";
import { Channel, type FunctionHandler } from "./channel.ts";
import { CHANNEL_LIMITS, type ChannelLimits } from "./channel-limits.ts";
import { Complaints } from "./complaints.ts";
import { type FaultOptions, Faults } from "./faults.ts";
import { type FrameBatch, PagePool } from "./frame-batch.ts";
import { PeerMetrics } from "./metrics.ts";

const FUNCTION = 40;
const KIB = 1024;

class TestCall extends Call {
  readonly functionId = FUNCTION;
  readonly isRead = false;
  readonly isUpdate: boolean;
  readonly isIdempotent: boolean;
  readonly name: string;
  readonly room: Uint8Array | undefined;
  readonly #payload: Uint8Array;
  outcome = "open";

  constructor(name: string, { priority = 0, byteCount = 8, isUpdate = true, isIdempotent = false, room = 0 } = {}) {
    super(priority);
    this.name = name;
    this.isUpdate = isUpdate;
    this.isIdempotent = isIdempotent;
    this.room = room === 0 ? undefined : new Uint8Array(room);
    this.#payload = new Uint8Array(byteCount);
    this.#payload.set(new TextEncoder().encode(name));
  }

  get byteCount(): number {
    return this.#payload.length;
  }

  encode(header: FrameHeader, batch: FrameBatch): void {
    header.payloadBytes = this.#payload.length;
    batch.begin(header, 0);
    batch.attach(this.#payload);
    batch.pad(this.#payload.length);
  }

  destination(header: FrameHeader): Uint8Array | undefined {
    return this.room?.subarray(0, header.payloadBytes);
  }

  answered(header: FrameHeader, bytes: Uint8Array, at: number): boolean {
    assert.equal(this.outcome, "open", "a call ends once");
    const text = new TextDecoder().decode(bytes.subarray(at, at + header.payloadBytes));
    if (text === "nonsense") throw new Error("what is this?");
    this.outcome = `answered ${text}`.trimEnd();
    return true;
  }

  failed(error: WeighbridgeError): void {
    assert.equal(this.outcome, "open", "a call ends once");
    this.outcome = error.code;
  }

  mustFollow(): boolean {
    return false;
  }
}

type StageOptions = {
  readonly limits?: Partial<ChannelLimits>;
  readonly faults?: Partial<FaultOptions>;
  readonly handler?: FunctionHandler;
};

/** A channel to server 0, and a link whose other end is the test. */
class Stage {
  readonly clock = new SimClock();
  readonly metrics = new PeerMetrics();
  readonly channel: Channel;
  link = new StubLink();
  #stamp = 0;

  constructor({ limits = {}, faults, handler }: StageOptions = {}) {
    const none = { dropPercent: 0, duplicatePercent: 0, reorderPercent: 0, delayMs: 1, seed: 1 };
    this.channel = new Channel(
      {
        clock: this.clock,
        pages: new PagePool(),
        metrics: this.metrics,
        complaints: new Complaints(SILENT_LOG, this.clock),
        limits: { ...CHANNEL_LIMITS, ...limits },
        resendTimeoutMs: 0,
        nextStamp: () => ++this.#stamp,
        handlerOf: (functionId) => (functionId === FUNCTION ? handler : undefined),
      },
      8,
      1,
      faults === undefined ? undefined : new Faults({ ...none, ...faults }, this.clock, 0),
    );
    this.channel.attach(this.link);
  }

  /** Sends the calls and lets what can leave, leave. */
  async send(...calls: readonly TestCall[]): Promise<void> {
    for (const call of calls) this.channel.send(call);
    await this.clock.run();
  }

  /** The link breaks and another one takes its place. */
  async reconnect(): Promise<void> {
    this.breakLink();
    this.link = new StubLink();
    this.channel.attach(this.link);
    await this.clock.run();
  }

  breakLink(): void {
    const broken = this.link;
    this.channel.detach(broken);
    while (broken.flush());
  }

  /** Flushes everything there is to flush, and what that lets leave. */
  async flush(): Promise<void> {
    await this.clock.run();
    while (this.link.flush()) await this.clock.run();
  }

  /** The requests written since the last look: "number/stamp name". */
  left(): string[] {
    return this.link.take().map(({ header, payload }) => `${header.request}/${header.stamp} ${nameIn(payload)}`);
  }

  /** A frame of the other side arrives. */
  receive(kind: Kind, request: number, text = "", { functionId = FUNCTION, settled = 1 } = {}): void {
    const payload = new TextEncoder().encode(text);
    const header = new FrameHeader().reset(kind, functionId);
    header.request = request;
    header.settled = settled;
    header.payloadBytes = payload.length;
    if (kind === Kind.REPLY) setExtent(header, payload.length, 0);
    const landing = payload.length > 0 ? this.channel.destination(header) : undefined;
    landing?.set(payload);
    this.channel.frame(header, landing ?? payload, 0);
  }

  reply(request: number, text = ""): void {
    this.receive(Kind.REPLY, request, text);
  }
}

function nameIn(payload: Uint8Array): string {
  return new TextDecoder().decode(payload).replaceAll("\0", "");
}

/** "REPLY 3 text" for every frame. */
function answersIn(frames: readonly StubFrame[]): string[] {
  const kinds = new Map<number, string>(Object.entries(Kind).map(([name, value]) => [value, name]));
  return frames.map(({ header, payload }) => {
    const text = nameIn(payload);
    const code = header.kind === Kind.FAILURE ? (JSON.parse(text) as { code: string }).code : text;
    return `${kinds.get(header.kind)} ${header.request} ${code}`.trimEnd();
  });
}

const dead = new WeighbridgeError("NODE_DEAD", "server 0 is dead");
const calls = (count: number, options = {}): TestCall[] => Array.from({ length: count }, (_, i) => new TestCall(`call${i + 1}`, options));
const outcomes = (list: readonly TestCall[]): string[] => list.map(({ outcome }) => outcome);

test("calls are numbered as they leave; updates are stamped, other calls are not (N1)", async () => {
  const stage = new Stage();
  await stage.send(new TestCall("a"), new TestCall("b", { isUpdate: false }), new TestCall("c"));
  assert.deepEqual(stage.left(), ["1/1 a", "2/0 b", "3/2 c"]);
});

test("calls made in one turn share a write", async () => {
  const stage = new Stage();
  await stage.send(...calls(50));
  assert.equal(stage.link.flush(), true);
  assert.equal(stage.link.flush(), false);
});

test("an answer ends its call, in whatever order answers come, and what nobody waits for is counted", async () => {
  const stage = new Stage();
  const list = calls(3);
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
  const stage = new Stage();
  const first = new TestCall("first", { room: 8 });
  await stage.send(first);
  stage.reply(1, "first");
  const others = calls(16, { room: 8 });
  await stage.send(...others);
  stage.reply(1, "again");
  for (const other of others) assert.deepEqual(other.room, new Uint8Array(8));
});

test("an answer that makes no sense fails its call, and only that", async () => {
  const stage = new Stage();
  const list = calls(2);
  await stage.send(...list);
  stage.reply(1, "nonsense");
  stage.reply(2, "fine");
  assert.deepEqual(outcomes(list), ["HANDLER_FAILED", "answered fine"]);
});

test("a failure ends its call with the code; one that cannot be read breaks the link and loses no call (N5)", async () => {
  const stage = new Stage();
  const list = calls(2);
  await stage.send(...list);
  stage.receive(Kind.FAILURE, 1, nameIn(encodeJson({ code: "ARENA_FULL", message: "no room", retryable: false })));
  assert.throws(() => stage.receive(Kind.FAILURE, 2, "{"));
  await stage.reconnect();
  stage.reply(2);
  assert.deepEqual(outcomes(list), ["ARENA_FULL", "answered"]);
});

test("after a reconnect everything unanswered leaves again, as it was, before anything new (N2)", async () => {
  const stage = new Stage();
  const list = calls(4, { isUpdate: true });
  await stage.send(...list);
  stage.left();
  stage.reply(2);
  stage.breakLink();
  await stage.send(new TestCall("new", { priority: 9 }));
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 call1", "3/3 call3", "4/4 call4", "5/5 new"]);
  assert.equal(stage.metrics.resends, 3);
});

test("calls made without a link wait for one, by priority", async () => {
  const stage = new Stage();
  stage.breakLink();
  await stage.send(new TestCall("low"), new TestCall("high", { priority: 1 }));
  await stage.reconnect();
  assert.deepEqual(stage.left(), ["1/1 high", "2/2 low"]);
});

test("on a link that never flushes no more than the bound and one frame are written (N3)", async () => {
  const limits = { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB };
  const frameBytes = HEADER_BYTES + 10 * KIB;
  const stage = new Stage({ limits });
  for (let i = 0; i < 100; i++) await stage.send(new TestCall(`call${i}`, { byteCount: 10 * KIB }));
  assert.ok(stage.link.unflushedBytes >= limits.inFlightBytesMax, "the bound is used");
  assert.ok(stage.link.unflushedBytes < limits.inFlightBytesMax + frameBytes, `${stage.link.unflushedBytes}`);
});

test("the same bound holds for a burst of calls in one turn, for answers, and for what leaves again", async () => {
  const limits = { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB };
  const bound = limits.inFlightBytesMax + HEADER_BYTES + 10 * KIB;
  const stage = new Stage({ limits });
  await stage.send(...calls(100, { byteCount: 10 * KIB }));
  assert.ok(stage.link.unflushedBytes < bound, `${stage.link.unflushedBytes}`);
  await stage.reconnect();
  assert.ok(stage.link.unflushedBytes < bound, `${stage.link.unflushedBytes}`);
  const payload = new Uint8Array(10 * KIB);
  const server = new Stage({ limits, handler: { handle: (channel, header) => channel.answerHeld(header, payload) } });
  for (let request = 1; request <= 100; request++) server.receive(Kind.REQUEST, request);
  await server.clock.run();
  assert.ok(server.link.unflushedBytes < bound, `${server.link.unflushedBytes}`);
});

test("an urgent call passes what has not been handed to the link (N3)", async () => {
  const stage = new Stage({ limits: { inFlightBytesMax: 64 * KIB, writeBytesMax: 16 * KIB } });
  await stage.send(...calls(100, { byteCount: 10 * KIB }));
  const before = stage.left().length;
  assert.ok(before < 10);
  await stage.send(new TestCall("urgent", { priority: 1 }));
  await stage.flush();
  assert.equal(
    stage.left().findIndex((line) => line.endsWith("urgent")),
    0,
  );
});

test("while too much of answers waits the link is not read; it is again when half of it left (N4)", async () => {
  let held = 0;
  const handler: FunctionHandler = {
    handle(channel, header): void {
      held++;
      channel.answerHeld(header, new Uint8Array(10 * KIB), { release: () => held-- });
    },
  };
  const stage = new Stage({ limits: { inFlightBytesMax: 20 * KIB, writeBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
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

test("acknowledgements without a payload count as well (N4)", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.acknowledge(header) };
  const stage = new Stage({ limits: { inFlightBytesMax: 1 * KIB, answerBytesMax: 4 * KIB }, handler });
  for (let request = 1; request <= 200; request++) {
    stage.receive(Kind.REQUEST, request);
    await stage.clock.run();
  }
  assert.equal(stage.link.isPaused, true);
  await stage.flush();
  assert.equal(stage.link.isPaused, false);
  assert.equal(stage.link.take().length, 200);
});

test("a link that breaks lets go of every answer, and the next one is read (N4)", async () => {
  let held = 0;
  const handler: FunctionHandler = {
    handle(channel, header): void {
      held++;
      channel.answerHeld(header, new Uint8Array(10 * KIB), { release: () => held-- });
    },
  };
  const stage = new Stage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
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

test("at most so many calls queue; beyond that QUEUE_FULL, and whoever waits for room gets it once half is free", async () => {
  const stage = new Stage({ limits: { queuedMax: 10 } });
  stage.breakLink();
  const list = calls(10);
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
  const stage = new Stage({ limits: { queuedMax: 10 } });
  stage.breakLink();
  await stage.send(...calls(5));
  assert.equal(stage.channel.admits(5), true);
  assert.equal(stage.channel.admits(100), true, "half of the queue is free: there is no better moment for so many");
  await stage.send(new TestCall("one more"));
  assert.equal(stage.channel.admits(4), true);
  assert.equal(stage.channel.admits(5), false);
  for (const call of calls(20)) stage.channel.send(call, true);
  await stage.reconnect();
  assert.equal(stage.left().length, 26);
});

test("room is there again when the calls that took it failed", async () => {
  for (const fail of ["failCalls", "end", "renew"] as const) {
    const stage = new Stage({ limits: { queuedMax: 4 } });
    stage.breakLink();
    await stage.send(...calls(4));
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
  const stage = new Stage({ limits: { pendingMax: 4 } });
  const list = calls(10);
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

test("the end of the channel fails every open call, and later ones too, never from inside send (N5)", async () => {
  const stage = new Stage();
  const list = calls(3);
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

test("a new life of the other node fails what it may have done; what means the same again is given back (N5)", async () => {
  const stage = new Stage();
  const push = new TestCall("push");
  const status = new TestCall("status", { isUpdate: false, isIdempotent: true });
  await stage.send(push, status);
  const { link } = stage;
  assert.deepEqual(stage.channel.renew(2, dead), [status]);
  assert.deepEqual(outcomes([push, status]), ["NODE_DEAD", "open"]);
  assert.deepEqual([link.isDestroyed, stage.channel.link], [true, undefined], "what the old life still says is not heard");
  stage.left();
  await stage.reconnect();
  await stage.send(status);
  assert.deepEqual(stage.left(), ["1/0 status"], "numbers begin again with a life");
});

test("calls given up leave their numbers behind: the same life goes on with the next one", async () => {
  const stage = new Stage();
  const [first, second, third] = calls(3) as [TestCall, TestCall, TestCall];
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

test("answers that wait stay when calls are given up: the other node is not dead to itself", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.answerHeld(header, new Uint8Array(10 * KIB)) };
  const stage = new Stage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler });
  for (let request = 1; request <= 10; request++) stage.receive(Kind.REQUEST, request);
  const call = new TestCall("last");
  await stage.send(call);
  stage.channel.failCalls(dead);
  assert.deepEqual([call.outcome, stage.link.isDestroyed], ["NODE_DEAD", false]);
  await stage.flush();
  assert.equal(stage.link.take().length, 10);
  assert.equal(stage.link.isPaused, false);
});

test("a gap is told once, and the missing request and all behind it leave again", async () => {
  const server = new Stage({ handler: { handle: (channel, header) => channel.acknowledge(header) } });
  for (const request of [1, 3, 4, 2, 3, 4]) server.receive(Kind.REQUEST, request);
  await server.clock.run();
  assert.deepEqual(answersIn(server.link.take()).sort(), ["NOTICE 2", "REPLY 1", "REPLY 2", "REPLY 3", "REPLY 4"]);
  assert.equal(server.metrics.gaps, 2);
  const worker = new Stage();
  await worker.send(...calls(4));
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
  const stage = new Stage({ handler });
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

test("an answer given while the link is down is there when the asker asks again", async () => {
  const handler: FunctionHandler = { handle: (channel, header) => channel.park(header.request) };
  const stage = new Stage({ handler });
  stage.receive(Kind.REQUEST, 1);
  const label = { functionId: FUNCTION, priority: 0, request: 1, app: 0, customer: 0, command: 0 };
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
  const stage = new Stage({ handler });
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
    () => new Stage().receive(Kind.HELLO, 0),
    (error) => isWeighbridgeError(error, "BAD_FRAME"),
  );
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
    const stage = new Stage({ limits: { inFlightBytesMax: 20 * KIB, answerBytesMax: 40 * KIB }, handler, faults });
    for (let request = 1; request <= 100; request++) {
      stage.receive(Kind.REQUEST, request);
      await stage.flush();
    }
    await stage.flush();
    assert.deepEqual([held, stage.link.isPaused], [0, false], JSON.stringify(faults));
  }
});
