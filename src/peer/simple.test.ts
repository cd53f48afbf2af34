// Goal: a SIMPLE request reaches its server whole and once, and its answer or error comes back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StubAsker } from "../testing/stub-asker.ts";
import { BLOCK_BYTES, PAYLOAD_BYTES_MAX } from "../wire/frame.ts";
import { FunctionId } from "../wire/function-id.ts";
import { BODY_BYTES_MAX, bodyParts, checkBody, SimpleFlag } from "../wire/simple-frame.ts";
import { answerSimple, type SimpleRequest, sendSimple, simpleHandler } from "./simple.ts";
import { SimpleBodies } from "./simple-bodies.ts";

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

test("a body is one frame up to a frame's limit, and is cut into blocks beyond it, up to 64 MiB", () => {
  const lengths = (byteCount: number): number[] => bodyParts(new Uint8Array(byteCount)).map(({ length }) => length);
  assert.deepEqual([lengths(0), lengths(PAYLOAD_BYTES_MAX)], [[0], [PAYLOAD_BYTES_MAX]]);
  assert.deepEqual(lengths(PAYLOAD_BYTES_MAX + 1), [BLOCK_BYTES, BLOCK_BYTES, 1]);
  checkBody(new Uint8Array(BODY_BYTES_MAX));
  assert.throws(() => checkBody(new Uint8Array(BODY_BYTES_MAX + 1)), /over the limit of 67108864/);
});

/** A server of bodies, and a frame of one: `byteCount` bytes from `from` on, of `total`. */
function stage() {
  const asker = new StubAsker();
  const served: SimpleRequest[] = [];
  const bodies = new SimpleBodies(
    simpleHandler((request) => served.push(request)),
    asker.clock,
  );
  asker.serve(FunctionId.SIMPLE, bodies);
  const part = (from: number, byteCount: number, total: number, number = 1) => ({
    flags: from + byteCount < total ? SimpleFlag.PART : 0,
    args: [0, number, from, total],
    payload: Uint8Array.from({ length: byteCount }, (_, i) => from + i),
  });
  return { asker, served, part };
}

test("a body in several frames is served whole, once, after the last, while others come in between (B1)", async () => {
  const { asker, served, part } = stage();
  await asker.request(part(0, 3, 6, 1));
  await asker.request({ ...part(0, 3, 6, 1), request: 1 });
  await asker.request(part(0, 2, 4, 2));
  assert.deepEqual(asker.answers(), ["REPLY 1", "REPLY 1", "REPLY 2"]);
  await asker.request(part(3, 3, 6, 1));
  await asker.request({ text: "short" });
  await asker.request(part(2, 2, 4, 2));
  assert.deepEqual(
    served.map(({ body }) => [...body]),
    [[0, 1, 2, 3, 4, 5], [...new TextEncoder().encode("short")], [0, 1, 2, 3]],
  );
  assert.deepEqual(asker.answers(), []);
});

test("frames of a body that do not fit together are refused, and so is what follows of it (B2, B3)", async () => {
  const { asker, served, part } = stage();
  await asker.request(part(3, 3, 6));
  await asker.request(part(0, 3, 9));
  await asker.request(part(6, 2, 9)); // a hole
  await asker.request(part(8, 1, 9));
  await asker.request({ ...part(0, 3, 9, 2), flags: 0 }); // the end of it, but not all
  await asker.request({ ...part(0, 3, 3, 3), flags: SimpleFlag.PART }); // all of it, but not the end
  await asker.request(part(0, 1, BODY_BYTES_MAX + 1));
  const bad = (request: number): string => `FAILURE ${request} BAD_REQUEST`;
  assert.deepEqual(asker.answers(), [bad(1), "REPLY 2", bad(3), bad(4), bad(5), bad(6), bad(7)]);
  assert.equal(served.length, 0);
});
