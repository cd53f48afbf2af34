// Goal: what is open at a server that has left in order, its parts at others, is cut again by the newer placement; only
// an update that had departed, and was neither answered nor refused, fails, and says that it may count (Router.R9).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../base/errors.ts";
import { sspSync } from "../contracts/beside-parameters.ts";
import { Arena } from "../kernel/arena.ts";
import { RouterStage } from "../testing/router-stage.ts";
import { throwsCode } from "../testing/throws-code.ts";
import type { Embedding } from "./embedding.ts";
import { RowPlanner } from "./router/row-plan.ts";

const ARENA = new Arena({ shared: false, bytesMax: 2 ** 24 });
const KEYS = BigUint64Array.from({ length: 40 }, (_, i) => BigInt(i * 97));
const ONES = new Float32Array(2 * KEYS.length).fill(1);

function started(): { readonly stage: RouterStage; readonly table: Embedding } {
  const stage = new RouterStage(3);
  return { stage, table: stage.table("rows", 1, new RowPlanner(ARENA, stage.router, 7)) };
}

test("reads, and updates that had not departed, are cut again: none fails, each counts once, and a read sees the updates before it", async () => {
  const { stage, table } = started();
  const pushes = [table.push(KEYS, ONES), table.push(KEYS, ONES)];
  const read = table.pull(KEYS);
  await stage.leave(1, 0);
  const later = table.push(KEYS, ONES);
  const last = table.pull(KEYS);
  await stage.drain();
  await Promise.all([...pushes, later]);
  assert.ok((await read).every((sum) => sum >= 2));
  assert.deepEqual([...new Set(await last)], [3]);
  assert.equal(stage.queueOf(1).length, 0);
  assert.equal(stage.router.openUpdates, 0);
});

test("a read that had departed is cut again", async () => {
  const { stage, table } = started();
  const pushed = table.push(KEYS, ONES);
  await stage.drain();
  await pushed;
  const read = table.pull(KEYS);
  await stage.leave(1, 1);
  await stage.drain();
  assert.deepEqual([...new Set(await read)], [1]);
});

test("an update that had departed fails as one that may count, once; what waited for it goes on, and counts", async () => {
  const { stage, table } = started();
  const lost = table.push(KEYS, ONES);
  const after = table.push(KEYS, ONES);
  await stage.leave(1, 1);
  await stage.drain();
  await assert.rejects(lost, (error: unknown) => {
    assert.ok(isWeighbridgeError(error, "LINK_LOST") && !error.retryable, String(error));
    assert.match(error.message, /server 1 has left: the update had left and may have been applied, once at most; it is not sent again/);
    return true;
  });
  await after;
  const read = table.pull(KEYS);
  await stage.drain();
  assert.deepEqual(new Set(await read), new Set([1, 2]), "those of server 1 did not count");
  assert.equal(stage.router.openUpdates, 0);
});

test("a call that names the server fails: it has left", async () => {
  const { stage } = started();
  const call = stage.functions.call(sspSync, { server: 1 }, { group: 1n, size: 0, tolerance: 0, version: 1 });
  await stage.clock.advance(0);
  const failed = assert.rejects(call, throwsCode("NODE_DEAD"));
  await stage.leave(1, 0);
  await failed;
});

test("a server that is gone though the placement has it fails all that is open there", async () => {
  const { stage, table } = started();
  const read = table.pull(KEYS);
  const failed = assert.rejects(read, throwsCode("NODE_DEAD", /server 1 has left/));
  await stage.clock.advance(0);
  stage.name(1);
  await stage.drain();
  await failed;
});
