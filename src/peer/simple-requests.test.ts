// Goal: a SIMPLE request reaches its application whole and once, and its answer or error comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { simpleRequest } from "../contracts/kv.ts";
import { StubCaller } from "../testing/stub-caller.ts";
import { BLOCK_BYTES, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionFlag, FunctionId } from "../wire/function-id.ts";
import { BODY_BYTES_MAX, checkBody } from "../wire/simple-frame.ts";
import { AppRegistry, simpleHost } from "./app-registry.ts";
import { frameCountOf, functionCalls } from "./function-call.ts";

/** A node with one application, which answers when the test says so. */
function stage() {
  const caller = new StubCaller();
  const served: { readonly body: Uint8Array; readonly answer: Deferred<Uint8Array> }[] = [];
  const apps = new AppRegistry({ clock: caller.clock });
  const host = simpleHost(caller.clock, (_channel, body) => {
    const answer = new Deferred<Uint8Array>();
    served.push({ body, answer });
    return answer.promise;
  });
  apps.add(0, host);
  caller.serve(FunctionId.SIMPLE, apps);
  /** A frame of a body: `byteCount` bytes from `from` on, of `total`. */
  const part = (from: number, byteCount: number, total: number, number = 1) => ({
    flags: from + byteCount < total ? FunctionFlag.PART : 0,
    args: [0, number, from, total],
    payload: Uint8Array.from({ length: byteCount }, (_, i) => from + i),
  });
  return { caller, served, part };
}

test("a request is served once and its body is the application's to keep; a duplicate gets the same answer", async () => {
  const { caller, served } = stage();
  const payload = Uint8Array.of(1, 2, 3);
  await caller.request({ payload, request: 1 });
  payload.fill(0);
  await caller.request({ payload, request: 1 });
  assert.deepEqual(caller.answers(), []);
  served[0]?.answer.resolve(Uint8Array.of(4));
  await caller.clock.run();
  await caller.request({ payload, request: 1 });
  assert.deepEqual(
    caller.frames().map((frame) => [...frame.payload]),
    [[4], [4]],
  );
  assert.equal(served.length, 1);
  assert.deepEqual(served[0]?.body, Uint8Array.of(1, 2, 3));
});

test("what is sent says app, customer and head", async () => {
  const caller = new StubCaller();
  const calls = functionCalls({
    ...{ fn: simpleRequest, request: { body: Uint8Array.of(9) }, number: 1, priority: 0, scope: 0 },
    ...{ address: { app: 3, customer: 4, command: -5 }, answered: () => assert.fail(), failed: () => assert.fail() },
  });
  for (const call of calls) caller.channel.send(call);
  await caller.clock.run();
  const [frame] = caller.frames();
  const { functionId, app, customer, command, stamp, arg1, arg3 } = frame?.header ?? assert.fail("nothing was sent");
  assert.deepEqual([functionId, app, customer, command, stamp, arg1, arg3], [FunctionId.SIMPLE, 3, 4, -5, 1, 0, 0]);
  assert.deepEqual(frame?.payload, Uint8Array.of(9));
});

test("a body is one frame up to a frame's limit, and is cut into blocks beyond it, up to 64 MiB", () => {
  const lengths = (byteCount: number): number[] =>
    functionCalls({
      ...{ fn: simpleRequest, request: { body: new Uint8Array(byteCount) }, number: 1, priority: 0, scope: 0 },
      ...{ answered: () => assert.fail(), failed: () => assert.fail() },
    }).map((call) => call.byteCount);
  assert.deepEqual([lengths(0), lengths(PAYLOAD_BYTES_MAX)], [[0], [PAYLOAD_BYTES_MAX]]);
  assert.deepEqual(lengths(PAYLOAD_BYTES_MAX + 1), [BLOCK_BYTES, BLOCK_BYTES, 1]);
  assert.deepEqual([0, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1].map(frameCountOf), [1, 1, 3]);
  checkBody(new Uint8Array(BODY_BYTES_MAX));
  assert.throws(() => checkBody(new Uint8Array(BODY_BYTES_MAX + 1)), /over the limit of 67108864/);
});

test("a body in several frames is served whole, once, after the last, while others come in between (RequestAssembly.G1)", async () => {
  const { caller, served, part } = stage();
  await caller.request(part(0, 3, 6, 1));
  await caller.request({ ...part(0, 3, 6, 1), request: 1 });
  await caller.request(part(0, 2, 4, 2));
  assert.deepEqual(caller.answers(), ["REPLY 1", "REPLY 1", "REPLY 2"]);
  await caller.request(part(3, 3, 6, 1));
  await caller.request({ text: "short" });
  await caller.request(part(2, 2, 4, 2));
  assert.deepEqual(
    served.map(({ body }) => [...body]),
    [[0, 1, 2, 3, 4, 5], [...new TextEncoder().encode("short")], [0, 1, 2, 3]],
  );
  assert.deepEqual(caller.answers(), []);
});

test("frames of a body that do not fit together are refused, and so is what follows of it (RequestAssembly.G2)", async () => {
  const { caller, served, part } = stage();
  await caller.request(part(3, 3, 6));
  await caller.request(part(0, 3, 9));
  await caller.request(part(6, 2, 9)); // a hole
  await caller.request(part(8, 1, 9));
  await caller.request({ ...part(0, 3, 9, 2), flags: 0 }); // the end of it, but not all
  await caller.request({ ...part(0, 3, 3, 3), flags: FunctionFlag.PART }); // all of it, but not the end
  await caller.request(part(0, 1, BODY_BYTES_MAX + 1));
  const bad = (request: number): string => `FAILURE ${request} BAD_REQUEST`;
  assert.deepEqual(caller.answers(), [bad(1), "REPLY 2", bad(3), bad(4), bad(5), bad(6), bad(7)]);
  assert.equal(served.length, 0);
});
