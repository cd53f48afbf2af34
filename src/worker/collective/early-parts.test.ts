// Goal: parts that came early wait for their operation, and a sender that was restarted is neither answered nor charged
// for the parts that it sent before.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../base/errors.ts";
import type { FunctionHandler } from "../../peer/channel.ts";
import { StubCaller } from "../../testing/stub-caller.ts";
import { CollectiveKind, PARTS_OPEN_MAX } from "../../wire/collective-frame.ts";
import { EarlyParts } from "./early-parts.ts";
import { partLabel } from "./operation.ts";

const FUNCTION = 40;
const over = new WeighbridgeError("NODE_DEAD", "the generation is over");

function stage() {
  const early = new EarlyParts();
  const hold: FunctionHandler = {
    handle: (channel, header, bytes, at) => early.hold(channel, header, partLabel(header), bytes.subarray(at, at + header.payloadBytes), 1),
  };
  const sender = new StubCaller();
  sender.serve(FUNCTION, hold);
  const send = (text: string, { generation = 1, sequence = 1 } = {}) =>
    sender.receive({ flags: CollectiveKind.ALL_REDUCE, args: [generation, sequence, 4, 0], text });
  const texts = (generation: number, sequence = 1) =>
    early.take(generation, sequence).map(({ payload }) => new TextDecoder().decode(payload));
  const answers = async () => {
    await sender.clock.advance(0);
    return sender.answers();
  };
  return { early, sender, send, texts, answers };
}

test("parts are taken once, in the order they came, by the operation that they are for", async () => {
  const { send, texts, answers } = stage();
  send("a");
  send("other", { sequence: 2 });
  send("b");
  assert.deepEqual(texts(1), ["a", "b"]);
  assert.deepEqual(texts(1), []);
  assert.deepEqual(texts(1, 2), ["other"]);
  assert.deepEqual(await answers(), []);
});

test("what is refused, and what a sender's next generation makes void, is answered", async () => {
  const { early, send, texts, answers } = stage();
  send("first");
  send("next", { generation: 2 });
  assert.deepEqual(await answers(), ["FAILURE 1 NODE_DEAD"]);
  early.refuse({ generation: 2, from: 1 }, over);
  assert.deepEqual(await answers(), ["FAILURE 2 NODE_DEAD"]);
  assert.deepEqual(texts(2), []);
});

test("of one sender only so many parts of an operation are kept (EarlyParts.E1)", async () => {
  const { early, send, answers } = stage();
  for (let i = 0; i < PARTS_OPEN_MAX; i++) send("part");
  assert.deepEqual(await answers(), []);
  send("one too many");
  assert.deepEqual(await answers(), [`FAILURE ${PARTS_OPEN_MAX + 1} BAD_REQUEST`]);
  assert.equal(early.count, PARTS_OPEN_MAX);
});

test("the parts of a sender that was restarted are not taken (EarlyParts.E2)", () => {
  const { sender, send, texts } = stage();
  send("old");
  sender.restart();
  send("new");
  assert.deepEqual(texts(1), ["new"]);
});

test("parts that a sender sent before it was restarted are refused to nobody (EarlyParts.E2)", async () => {
  const { early, sender, send, answers } = stage();
  send("old");
  sender.restart();
  early.refuse({ generation: 2, from: 0 }, over);
  assert.deepEqual(await answers(), []);
  send("older generation");
  sender.restart();
  send("next generation", { generation: 2 });
  assert.deepEqual(await answers(), []);
});

test("parts that a sender sent before it was restarted take none of its room (EarlyParts.E1, EarlyParts.E2)", () => {
  const { early, sender, send } = stage();
  for (let i = 0; i < PARTS_OPEN_MAX; i++) send("old");
  sender.restart();
  send("new");
  assert.equal(early.count, 1);
});
