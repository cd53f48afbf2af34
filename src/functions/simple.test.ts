// Goal: a SIMPLE request reaches its server whole and once, and its answer or error comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubAsker } from "../testing/stub-asker.ts";
import { PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { answerSimple, checkBody, type SimpleRequest, sendSimple, simpleHandler } from "./simple.ts";

test("a request is served once and its body is the server's to keep; a duplicate gets the same answer", async () => {
  const asker = new StubAsker();
  const served: SimpleRequest[] = [];
  asker.serve(
    FunctionId.SIMPLE,
    simpleHandler((request) => served.push(request)),
  );
  const payload = Uint8Array.of(1, 2, 3);
  await asker.request({ payload, request: 1 });
  payload.fill(0);
  await asker.request({ payload, request: 1 });
  assert.deepEqual(asker.answers(), []);
  const [request] = served as [SimpleRequest];
  answerSimple(request, Uint8Array.of(4));
  await asker.request({ payload, request: 1 });
  assert.deepEqual(
    asker.frames().map((frame) => [...frame.payload]),
    [[4], [4]],
  );
  assert.equal(served.length, 1);
  assert.deepEqual(request.body, Uint8Array.of(1, 2, 3));
});

test("what is sent says app, customer and head", async () => {
  const asker = new StubAsker();
  sendSimple(asker.channel, { app: 3, customer: 4, head: -5 }, Uint8Array.of(9), () => assert.fail("nobody answered"));
  await asker.clock.run();
  const [frame] = asker.frames();
  const { functionId, app, customer, command, stamp } = frame?.header ?? assert.fail("nothing was sent");
  assert.deepEqual([functionId, app, customer, command, stamp], [FunctionId.SIMPLE, 3, 4, -5, 0]);
  assert.deepEqual(frame?.payload, Uint8Array.of(9));
});

test("a body is one frame at most", () => {
  checkBody(new Uint8Array(PAYLOAD_BYTES_MAX));
  assert.throws(() => checkBody(new Uint8Array(PAYLOAD_BYTES_MAX + 1)), /over the limit/);
});
