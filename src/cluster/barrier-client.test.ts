// barrier-client.test — Goal: a node never enters a barrier twice, and never skips one that it gave up waiting for.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Deferred } from "../base/deferred.ts";
import { WeighbridgeError } from "../base/errors.ts";
import { SimClock } from "../testing/sim-clock.ts";
import type { BarrierReply, BarrierRequest } from "../wire/control.ts";
import { BarrierClient } from "./barrier-client.ts";

function barrierClient({ isLate = false } = {}) {
  const clock = new SimClock();
  const entries: (BarrierRequest & { readonly reply: Deferred<BarrierReply> })[] = [];
  const client = new BarrierClient({
    clock,
    isLate,
    enter: (request) => {
      const reply = new Deferred<BarrierReply>();
      entries.push({ ...request, reply });
      return reply.promise;
    },
  });
  const rounds = (): number[] => entries.map(({ round }) => round);
  return { clock, client, entries, rounds };
}

test("enters the next round after each that it passed", async () => {
  const { client, entries, rounds } = barrierClient();
  for (let round = 1; round <= 3; round++) {
    const passed = client.pass(4, 0);
    entries.at(-1)?.reply.resolve({ round });
    await passed;
  }
  assert.deepEqual(rounds(), [1, 2, 3]);
});

test("a node that came late asks for any round first, and knows them from then on", async () => {
  const { client, entries, rounds } = barrierClient({ isLate: true });
  const passed = client.pass(4, 0);
  entries[0]?.reply.resolve({ round: 6 });
  await passed;
  client.pass(4, 0).catch(() => {});
  assert.deepEqual(rounds(), [0, 7]);
});

test("who asks while the node stands there already waits for the same entry (BarrierClient.W1)", async () => {
  const { client, entries, rounds } = barrierClient();
  const both = Promise.all([client.pass(4, 0), client.pass(4, 0)]);
  const other = client.pass(4, 1);
  assert.deepEqual(rounds(), [1, 1]);
  for (const { reply } of entries) reply.resolve({ round: 1 });
  await both;
  await other;
});

test("who gave up comes back to the same barrier, and passes at once if it was passed meanwhile (BarrierClient.W2)", async () => {
  const { clock, client, entries, rounds } = barrierClient();
  await assert.rejects(clock.runUntil(client.pass(4, 0, { timeoutMs: 10 })), { code: "DEADLINE" });
  await assert.rejects(clock.runUntil(client.pass(4, 0, { timeoutMs: 10 })), { code: "DEADLINE" });
  entries[0]?.reply.resolve({ round: 1 });
  await clock.runUntil(client.pass(4, 0, { timeoutMs: 10 }));
  assert.deepEqual(rounds(), [1]);
  client.pass(4, 0).catch(() => {});
  assert.deepEqual(rounds(), [1, 2]);
});

test("a barrier that failed is entered again with the same round (BarrierClient.W3)", async () => {
  const { client, entries, rounds } = barrierClient();
  const passed = client.pass(4, 0);
  entries[0]?.reply.reject(new WeighbridgeError("NODE_DEAD", "worker 1 died"));
  await assert.rejects(passed, { code: "NODE_DEAD" });
  client.pass(4, 0).catch(() => {});
  assert.deepEqual(rounds(), [1, 1]);
});

test("a failure that nobody waited for is not kept for the next call", async () => {
  const { clock, client, entries, rounds } = barrierClient();
  await assert.rejects(clock.runUntil(client.pass(4, 0, { timeoutMs: 10 })), { code: "DEADLINE" });
  entries[0]?.reply.reject(new WeighbridgeError("NODE_DEAD", "worker 1 died"));
  await clock.advance(1);
  client.pass(4, 0).catch(() => {});
  assert.deepEqual(rounds(), [1, 1]);
});

test("a wait can be aborted", async () => {
  const { client } = barrierClient();
  const controller = new AbortController();
  const passed = client.pass(4, 0, { signal: controller.signal });
  controller.abort();
  await assert.rejects(passed, { code: "ABORTED" });
});
