// Goal: whatever happens to the channel's link or a connection while requests are on their way, each ends, and none
// that left is sent again (ClientRequests.A2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { KEY_BYTES } from "../kernel/elements.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { KvFlag } from "../wire/kv-message.ts";
import { ClientRequests } from "./client-requests.ts";
import type { Conversation } from "./conversation.ts";
import { OutgoingFrame } from "./translating-batch.ts";
import { PsType, psTypeOfDtype } from "./wire/data-type.ts";
import { PsMeta } from "./wire/ps-meta.ts";

const KEY_COUNT = 2;
const PAYLOAD_BYTES = KEY_COUNT * (KEY_BYTES + 4);
const GONE = new WeighbridgeError("NODE_DEAD", "gone");

/** A conversation that notes what is sent, failed and answered. */
class Stage {
  readonly sent: number[] = [];
  readonly failed: number[] = [];
  readonly answered: number[] = [];
  readonly requests: ClientRequests;

  constructor() {
    const ignore = (): void => {};
    const conversation = {
      name: "server 8",
      host: {},
      header: new FrameHeader(),
      meta: new PsMeta(),
      outgoing: { batch: { meta: ignore, part: ignore, copy: ignore, add: ignore } },
      endMessage: ({ timestamp }: PsMeta) => this.sent.push(timestamp),
      fail: (request: number) => this.failed.push(request),
      payload: { deliver: ({ request }: FrameHeader) => this.answered.push(request) },
    };
    this.requests = new ClientRequests(conversation as unknown as Conversation);
  }

  take(
    functionId: number,
    at: { readonly request: number; readonly timestamp: number; readonly flags?: number; readonly keyCount?: number },
  ): void {
    const frame = new OutgoingFrame();
    frame.header.reset(Kind.REQUEST, functionId);
    frame.header.request = at.request;
    frame.header.flags = at.flags ?? KvFlag.FIRST | KvFlag.LAST;
    frame.header.arg0 = at.keyCount ?? KEY_COUNT;
    frame.header.arg1 = 1;
    frame.header.arg3 = at.timestamp;
    frame.header.payloadBytes = PAYLOAD_BYTES;
    frame.page = new Uint8Array(PAYLOAD_BYTES);
    frame.inlineBytes = PAYLOAD_BYTES;
    this.requests.take(frame);
  }

  respond(timestamp: number, hasParts: boolean): ReturnType<ClientRequests["response"]> {
    const meta = new PsMeta();
    meta.appId = 0;
    meta.customerId = 0;
    meta.timestamp = timestamp;
    meta.dataTypes.push(PsType.UINT64, psTypeOfDtype(0));
    return this.requests.response(meta, hasParts);
  }
}

test("a request that left fails when the link with the channel ends, and a response to it is left out (ClientRequests.A2, ClientRequests.A3)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 });
  stage.requests.forget();
  assert.deepEqual([stage.sent, stage.failed], [[1], [5]]);
  stage.respond(1, false);
  stage.requests.forget();
  assert.deepEqual([stage.answered, stage.failed], [[], [5]]);
  stage.take(FunctionId.KV_PUSH, { request: 6, timestamp: 2 });
  assert.deepEqual(stage.sent, [1, 2], "the next one is sent");
});

test("an answer that says it failed, but cannot be read, fails its request (ClientRequests.A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 });
  const answer = Object.assign(new PsMeta(), { appId: 0, customerId: 0, timestamp: 1, push: true, pull: true });
  answer.body = new TextEncoder().encode("no failure of ours");
  stage.requests.response(answer, false);
  assert.deepEqual([stage.answered, stage.failed], [[], [5]]);
});

test("a request that was answered before the link ended does not fail", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 });
  stage.respond(1, false);
  stage.requests.forget();
  assert.deepEqual([stage.answered, stage.failed], [[5], []]);
});

test("a request whose response was coming in when the link ended fails (ClientRequests.A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PULL, { request: 6, timestamp: 3 });
  assert.ok(stage.respond(3, true) !== undefined);
  stage.requests.forget();
  assert.deepEqual([stage.sent, stage.failed], [[3], [6]]);
});

test("a request that had not left whole when the link ended is put together again over the next one", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST });
  stage.requests.forget();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST });
  assert.deepEqual([stage.sent, stage.failed], [[], []]);
  stage.take(FunctionId.KV_PUSH, { request: 8, timestamp: 4, flags: KvFlag.LAST });
  assert.deepEqual([stage.sent, stage.failed], [[4], []]);
  stage.respond(4, false);
  assert.deepEqual(stage.answered, [7, 8]);
  stage.requests.fail(GONE);
  assert.deepEqual(stage.failed, [], "it has ended");
});

test("the end of a request whose beginning went with the link before fails, and nothing of it is sent (ClientRequests.A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST });
  stage.requests.forget();
  stage.take(FunctionId.KV_PUSH, { request: 8, timestamp: 4, flags: KvFlag.LAST });
  assert.deepEqual([stage.sent, stage.failed], [[], [8]]);
});

test("when a connection broke all that is open fails, frames that were being put together too, and responses to it are left out (ClientRequests.A2, ClientRequests.A3)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 1, timestamp: 1 });
  stage.take(FunctionId.KV_PULL, { request: 2, timestamp: 2 });
  stage.take(FunctionId.KV_PUSH, { request: 3, timestamp: 3, flags: KvFlag.FIRST });
  stage.take(FunctionId.KV_PUSH, { request: 4, timestamp: 3, flags: 0 });
  stage.requests.fail(GONE);
  assert.deepEqual(
    stage.failed.toSorted((a, b) => a - b),
    [1, 2, 3, 4],
  );
  stage.respond(1, false);
  assert.deepEqual(stage.answered, []);
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 3, flags: KvFlag.LAST });
  assert.equal(stage.failed.at(-1), 5);
  assert.deepEqual(stage.sent, [1, 2]);
});

test("a request that its sender withdraws fails, the frames that waited for the rest of it too, and nothing of it is sent", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 1, timestamp: 1, flags: KvFlag.FIRST });
  stage.take(FunctionId.KV_PUSH, { request: 2, timestamp: 1, flags: KvFlag.LAST, keyCount: 0 });
  stage.take(FunctionId.KV_PUSH, { request: 3, timestamp: 2, keyCount: 0 });
  stage.take(FunctionId.KV_PUSH, { request: 4, timestamp: 3 });
  assert.deepEqual([stage.sent, stage.failed], [[3], [1, 2, 3]]);
});
