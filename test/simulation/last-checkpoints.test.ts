// Goal: the orderly end of a job loses nothing where there is a checkpoint directory: servers take a checkpoint, with
// which the next job begins that is to resume. What keeps them from it ends the server that was to take it with the
// reason, in bounded time, and durable servers keep their logs.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Session } from "../../src/api/session.ts";
import type { ErrorCode } from "../../src/base/errors.ts";
import { Random } from "../../src/base/random.ts";
import { KVServer } from "../../src/faces/kv/kv-server.ts";
import { KVWorker } from "../../src/faces/kv/kv-worker.ts";
import type { FileLayer } from "../../src/node/checkpoint/file-layer.ts";
import { resumeCheckpoint } from "../../src/node/checkpoint/find-checkpoint.ts";
import { takeLastCheckpoint } from "../../src/node/checkpoint/last-checkpoint.ts";
import { PeriodicCheckpoints } from "../../src/node/checkpoint/periodic-checkpoints.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { SegmentLog } from "../../src/node/durable/segment-log.ts";
import { SchedulerNode } from "../../src/scheduler/scheduler-node.ts";
import { ServerNode } from "../../src/server/server-node.ts";
import { SAVE_MS } from "../../src/server/stop-bounds.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf, rankOf, roleOf } from "../../src/wire/node-id.ts";
import { SETTLING } from "../support/settling.ts";
import { SimDisk } from "./sim-disk.ts";

const ROOT = "/checkpoints";
const KEYS = [1, 2, 3, 5, 8, 13];
const KV_KEYS = BigUint64Array.of(5n, 2n ** 63n);
const SERVERS = 2;

type Kind = {
  readonly replicas?: number;
  readonly isDurable?: boolean;
  readonly serves?: boolean;
  readonly resumes?: boolean;
  readonly saveMs?: number;
};

/** Jobs so far. */
let runs = 0;

class Job {
  readonly cluster: SimCluster;
  readonly warnings: string[] = [];
  session!: Session;

  constructor(disk: SimDisk, { replicas = 1, isDurable = false, serves = false, resumes = false, saveMs = SAVE_MS }: Kind = {}) {
    this.#serves = serves;
    const { warnings } = this;
    const warn = (message: string, { code = "" }: Readonly<Record<string, unknown>> = {}): void => {
      warnings.push(typeof code === "string" ? `${message} ${code}` : message);
    };
    const log = { debug() {}, info() {}, warn, error: warn };
    this.cluster = new SimCluster({
      ...{ seed: 1, serverCount: SERVERS, workerCount: 1, replicas, settle: SETTLING, log },
      ...{ heartbeatIntervalMs: 500, heartbeatTimeoutMs: 2000 },
      optionsOf: (node) => {
        if (roleOf(node) === "scheduler") return { jobId: `sim/${++runs}`, serves };
        if (roleOf(node) === "worker") return {};
        const { clock } = this.cluster;
        const { layer } = disk.mount(clock, 1);
        const directory = `/durable/server-${rankOf(node)}`;
        const self = { id: String(node), host: "sim", pid: 1, startedAt: "" };
        const durable = isDurable
          ? new SegmentLog({ directory, clock, log, layer, self, isGone: () => true, segmentBytes: 4096 })
          : undefined;
        const start = resumes ? { restoreFrom: () => resumeCheckpoint(ROOT, { layer }), mayBeginEmpty: true } : {};
        return { checkpointFiles: new ServerFiles(ROOT, layer), durable, ...start };
      },
    });
    this.#saveMs = saveMs;
    this.#layer = disk.mount(this.cluster.clock, 1).layer;
  }

  readonly #layer: FileLayer;
  readonly #saveMs: number;
  readonly #serves: boolean;

  async open(): Promise<this> {
    const { cluster } = this;
    await cluster.start();
    for (const id of cluster.nodes()) this.#serveAt(id);
    this.session = await cluster.run(Session.open(cluster.worker(0).node));
    return this;
  }

