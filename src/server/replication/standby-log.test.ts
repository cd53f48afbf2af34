// standby-log.test — Goal: a LOG has the bytes of its contract, and a standby acknowledges what it has before it
// repeats it, unless it is being filled; one that could not repeat what it acknowledged has failed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import { replicaLog } from "../../contracts/between-servers.ts";
import type { Call } from "../../peer/call.ts";
import type { Channel } from "../../peer/channel.ts";
import { EncodedFrames, PagePool } from "../../peer/frame-batch.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { throwsCode } from "../../testing/throws-code.ts";
import { FrameHeader, HEADER_BYTES, Kind } from "../../wire/frame.ts";
import { decodeHeader } from "../../wire/frame-reader.ts";
import { FunctionFlag } from "../../wire/function-id.ts";
import { idOf } from "../../wire/node-id.ts";
import { standbySink } from "./log-call.ts";
import { EntryKind, EntryPage } from "./log-entry.ts";
import type { LogWriteEnd } from "./log-sink.ts";
import { StandbyLog } from "./standby-log.ts";

const HEAD = idOf("server", 0);

/** A page of so many entries of nothing but text. */
function pageOf(count: number, textBytes = 8): Uint8Array {
  const page = new EntryPage(new Uint8Array(64 + count * (64 + textBytes)));
  for (let i = 0; i < count; i++) page.addText(EntryKind.WORKERS, new Uint8Array(textBytes).fill(32));
  return page.bytes.subarray(0, page.length);
}

type Frame = { readonly header: FrameHeader; readonly bytes: Uint8Array; readonly call: Call };

/** The frame in which a head sends these entries. */
function frameOf(first: number, entries: Uint8Array, end: LogWriteEnd = { written: () => {}, failed: () => {} }): Frame {
  const calls: Call[] = [];
  const channel = { nextCallNumber: () => 7, send: (call: Call) => calls.push(call) } as unknown as Channel;
  standbySink(channel, new SimClock()).write({ first, last: first, entries }, end);
  const call = calls[0] as Call;
  const batch = new EncodedFrames(new PagePool());
  const header = new FrameHeader();
  header.begin(Kind.REQUEST, call.functionId, call.priority, 1);
  call.encode(header, batch);
  const bytes = new Uint8Array(Buffer.concat(batch.take().chunks));
  const read = new FrameHeader();
  decodeHeader(new Uint32Array(bytes.buffer, 0, bytes.length >> 2), 0, read);
  return { header: read, bytes, call };
}

/** A standby that notes what it does. */
class Stage {
  readonly steps: string[] = [];
  readonly isStandby = true;
  isWhole = true;
  applied = 4;
  fails = false;
  readonly repeater = this;
  readonly log: StandbyLog = new StandbyLog(this);
  readonly #channel: Channel;

  constructor() {
    this.log.onDiverged = () => this.steps.push("leave");
    const answerCopy: Channel["answerCopy"] = (_label, source, from) =>
      this.steps.push(`acknowledge ${new DataView(source.buffer, source.byteOffset).getFloat64(from, true)}`);
    this.#channel = { id: HEAD, incarnation: 1, answerCopy, flush: () => {} } as unknown as Channel;
  }

  repeat(first: number, _bytes: Uint8Array, _at: number, byteCount: number): void {
    if (this.fails) throw new WeighbridgeError("ARENA_FULL", "no room");
    this.steps.push(`repeat ${first}, ${byteCount} bytes`);
    this.applied = first + 1;
  }

