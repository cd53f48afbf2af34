// Goal: a request that waits is handled once, and only while its caller waits for the answer, whoever keeps it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../base/errors.ts";
import { StubCaller } from "../testing/stub-caller.ts";
import type { FunctionHandler } from "./channel.ts";
import { KeptRequest } from "./kept-request.ts";

const FUNCTION = 40;
const gone = new WeighbridgeError("NODE_DEAD", "it is gone");

/** A caller whose requests are all kept. */
function stage(): { readonly caller: StubCaller; readonly kept: KeptRequest[] } {
  const kept: KeptRequest[] = [];
  const keep: FunctionHandler = { handle: (channel, header) => void kept.push(new KeptRequest(channel, header)) };
  const caller = new StubCaller();
  caller.serve(FUNCTION, keep);
  return { caller, kept };
}

test("a kept request is answered later, and its duplicates are ignored until then", async () => {
  const { caller, kept } = stage();
  await caller.request({});
  await caller.request({ request: 1 });
  assert.equal(kept.length, 1);
  assert.equal(caller.channel.parkedCount, 1);
  const [request] = kept;
  request?.serve(() => caller.channel.acknowledge(request.label));
  await caller.clock.advance(0);
  assert.deepEqual([caller.answers(), caller.channel.parkedCount], [["REPLY 1"], 0]);
});

test("what handling it throws, and what refuses it, goes to the caller", async () => {
  const { caller, kept } = stage();
  await caller.request({});
  await caller.request({});
  kept[0]?.serve(() => {
    throw new WeighbridgeError("BAD_REQUEST", "no");
  });
  kept[1]?.fail(gone);
  await caller.clock.advance(0);
  assert.deepEqual([caller.answers(), caller.channel.parkedCount], [["FAILURE 1 BAD_REQUEST", "FAILURE 2 NODE_DEAD"], 0]);
});

for (const [what, end] of [
  ["the caller was restarted", (caller: StubCaller) => caller.restart()],
  ["its channel has ended", (caller: StubCaller) => caller.channel.end(gone)],
] as const)
  test(`once ${what} it is neither handled nor answered (KeptRequest.K1)`, async () => {
    const { caller, kept } = stage();
    await caller.request({});
    await caller.request({});
    end(caller);
    assert.deepEqual(
      kept.map(({ isOpen }) => isOpen),
      [false, false],
    );
    kept[0]?.serve(() => assert.fail("it was handled"));
    kept[1]?.fail(gone);
    await caller.clock.advance(0);
    assert.deepEqual([caller.answers(), caller.channel.parkedCount], [[], what.startsWith("its") ? 2 : 0]);
  });
