// Goal: vector clocks are restored where they mean something, so that no update counts twice and none of a new run is
// taken for an old one (spec/consistency.md, D5).

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../base/errors.ts";
import { VectorClock } from "../../consistency/vector-clock.ts";
import { Arena } from "../../kernel/arena.ts";
import { SimdKernels } from "../../kernel/simd-kernels.ts";
import { PART_COUNT } from "../../keys/placement.ts";
import type { CheckpointManifest } from "../../store/snapshot/checkpoint-manifest.ts";
import type { SnapshotSource } from "../../store/snapshot/snapshot-files.ts";
import { SimClock } from "../../testing/sim-clock.ts";
import { LocalCatalogue } from "../../testing/test-catalogues.ts";
import { Ownership } from "../ownership.ts";
import { Parameters } from "../parameters/parameters.ts";
import { restoreServer } from "./server-restore.ts";

const WORKER = 9;
const ARENA = { bytesMax: 8 << 20, shared: false };

/** Two servers; the worker's last updates were 10 on the first and 14 on the second. */
function placementOfCount(serverCount: number) {
  return { epoch: 1, policy: "ring" as const, servers: Array.from({ length: serverCount }, (_, rank) => rank) };
}

type ServerStart = { readonly rank: number; readonly serverCount: number; readonly run: string; readonly policy?: "ring" | "range" };

const manifest: CheckpointManifest = {
  job: "job",
  step: 3,
  clock: 3,
  createdAt: "2026-01-02T03:04:05.678Z",
  serverCount: 2,
  partCount: PART_COUNT,
  parameters: [],
  servers: [10, 14].map((stamp, rank) => ({
    rank,
    files: [],
    vectorClock: [{ worker: WORKER, incarnation: 2, stamp }],
    state: { placement: placementOfCount(2) },
  })),
  workers: [],
  state: { run: "run-1" },
};

async function restored(
  { rank, serverCount, run, policy = "ring" }: ServerStart,
  saved: CheckpointManifest = manifest,
  arena = new Arena(ARENA),
  ownership = new Ownership(arena),
) {
  const kernels = new SimdKernels(arena);
  const parameters = new Parameters({ arena, kernels, clock: new SimClock(), workerCount: 1, secret: 1n });
  const vectorClock = new VectorClock();
  const source: SnapshotSource = {
    path: "memory",
    manifest: saved,
    chunks: () => [],
    readColumn: async () => {},
    readRows: async () => {},
    close: async () => {},
  };
  ownership.adopt({ ...placementOfCount(serverCount), policy, epoch: 7 }, rank);
  const activate = await restoreServer({ source, parameters, vectorClock, ownership, run, catalogue: new LocalCatalogue() });
  assert.deepEqual([...vectorClock.entries()], [], "nobody sees it before it is activated");
  await activate();
  assert.equal(parameters.pacer.clockMin, 3);
  return vectorClock;
}

test("in the same run, with as many servers, each has its own clock again: what is in is not applied again, what is not is", async () => {
  const first = await restored({ rank: 0, serverCount: 2, run: "run-1" });
  assert.equal(first.advance(WORKER, 2, 10), false);
  assert.equal(first.advance(WORKER, 1, 99), false, "an earlier incarnation is over");
  assert.equal(first.advance(WORKER, 2, 11), true);
  const second = await restored({ rank: 1, serverCount: 2, run: "run-1" });
  assert.equal(second.advance(WORKER, 2, 14), false);
});

test("with another number of servers the highest stamp counts: never twice", async () => {
  const only = await restored({ rank: 0, serverCount: 1, run: "run-1" });
  assert.equal(only.advance(WORKER, 2, 14), false);
  assert.equal(only.advance(WORKER, 2, 15), true);
});

test("with as many servers but other parts the highest stamp counts too", async () => {
  const other = await restored({ rank: 0, serverCount: 2, run: "run-1", policy: "range" });
  assert.equal(other.advance(WORKER, 2, 14), false);
  assert.equal(other.advance(WORKER, 2, 15), true);
});

test("what an application cut itself is restored on the same number of servers, and refused on any other with the reason", async () => {
  const servers = manifest.servers.map((record) => ({ ...record, state: { ...record.state, appCut: true } }));
  await restored({ rank: 0, serverCount: 2, run: "run-1" }, { ...manifest, servers });
  for (const serverCount of [1, 3])
    await assert.rejects(
      restored({ rank: 0, serverCount, run: "run-1" }, { ...manifest, servers }),
      (error) =>
        isWeighbridgeError(error, "UNSUPPORTED") &&
        error.message.includes(`memory is of 2 servers and cannot be restored on ${serverCount}: an application of this job chose`),
    );
});

test("a server that restores what an application cut itself says so in its next checkpoint, though no request came since", async () => {
  for (const appCut of [true, false]) {
    const arena = new Arena(ARENA);
    const ownership = new Ownership(arena);
    const servers = manifest.servers.map((record, rank) => ({ ...record, state: { ...record.state, appCut: appCut && rank === 1 } }));
    await restored({ rank: 0, serverCount: 2, run: "run-1" }, { ...manifest, servers }, arena, ownership);
    assert.equal(ownership.hasAppCut, appCut);
  }
});

test("in another run lives begin anew, and the first update of the first incarnation counts", async () => {
  const other = await restored({ rank: 0, serverCount: 2, run: "run-2" });
  assert.equal(other.advance(WORKER, 1, 1), true);
});
