// Goal: a save holds a server up for as long as its owner goes on with it and no longer (CheckpointService.V1), what
// was activated stays (CheckpointLoads.L1), and directories are made one after the other (PendingDirectory.D2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Deferred } from "../../base/deferred.ts";
import { isWeighbridgeError } from "../../base/errors.ts";
import { SILENT_LOG } from "../../base/log.ts";
import { VectorClock } from "../../consistency/vector-clock.ts";
import { PART_COUNT } from "../../keys/placement.ts";
import type { ShardFileRecord } from "../../store/snapshot/checkpoint-manifest.ts";
import type { SnapshotFiles, SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { ParameterStage } from "../../testing/parameter-stage.ts";
import { LocalCatalogue } from "../../testing/test-catalogues.ts";
import { PlacementPrepare } from "../placement-prepare.ts";
import { CheckpointService } from "./checkpoint-service.ts";

const IDLE_MS = 60_000;
const WRITE = { pending: "step-1", step: 1, job: "job", parameters: [] };

/** A checkpoint without parameters. */
const source: SnapshotSource = {
  path: "memory",
  manifest: {
    job: "job",
    step: 1,
    clock: 0,
    createdAt: "2026-01-02T03:04:05.678Z",
    serverCount: 1,
    partCount: PART_COUNT,
    parameters: [],
    servers: [{ rank: 0, files: [], vectorClock: [], state: {} }],
    workers: [],
    state: { run: "run" },
  },
  chunks: () => [],
  readColumn: async () => {},
  readRows: async () => {},
  close: async () => {},
};

class Stage {
  readonly stage = new ParameterStage();
  readonly service: CheckpointService;
  readonly placement: PlacementPrepare;
  /** Shards end when the test says so. */
  readonly written = new Deferred<readonly ShardFileRecord[]>();
  openCount = 0;
  /** What was asked of the directory, in order; `begin` ends when the test says so. */
  readonly asked: string[] = [];
  readonly begins: Deferred<void>[] = [];

  constructor() {
    const sink = { openRows: assert.fail, openParts: assert.fail, finish: () => this.written.promise, abandon: async () => {} };
    const files: SnapshotFiles = {
      begin: async (stepMin = 0) => {
        const ends = new Deferred<void>();
        this.asked.push(`begin ${stepMin}`);
        this.begins.push(ends);
        await ends.promise;
        return { step: stepMin, pending: `step-${stepMin}` };
      },
      commit: assert.fail,
      keep: assert.fail,
      abandon: async (pending) => {
        this.asked.push(`abandon ${pending}`);
      },
      shard: () => sink,
      open: async () => {
        this.openCount++;
        return source;
      },
    };
    const { clock, parameters, ownership } = this.stage;
    this.placement = new PlacementPrepare(ownership, clock);
    const placed = { ownership, placement: this.placement };
    this.service = new CheckpointService({ parameters, vectorClock: new VectorClock(), ...placed, files, log: SILENT_LOG, clock });
    this.service.joined("run", new LocalCatalogue());
  }
}

test("a save that was frozen and is not gone on with for a minute is given up, and not before (CheckpointService.V1)", async () => {
  const one = new Stage();
  await one.service.cut({ id: "a", clock: 0, isWhole: true }, "first");
  await one.stage.clock.advance(IDLE_MS - 1);
  await assert.rejects(one.service.cut({ id: "b", clock: 0, isWhole: true }, "second"), { code: "QUEUE_FULL", retryable: true });
  await one.stage.clock.advance(1);
  await assert.rejects(one.service.write({ id: "a", ...WRITE }, "first"), { code: "DEADLINE", message: /first froze a checkpoint/ });
  await one.service.cut({ id: "b", clock: 0, isWhole: true }, "second");
});

test("a save that is being written is given up neither for its time nor for another one of its owner", async () => {
  const one = new Stage();
  await one.service.cut({ id: "a", clock: 0, isWhole: true }, "owner");
  const report = one.service.write({ id: "a", ...WRITE }, "owner");
  await one.stage.clock.advance(2 * IDLE_MS);
  await assert.rejects(one.service.cut({ id: "b", clock: 0, isWhole: true }, "owner"), { code: "QUEUE_FULL" });
  one.written.resolve([]);
  assert.deepEqual((await report).parameters, []);
  await one.service.cut({ id: "b", clock: 0, isWhole: true }, "owner");
  // frozen, not written: its owner may think better of it
  await one.service.cut({ id: "c", clock: 0, isWhole: true }, "owner");
});

test("a save that is being written is not written again by another request of its owner: QUEUE_FULL, and the first goes on (CheckpointService.V5)", async () => {
  const one = new Stage();
  one.stage.create({ kind: "table", width: 2, name: "rows" });
  await one.service.cut({ id: "a", clock: 0, isWhole: true }, "owner");
  const request = { id: "a", ...WRITE, parameters: ["rows"] };
  const report = one.service.write(request, "owner");
  await nextTurn();
  await assert.rejects(one.service.write(request, "owner"), { code: "QUEUE_FULL", retryable: true });
  one.written.resolve([]);
  assert.equal((await report).parameters.length, 1);
});

test("two cuts at once, one that waits for its clock and another's: the second is QUEUE_FULL and retryable, the first goes on (CheckpointService.V5)", async () => {
  const one = new Stage();
  const waits = one.service.cut({ id: "a", clock: 3, isWhole: true }, "first");
  for (const clock of [0, 3, 5])
    await assert.rejects(one.service.cut({ id: "b", clock, isWhole: true }, "second"), {
      code: "QUEUE_FULL",
      retryable: true,
      message: /first is taking/,
    });
  one.stage.parameters.pacer.startAt(3);
  assert.deepEqual(await waits, { names: [], run: "run", epoch: one.stage.ownership.epoch, servers: Uint32Array.of(0) });
});

test("a directory whose owner died while it was made is gone before the next one is begun (PendingDirectory.D2)", async () => {
  const one = new Stage();
  const first = one.service.directory.begin({ step: undefined, stepMin: 1, directory: undefined }, "first");
  await nextTurn();
  one.service.forget("first");
  const second = one.service.directory.begin({ step: undefined, stepMin: 2, directory: undefined }, "second");
  await nextTurn();
  assert.deepEqual(one.asked, ["begin 1"]);
  one.begins[0]?.resolve();
  await assert.rejects(first, { code: "ABORTED" });
  await nextTurn();
  assert.deepEqual(one.asked, ["begin 1", "abandon step-1", "begin 2"]);
  one.begins[1]?.resolve();
  assert.equal((await second).pending, "step-2");
  one.service.forget("second");
  await nextTurn();
  assert.equal(one.asked.at(-1), "abandon step-2");
});

test("what was loaded is forgotten when its last owner discards it, unless it was activated (CheckpointLoads.L1)", async () => {
  const one = new Stage();
  await one.service.loads.loadStep(undefined, "first");
  await one.service.loads.loadStep(1, "second");
  await one.service.loads.discard("first");
  await one.service.loads.loadStep(1, "third");
  assert.equal(one.openCount, 1, "the second wants it");
  await one.service.loads.discard("second");
  await one.service.loads.discard("third");
  assert.equal(one.stage.parameters.isRestoring, false);
  await one.service.loads.loadStep(1, "first");
  assert.equal(one.openCount, 2);
  await one.service.loads.activate(1);
  await one.service.loads.discard("first");
  await one.service.loads.activate(1);
  await one.service.loads.loadStep(1, "second");
  assert.equal(one.openCount, 2, "it is everybody's");
});

const PREPARE = { epoch: 2, holdMs: 1000 };

test("a server that loads a checkpoint is not prepared for another placement until it was activated, or is given up (CheckpointService.V7)", async () => {
  for (const end of ["activate", "discard"] as const) {
    const { service, placement } = new Stage();
    await service.loads.loadStep(1, "first");
    assert.throws(
      () => placement.take(PREPARE, service),
      (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable,
    );
    await (end === "activate" ? service.loads.activate(1) : service.loads.discard("first"));
    placement.take(PREPARE, service);
  }
});

test("a server that is prepared for another placement begins no load before the parts of that are handed over, it hears that it does not come, or has waited long enough (CheckpointService.V7)", async () => {
  for (const end of ["handed over", "abandoned", "late"] as const) {
    const { service, placement, stage } = new Stage();
    placement.take(PREPARE, service);
    let isLoaded = false;
    const loaded = service.loads.loadStep(1, "first").then(() => {
      isLoaded = true;
    });
    await stage.clock.advance(999);
    assert.equal(isLoaded, false, end);
    if (end === "handed over") placement.handedOver(2);
    else if (end === "abandoned") placement.take({ epoch: 2, holdMs: 0 }, service);
    else await stage.clock.advance(1);
    await loaded;
  }
});

test("a server that serves what an application cut itself is prepared for other parts, and not for other servers: UNSUPPORTED says why (PlacementPrepare.P2)", () => {
  const { service, placement, stage } = new Stage();
  const others = { ...PREPARE, servers: [0, 1] };
  placement.take(others, service);
  stage.ownership.noteAppCut();
  placement.take(PREPARE, service);
  assert.throws(
    () => placement.take(others, service),
    (error) => isWeighbridgeError(error, "UNSUPPORTED") && !error.retryable && /setSlicer/.test(error.message),
  );
  placement.take({ ...others, holdMs: 0 }, service);
});

test("a cut is not answered while its server is prepared for another placement; a server that makes one is not prepared before its owner goes on (CheckpointService.V8)", async () => {
  const { service, placement, stage } = new Stage();
  placement.take(PREPARE, service);
  let isCut = false;
  const cut = service.cut({ id: "a", clock: 0, isWhole: true }, "first").then(() => {
    isCut = true;
  });
  await stage.clock.advance(500);
  assert.equal(isCut, false);
  placement.take({ epoch: 2, holdMs: 0 }, service);
  await cut;
  assert.throws(
    () => placement.take(PREPARE, service),
    (error) => isWeighbridgeError(error, "QUEUE_FULL") && error.retryable && /makes a cut/.test(error.message),
  );
  await service.abandon({ id: "a", pending: undefined }, "first");
  placement.take(PREPARE, service);
});

test("a cut says of which placement it is (CheckpointService.V8)", async () => {
  const { service, stage } = new Stage();
  stage.ownership.adopt({ epoch: 7, policy: "ring", servers: [0] }, 0);
  assert.equal((await service.cut({ id: "a", clock: 0, isWhole: true }, "first")).epoch, 7);
});
