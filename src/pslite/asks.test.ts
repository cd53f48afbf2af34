// Goal: whatever happens to the link or the line while requests are on their way, each ends, and none that left is sent again (A2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { FrameHeader, Kind } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { KEY_BYTES, KvFlag } from "../wire/kv-message.ts";
import { Asks } from "./asks.ts";
import type { Envoy } from "./envoy.ts";
import { PsType, psTypeOfDtype } from "./wire/data-type.ts";
import { PsMeta } from "./wire/ps-meta.ts";
import { WrittenFrame } from "./written-frames.ts";

const KEY_COUNT = 2;
const PAYLOAD_BYTES = KEY_COUNT * (KEY_BYTES + 4);
const GONE = new WeighbridgeError("NODE_DEAD", "gone");

/** An envoy that notes what is sent, failed and answered. */
class Stage {
  readonly sent: number[] = [];
  readonly failed: number[] = [];
  readonly answered: number[] = [];
  readonly asks: Asks;

  constructor() {
    const ignore = (): void => {};
    const envoy = {
      name: "server 8",
      host: {},
      header: new FrameHeader(),
      meta: new PsMeta(),
      line: { batch: { meta: ignore, part: ignore, copy: ignore, attach: ignore } },
      endMessage: ({ timestamp }: PsMeta) => this.sent.push(timestamp),
      failRequest: ({ request }: { readonly request: number }) => this.failed.push(request),
      feed: { begin: ({ request }: FrameHeader) => this.answered.push(request) },
    };
    this.asks = new Asks(envoy as unknown as Envoy);
  }

  take(
    functionId: number,
    at: { readonly request: number; readonly timestamp: number; readonly flags?: number; readonly keyCount?: number },
    isNew = true,
  ): void {
    const frame = new WrittenFrame();
    frame.header.reset(Kind.REQUEST, functionId);
    frame.header.request = at.request;
    frame.header.flags = at.flags ?? KvFlag.FIRST | KvFlag.LAST;
    frame.header.arg0 = at.keyCount ?? KEY_COUNT;
    frame.header.arg1 = 1;
    frame.header.arg3 = at.timestamp;
    frame.header.payloadBytes = PAYLOAD_BYTES;
    frame.page = new Uint8Array(PAYLOAD_BYTES);
    frame.inlineBytes = PAYLOAD_BYTES;
    this.asks.take(frame, isNew);
  }

  respond(timestamp: number, hasParts: boolean): ReturnType<Asks["response"]> {
    const meta = new PsMeta();
    meta.appId = 0;
    meta.customerId = 0;
    meta.timestamp = timestamp;
    meta.dataTypes.push(PsType.UINT64, psTypeOfDtype(0));
    return this.asks.response(meta, hasParts);
  }
}

test("a request that left fails once when it is repeated over the next link, and is not sent again; a new one of that number is (A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 });
  stage.asks.forget();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 }, false);
  assert.deepEqual([stage.sent, stage.failed], [[1], [5]]);
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 }, false);
  assert.deepEqual([stage.sent, stage.failed], [[1, 1], [5]], "it was told already: this is another one");
  stage.asks.forget();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 2 });
  assert.deepEqual([stage.sent, stage.failed], [[1, 1, 2], [5]], "no repetition");
});

test("a request that was answered before the link ended is not taken for a lost one", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 1 });
  stage.respond(1, false);
  assert.deepEqual(stage.answered, [5]);
  stage.asks.forget();
  stage.take(FunctionId.KV_PUSH, { request: 5, timestamp: 2 }, false);
  assert.deepEqual([stage.sent, stage.failed], [[1, 2], []]);
});

test("a request whose response was coming in when the link ended fails when it is repeated (A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PULL, { request: 6, timestamp: 3 });
  assert.ok(stage.respond(3, true) !== undefined);
  stage.asks.forget();
  stage.take(FunctionId.KV_PULL, { request: 6, timestamp: 3 }, false);
  assert.deepEqual([stage.sent, stage.failed], [[3], [6]]);
});

test("a request that had not left whole when the link ended is put together again over the next one", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST });
  stage.asks.forget();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST }, false);
  assert.deepEqual([stage.sent, stage.failed], [[], []]);
  stage.take(FunctionId.KV_PUSH, { request: 8, timestamp: 4, flags: KvFlag.LAST }, false);
  assert.deepEqual([stage.sent, stage.failed], [[4], []]);
  stage.respond(4, false);
  assert.deepEqual(stage.answered, [7, 8]);
  stage.asks.fail(GONE);
  assert.deepEqual(stage.failed, [], "it has ended");
});

test("the end of a request whose beginning went with the link before fails, and nothing of it is sent (A2)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 7, timestamp: 4, flags: KvFlag.FIRST });
  stage.asks.forget();
  stage.take(FunctionId.KV_PUSH, { request: 8, timestamp: 4, flags: KvFlag.LAST });
  assert.deepEqual([stage.sent, stage.failed], [[], [8]]);
});

test("when the line broke all that is open fails, frames that were being put together too, and responses to it are left out (A2, A3)", () => {
  const stage = new Stage();
  stage.take(FunctionId.KV_PUSH, { request: 1, timestamp: 1 });
  stage.take(FunctionId.KV_PULL, { request: 2, timestamp: 2 });
  stage.take(FunctionId.KV_PUSH, { request: 3, timestamp: 3, flags: KvFlag.FIRST });
  stage.take(FunctionId.KV_PUSH, { request: 4, timestamp: 3, flags: 0 });
  stage.asks.fail(GONE);
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