  #serveAt(id: number): void {
    const office = this.cluster.office(id);
    const { node } = office;
    if (!(node instanceof ServerNode)) return;
    new KVServer(office, 0);
    node.beforeEnd = () => takeLastCheckpoint(node, { files: new ServerFiles(ROOT, this.#layer), saveMs: this.#saveMs });
  }

  /** The server is killed, and another process takes its rank, with nothing. */
  async restart(rank: number): Promise<ServerNode> {
    const { cluster } = this;
    const id = idOf("server", rank);
    cluster.kill(id);
    await cluster.clock.advance(5000);
    await cluster.run(cluster.startNode(id));
    this.#serveAt(id);
    const { node } = cluster.server(rank);
    assert.ok(node instanceof ServerNode);
    return node;
  }

  async push({ withSums = true } = {}): Promise<void> {
    const rows = await this.session.embedding("rows", { dim: 1, optimizer: { type: "sum" } });
    await rows.push(KEYS, new Float32Array(KEYS.length).fill(1));
    if (!withSums) return;
    await this.#kv.wait(this.#kv.push(KV_KEYS, new Float32Array(KV_KEYS.length).fill(1)));
  }

  /** The sum of all rows and kv values. */
  async sum(): Promise<number> {
    const rows = await this.session.embedding("rows", { dim: 1, optimizer: { type: "sum" } });
    const values = new Float32Array(KV_KEYS.length);
    await this.#kv.wait(this.#kv.pull(KV_KEYS, values));
    return [...(await rows.pull(KEYS)), ...values].reduce((sum, value) => sum + value, 0);
  }

  /** All nodes end, a cluster that serves because it is told to; how each of the servers did: "" if it ended well. */
  async end(): Promise<readonly string[]> {
    const { cluster } = this;
    const codes = cluster.nodes().map(async (id) => {
      const ended = cluster.running(id)?.finalize();
      return {
        id,
        code: await (ended ?? Promise.resolve()).then(
          () => "",
          (thrown: { readonly code?: ErrorCode }) => String(thrown.code),
        ),
      };
    });
    const { node } = cluster.scheduler;
    if (this.#serves && node instanceof SchedulerNode) {
      await cluster.clock.advance(1000); // its worker leaves first
      assert.ok(await cluster.run(node.scheduler.tryEndServing()));
    }
    const ends = await cluster.run(Promise.all(codes));
    return ends.filter(({ id }) => roleOf(id) === "server").map(({ code }) => code);
  }

  get #kv(): KVWorker {
    this.#kvWorker ??= new KVWorker(this.cluster.worker(0), 0);
    return this.#kvWorker;
  }

  #kvWorker: KVWorker | undefined;
}

const ALL = KEYS.length + KV_KEYS.length;

/** The highest clock that this server has heard of. */
function clockOf(node: unknown): number {
  assert.ok(node instanceof ServerNode);
  return node.server.parameters.pacer.clocks.clockReported;
}

function newDisk(): SimDisk {
  return new SimDisk(new Random(1), "/checkpoints");
}

async function sumOfNext(disk: SimDisk, kind: Kind): Promise<number> {
  const next = await new Job(disk, kind).open();
  return await next.cluster.run(next.sum());
}

for (const replicas of [1, 2])
  test(`the orderly end of a job saves all that was pushed, with ${replicas} of each server; the next start resumes from it, and begins empty without`, async () => {
    const disk = newDisk();
    const job = await new Job(disk, { replicas }).open();
    await job.cluster.run(job.push());
    if (replicas === 2) {
      job.cluster.kill(idOf("server", 0)); // its standby takes over
      await job.cluster.clock.advance(5000);
      job.cluster.takenOver(0);
    }
    await job.cluster.run(job.push());
    assert.deepEqual(await job.end(), ["", ""]);
    assert.equal(await sumOfNext(disk, { replicas, resumes: true }), 2 * ALL);
    assert.equal(await sumOfNext(disk, { replicas }), 0);
  });

test("durable servers end with a checkpoint and without a log: the next start with the same log begins empty, one that resumes does not", async () => {
  const disk = newDisk();
  const job = await new Job(disk, { isDurable: true }).open();
  await job.cluster.run(job.push());
  assert.deepEqual(await job.end(), ["", ""]);
  assert.equal(await sumOfNext(disk, { isDurable: true }), 0);
  assert.equal(await sumOfNext(disk, { resumes: true }), ALL);
});

test("durable servers of a cluster that serves keep their logs at its orderly end: the next start with the same log goes on from them", async () => {
  const disk = newDisk();
  const kind = { isDurable: true, serves: true };
  const job = await new Job(disk, kind).open();
  await job.cluster.run(job.push());
  assert.deepEqual(await job.end(), ["", ""]);
  const next = await new Job(disk, kind).open();
  assert.equal(await next.cluster.run(next.sum()), ALL);
  await next.cluster.run(next.push());
  assert.deepEqual(await next.end(), ["", ""]);
  assert.equal(await sumOfNext(disk, kind), 2 * ALL);
  assert.equal(await sumOfNext(disk, { resumes: true }), 2 * ALL, "the checkpoint has it, too");
});

test("a full disk at the end of the job is told by a typed warning and the end of one server; durable servers keep their logs", async () => {
  for (const isDurable of [false, true]) {
    const disk = newDisk();
    const job = await new Job(disk, { isDurable }).open();
    await job.cluster.run(job.push());
    await job.cluster.clock.advance(1000); // marks are written
    disk.roomBytes = 0;
    assert.deepEqual(await job.end(), ["CHECKPOINT_IO", isDurable ? "CHECKPOINT_MISSING" : ""]);
    assert.match(job.warnings.join("\n"), /no checkpoint was taken at the end of the job CHECKPOINT_IO/);
    disk.roomBytes = Infinity;
    assert.equal(await sumOfNext(disk, { isDurable }), isDurable ? ALL : 0);
  }
});

for (const rank of [0, 1])
  test(`when server ${rank} dies while the end of the job is saved, the other one ends in bounded time, and says so`, async () => {
    const disk = newDisk();
    const job = await new Job(disk).open();
    const { cluster } = job;
    await cluster.run(job.push());
    const other = cluster.server(1 - rank);
    const { node } = cluster.server(0);
    assert.ok(node instanceof ServerNode);
    const { beforeEnd } = node;
    node.beforeEnd = async () => {
      cluster.kill(idOf("server", rank));
      await beforeEnd();
    };
    const ended = assert.rejects(other.finalize(), throwsCode("NODE_DEAD", /the job has ended, and was not saved: /));
    for (const id of cluster.nodes())
      if (roleOf(id) !== "server")
        cluster
          .office(id)
          .finalize()
          .catch(() => {});
    cluster
      .server(rank)
      .finalize()
      .catch(() => {}); // it is killed
    const fromMs = cluster.clock.nowMs();
    await cluster.run(ended);
    assert.ok(cluster.clock.nowMs() - fromMs < 60_000);
  });

test("a disk that does not answer holds the end of the job for a bounded time", async () => {
  const disk = newDisk();
  const job = await new Job(disk, { saveMs: 30_000 }).open();
  const { cluster } = job;
  await cluster.run(job.push());
  disk.isMute = true;
  const fromMs = cluster.clock.nowMs();
  const [saver, other = ""] = await job.end();
  assert.ok(saver === "DEADLINE" && ["", "DEADLINE"].includes(other), other); // it may hear that the other one has left
  assert.ok(cluster.clock.nowMs() - fromMs < 60_000);
});

test("a job whose script leaves notes in its checkpoints keeps the newest of those as the newest", async () => {
  const disk = newDisk();
  const job = await new Job(disk).open();
  const { cluster } = job;
  await cluster.run(job.push());
  await cluster.run(job.session.checkpoint({ note: { position: 1 } }).saved);
  await cluster.run(job.push());
  assert.deepEqual(await job.end(), ["", ""]);
  assert.equal(await sumOfNext(disk, { resumes: true }), ALL);
});

test("workers go on from the clock at which the last one left, and every update of a guest that was acknowledged while the job ended is saved", async () => {
  const disk = newDisk();
  const job = await new Job(disk).open();
  const { cluster } = job;
  await cluster.run(job.push());
  const guest = await cluster.run((async () => await Session.open(await cluster.startGuest("guest")))());
  const rows = await cluster.run(guest.embedding("rows", { dim: 1, optimizer: { type: "sum" } }));
  for (let i = 0; i < 3; i++) job.session.clock();
  await cluster.run(job.sum()); // its clocks are there
  let acknowledged = 0;
  const pushing = (async () => {
    for (; ; acknowledged++) await rows.push(KEYS, new Float32Array(KEYS.length).fill(1));
  })();
  const isOver = assert.rejects(pushing);
  assert.deepEqual(await job.end(), ["", ""]);
  await cluster.run(isOver);
  assert.ok(acknowledged > 0);
  const next = await new Job(disk, { resumes: true }).open();
  assert.equal(next.session.clocks, 3);
  const found = (await next.cluster.run(next.sum())) - ALL;
  assert.ok(found === acknowledged * KEYS.length || found === (acknowledged + 1) * KEYS.length, `${found} of ${acknowledged}`);
});

for (const rank of [0, 1])
  test(`when server ${rank} was restarted with nothing, the job ends with the reason why it was not saved (LastCheckpoint.L5)`, async () => {
    const disk = newDisk();
    const job = await new Job(disk).open();
    await job.cluster.run(job.push({ withSums: false }));
    await job.restart(rank);
    assert.deepEqual(await job.end(), ["UNKNOWN_PARAMETER", ""]);
    assert.match(job.warnings.join("\n"), /no checkpoint was taken at the end of the job UNKNOWN_PARAMETER/);
  });

test("a periodic checkpoint that a server without anything is to take fails with the reason, since another one holds parameters", async () => {
  const disk = newDisk();
  const job = await new Job(disk).open();
  const { clock } = job.cluster;
  await job.cluster.run(job.push({ withSums: false }));
  const checkpoints = new PeriodicCheckpoints(await job.restart(0), { everyMs: 1000 });
  await clock.advance(5000);
  await job.cluster.run(checkpoints.close());
  assert.match(job.warnings.join("\n"), /no checkpoint was taken/);
});

test("of the two processes of a server one takes the periodic checkpoints", async () => {
  const disk = newDisk();
  const job = await new Job(disk, { replicas: 2 }).open();
  const { cluster } = job;
  await cluster.run(job.push());
  const held = [idOf("server", 0), idOf("standby", 0)].map((id) => cluster.office(id).node as ServerNode);
  const cuts = held.map((node) => new PeriodicCheckpoints(node, { everyMs: 1000 }));
  const [byHead, byStandby] = held.map((node) => mock.method(node, "callServer"));
  await cluster.clock.advance(5000);
  await cluster.run(Promise.all(cuts.map((cut) => cut.close())));
  assert.ok(byHead!.mock.callCount() > 0);
  assert.equal(byStandby!.mock.callCount(), 0);
  assert.deepEqual(job.warnings, []);
});

for (const rank of [0, 1])
  test(`a worker that was killed before server ${rank} heard the end of its clock does not hold up the checkpoint at the end of the job`, async () => {
    const disk = newDisk();
    const job = await new Job(disk).open();
    const { cluster } = job;
    await cluster.run(job.push());
    const [worker, server] = [idOf("worker", 0), idOf("server", rank)];
    cluster.network.partition(cluster.hostOf(worker), cluster.hostOf(server), { breakLinks: true });
    await cluster.clock.advance(100);
    job.session.clock();
    await cluster.clock.advance(500);
    cluster.kill(worker);
    cluster.network.heal();
    await cluster.clock.advance(5000); // it is taken for dead
    const clocks = [0, 1].map((of) => clockOf(cluster.server(of).node));
    assert.deepEqual(clocks, rank === 0 ? [0, 1] : [1, 0], "one server has not heard of it");
    const { node } = cluster.scheduler;
    assert.ok(node instanceof SchedulerNode);
    node.scheduler.endServing(); // the job waits for no dead node
    const fromMs = cluster.clock.nowMs();
    assert.deepEqual(await job.end(), ["", ""]);
    assert.ok(cluster.clock.nowMs() - fromMs < 60_000);
    const next = await new Job(disk, { resumes: true }).open();
    assert.equal(next.session.clocks, 1);
    assert.equal(await next.cluster.run(next.sum()), ALL);
  });

test("a job that has nothing to save ends without a checkpoint", async () => {
  const disk = newDisk();
  const job = await new Job(disk).open();
  assert.deepEqual(await job.end(), ["", ""]);
  const { layer } = disk.mount(job.cluster.clock, 0);
  assert.deepEqual(await layer.list(ROOT), []);
});
