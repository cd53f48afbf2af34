// managed-job.test — Goal: over HTTP, too, nobody hears of what is not durable yet (Scheduler.D5, ManagedJob.M1), and
// whoever asks a scheduler that cannot write gets a typed answer (ManagedJob.M2).

import assert from "node:assert/strict";
import { test } from "node:test";
import { WeighbridgeError } from "../../src/base/errors.ts";
import { GET_ROUTES, POST_ROUTES } from "../../src/node/manage-routes.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SCHEDULER_ID } from "../../src/wire/node-id.ts";
import { SimStore } from "./replicated-job.ts";

/** A job of two servers and two workers, whose scheduler's disk a test holds back. */
class HeldJob {
  readonly cluster: SimCluster;
  readonly records: StateRecord[] = [];
  readonly #held: (() => void)[] = [];
  #isHeld = false;
  readonly store = new SimStore(this.records, (written) => void (this.#isHeld ? this.#held.push(written) : written()));

  constructor(options: { readonly workerCountMax?: number } = {}) {
    const optionsOf = (node: number): object => (node === SCHEDULER_ID ? { store: this.store, ...options } : {});
    this.cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 2, optionsOf });
  }

  hold(): void {
    this.#isHeld = true;
  }

  release(): void {
    this.#isHeld = false;
    for (const written of this.#held.splice(0)) written();
  }

  get(path: string): Promise<unknown> {
    return GET_ROUTES[path]!(this.cluster.scheduler.scheduler!.managed);
  }

  post(path: string, body: unknown): Promise<unknown> {
    return POST_ROUTES[path]!(this.cluster.scheduler.scheduler!.managed, body);
  }

  /** Whether this is on the disk. */
  has(kind: StateRecord["kind"]): boolean {
    return this.records.some((record) => record.kind === kind);
  }

  /** What it comes to within so long; "open" if that is not known by then. */
  async within(ms: number, answer: Promise<unknown>): Promise<unknown> {
    const { cluster } = this;
    const over = new Promise((resolve) => void cluster.clock.after(ms, () => resolve("open")));
    return await cluster.run(Promise.race([answer, over]));
  }
}

const CHANGES: readonly (readonly [path: string, body: unknown, kind: StateRecord["kind"]])[] = [
  ["/scaleout", { server_num: 1 }, "wish"],
  ["/scaleout", { server_num: 0, worker_num: 1 }, "workers"],
  ["/scalein", { node_ids: ["server 1"] }, "wish"],
];

test("a change is answered when the disk has it, and so are rollbacks, refusals and what is seen of it", async () => {
  for (const [path, body, kind] of CHANGES) {
    const job = new HeldJob();
    await job.cluster.start();
    job.hold();
    const answer = job.post(path, body);
    assert.equal(await job.within(3000, answer), "open", path);
    const [status, state, refused] = [job.get("/status"), job.get("/state"), job.post("/scaleinRollback", {})];
    refused.catch(() => {});
    assert.equal(await job.within(3000, Promise.race([answer, status, state, refused])), "open", path);
    assert.equal(job.has(kind), false);
    job.release();
    assert.equal(((await job.cluster.run(answer)) as { readonly code: string }).code, "0");
    assert.equal(job.has(kind), true);
    await job.cluster.run(Promise.allSettled([status, state, refused]));
  }
});

test("a rollback is answered when the disk has it", async () => {
  const job = new HeldJob();
  await job.cluster.start();
  await job.cluster.run(job.post("/scaleout", { server_num: 1, worker_num: 1 }));
  job.hold();
  const answer = job.post("/scaleoutRollback", {});
  assert.equal(await job.within(3000, answer), "open");
  job.release();
  const { message } = (await job.cluster.run(answer)) as { readonly message: string };
  assert.equal(message, "Cluster scale out rollback success.");
  assert.equal(job.has("wishEnd"), true);
});

test("a disk that takes nothing for long is DEADLINE, for whoever asks and whoever looks; later both are answered again", async () => {
  const job = new HeldJob();
  await job.cluster.start();
  job.hold();
  const asked = job.post("/scaleout", { server_num: 1 });
  assert.equal(await job.within(1000, asked), "open");
  const outcomes = await job.cluster.run(Promise.allSettled([asked, job.post("/scaleoutRollback", {}), job.get("/state")]));
  for (const outcome of outcomes) {
    assert.ok(outcome.status === "rejected");
    assert.ok(throwsCode("DEADLINE", /written to a simulated disk/)(outcome.reason));
  }
  job.release();
  assert.ok(await job.cluster.run(job.get("/state")));
});

test("a disk that has failed is told with its error, to those that wait as well", async () => {
  const job = new HeldJob();
  await job.cluster.start();
  job.hold();
  const early = job.post("/scaleout", { server_num: 1 });
  assert.equal(await job.within(1000, early), "open");
  job.store.onLost(new WeighbridgeError("STATE_IO", "cannot write: EIO"));
  await assert.rejects(job.within(1000, early), throwsCode("STATE_IO", /EIO/));
  await assert.rejects(job.within(1000, job.post("/scaleout", { server_num: 1 })), throwsCode("STATE_IO", /EIO/));
  await assert.rejects(job.within(1000, job.get("/status")), throwsCode("STATE_IO", /EIO/));
});

test("servers and workers change together, or neither does", async () => {
  const job = new HeldJob({ workerCountMax: 3 });
  await job.cluster.start();
  const many = job.post("/scaleout", { server_num: 1, worker_num: 2 });
  await assert.rejects(job.cluster.run(many), throwsCode("BAD_REQUEST", /2 to 3 workers; 4 were asked for/));
  const unknown = job.post("/scaleout", { server_num: 5000, worker_num: 1 });
  await assert.rejects(job.cluster.run(unknown), throwsCode("BAD_REQUEST", /at most 4096 servers/));
  assert.deepEqual([job.has("wish"), job.has("workers")], [false, false]);
  await job.cluster.run(job.post("/scaleout", { server_num: 1, worker_num: 1 }));
  assert.deepEqual([job.has("wish"), job.has("workers")], [true, true]);
});
