// checkpoint — Goal: a checkpoint is of one placement: cuts that servers made in different epochs are made again, or
// none is taken; whatever ranks they have.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError, WeighbridgeError } from "../base/errors.ts";
import { checkpointSave, type Frozen } from "../contracts/checkpoints.ts";
import type { Contract } from "../contracts/contract.ts";
import { restoreCheckpoint, type ServerCalls, takeCheckpoint } from "./checkpoint.ts";

const createdAt = "2026-01-02T03:04:05.678Z";

/**
 * Two servers without parameters, of ranks that are not neighbours, which make cuts in these epochs, one pair after the
 * other; then the clock is over.
 */
class Servers implements ServerCalls {
  readonly servers = [2, 5];
  readonly asked: string[] = [];
  /** Those of the placement, as the first cut finds it: then it has `servers` alone. */
  placed: readonly number[] = [2, 5];
  /** What the first server was given to write. */
  manifest: unknown;
  readonly #epochs: (readonly [number, number])[];

  constructor(...epochs: readonly (readonly [number, number])[]) {
    this.#epochs = [...epochs];
  }

  call: ServerCalls["call"] = (async (server: number, { name }: Contract, request: { readonly manifest?: unknown }) => {
    this.asked.push(`${name.replace("wb/checkpoint/", "")} ${server}`);
    if (name === checkpointSave.cut.name) return this.#cut(server);
    if (name === checkpointSave.begin.name) return { pending: "step-3", step: 3 };
    if (name === checkpointSave.survey.name) return { clockMin: 3, names: [], gone: [] };
    if (name === checkpointSave.write.name)
      return { record: { rank: server, files: [], vectorClock: [], state: {} }, parameters: [], workers: [] };
    if (name === checkpointSave.commit.name) this.manifest = request.manifest;
    return name === checkpointSave.commit.name ? { path: "step-3", warning: undefined } : {};
  }) as ServerCalls["call"];

  #cut(server: number): Frozen {
    const at = this.servers.indexOf(server);
    const epochs = at === 1 ? this.#epochs.shift() : this.#epochs[0];
    if (epochs === undefined) throw new WeighbridgeError("BAD_ARGUMENT", "clock 3 is over", { retryable: true });
    const servers = Uint32Array.from(this.placed);
    if (at === 1) this.placed = this.servers;
    return { names: [], run: "run", epoch: epochs[at] as number, servers };
  }
}

test("cuts that servers made in different epochs are abandoned and made again, and whoever waits for the cut hears of the last one alone (Checkpoint.C6)", async () => {
  const servers = new Servers([1, 2], [2, 2]);
  let cuts = 0;
  const onCut = (): void => {
    cuts++;
    assert.ok(servers.asked.includes("abandon 2") && servers.asked.includes("abandon 5"));
  };
  assert.equal((await takeCheckpoint(servers, { createdAt, clock: 3, onCut })).step, 3);
  assert.equal(cuts, 1);
  assert.equal(servers.asked.filter((call) => call === "cut 2").length, 2);
});

test("cuts of one epoch that has another server than those that were asked are abandoned and made again (Checkpoint.C6)", async () => {
  const servers = new Servers([2, 2], [3, 3]);
  servers.placed = [2, 5, 6];
  assert.equal((await takeCheckpoint(servers, { createdAt, clock: 3 })).step, 3);
  assert.equal(servers.asked.filter((call) => call === "cut 2").length, 2);
});

test("when the clock is over by then, or the placement goes on changing, no checkpoint is taken: WRONG_EPOCH, retryable, says why (Checkpoint.C6)", async () => {
  const ever = Array.from({ length: 100 }, (_, i) => [i, i + 1] as const);
  for (const servers of [new Servers([1, 2]), new Servers(...ever)]) {
    const isRefused = (error: unknown): boolean =>
      isWeighbridgeError(error, "WRONG_EPOCH") && error.retryable && /parts moved between servers/.test(error.message);
    await assert.rejects(takeCheckpoint(servers, { createdAt, clock: 3 }), isRefused);
    assert.ok(!servers.asked.some((call) => call.startsWith("commit")));
  }
});

test("servers may have any ranks: all are asked, the first one commits, and the manifest lists them", async () => {
  const servers = new Servers([2, 2]);
  await takeCheckpoint(servers, { createdAt, clock: 3 });
  for (const call of ["cut 2", "cut 5", "begin 2", "write 2", "write 5", "commit 2"]) assert.ok(servers.asked.includes(call), call);
  assert.ok(!servers.asked.some((call) => ["begin 5", "commit 5"].includes(call)));
  const { serverCount, servers: records } = servers.manifest as { serverCount: number; servers: readonly { readonly rank: number }[] };
  assert.deepEqual([serverCount, records.map(({ rank }) => rank)], [2, [2, 5]]);
});

test("without servers there is no checkpoint: NO_ROUTE", async () => {
  const none: ServerCalls = { servers: [], call: () => assert.fail("nobody is asked") };
  await assert.rejects(takeCheckpoint(none, { createdAt }), (error) => isWeighbridgeError(error, "NO_ROUTE"));
  await assert.rejects(restoreCheckpoint(none), (error) => isWeighbridgeError(error, "NO_ROUTE"));
});