  take({ header, bytes }: Frame, incarnation = 1): boolean {
    return this.log.take({ ...this.#channel, incarnation } as Channel, header, bytes, HEADER_BYTES);
  }
}

for (const textBytes of [8, 8192]) {
  test(`a LOG with texts of ${textBytes} bytes is what its contract says, and is read as one (LogCall.C1)`, () => {
    const entries = pageOf(2, textBytes);
    const { header, bytes, call } = frameOf(5, entries);
    const asked = replicaLog.request.decode(bytes, HEADER_BYTES, header.payloadBytes);
    assert.deepEqual([asked.first, asked.entries, bytes.length], [5, entries, HEADER_BYTES + call.byteCount]);
    assert.deepEqual([header.command, header.arg0, header.arg3], [replicaLog.nameHash, replicaLog.signatureHash, header.payloadBytes]);
    assert.equal(new Stage().take({ header, bytes, call }), true);
  });
}

test("the answer to a LOG ends its write, and one of another length is no answer", () => {
  let written = 0;
  const { call, header } = frameOf(5, pageOf(2), { written: (last) => (written = last), failed: () => {} });
  const { chunks } = replicaLog.response.encode({ applied: 6 });
  const payload = new Uint8Array(Buffer.concat(chunks));
  assert.throws(() => call.answered(Object.assign(header, { payloadBytes: 16 }), payload, 0), throwsCode("BAD_REQUEST", /16 bytes/));
  assert.equal(call.answered(Object.assign(header, { payloadBytes: payload.length }), payload, 0), true);
  assert.equal(written, 6);
});

test("what is no LOG of one frame is left to the host of functions (LogCall.C1)", () => {
  const stage = new Stage();
  for (const change of [{ command: 1 }, { arg0: 1 }, { arg3: 1 << 22 }, { flags: FunctionFlag.PART }]) {
    const frame = frameOf(5, pageOf(2));
    Object.assign(frame.header, change);
    assert.equal(stage.take(frame), false);
  }
  assert.deepEqual(stage.steps, []);
});

test("a standby acknowledges entries when it has them, and repeats them then; also those that it knows (StandbyLog.I1)", () => {
  const stage = new Stage();
  stage.take(frameOf(5, pageOf(2)));
  stage.take(frameOf(3, pageOf(2)));
  const byteCount = pageOf(2).length;
  assert.deepEqual(stage.steps, ["acknowledge 6", `repeat 5, ${byteCount} bytes`, "acknowledge 6", `repeat 3, ${byteCount} bytes`]);
});

test("a standby that is being filled repeats entries before it acknowledges them (StandbyLog.I1)", () => {
  const stage = new Stage();
  stage.isWhole = false;
  stage.take(frameOf(5, pageOf(2)));
  assert.deepEqual(stage.steps, [`repeat 5, ${pageOf(2).length} bytes`, "acknowledge 6"]);
});

test("a standby that cannot repeat what it has acknowledged has failed, leaves, and takes nothing more (StandbyLog.I1)", () => {
  const stage = new Stage();
  stage.fails = true;
  assert.equal(stage.take(frameOf(5, pageOf(2))), true);
  assert.deepEqual([stage.steps, stage.log.hasFailed], [["acknowledge 6", "leave"], true]);
  assert.throws(() => stage.take(frameOf(7, pageOf(1))), throwsCode("HANDLER_FAILED", /entry 5 of server 0/));
  assert.equal(stage.steps.length, 2);
});

test("entries that do not add up are not acknowledged, and fail", () => {
  const stage = new Stage();
  stage.fails = true;
  const frame = frameOf(5, pageOf(2));
  frame.bytes[HEADER_BYTES + 16 + 4] = 255; // the length of the first one
  assert.throws(() => stage.take(frame), throwsCode("HANDLER_FAILED", /entry 5 of server 0/));
  assert.deepEqual(stage.steps, ["leave"]);
});

test("a standby takes the log of one incarnation of its head: at an entry of the next one it acknowledges nothing, and leaves (StandbyLog.I7)", () => {
  const stage = new Stage();
  stage.take(frameOf(5, pageOf(2)));
  stage.steps.length = 0;
  assert.throws(() => stage.take(frameOf(7, pageOf(2)), 2), throwsCode("HANDLER_FAILED", /entry 7 of server 0/));
  assert.deepEqual([stage.steps, stage.log.hasFailed], [["leave"], true]);
});
