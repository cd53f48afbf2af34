// repeated-changes.test — Goal: whoever repeats a request because its answer was lost changes nothing twice: over HTTP
// and through the functions of tools, at once and later, also at a scheduler that was started again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { scalingAsk, scalingWorkers } from "../../src/contracts/scaling.ts";
import { POST_ROUTES } from "../../src/node/manage-routes.ts";
import { callJson } from "../../src/peer/call-function.ts";
import type { StateRecord } from "../../src/scheduler/scheduler-state.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { SCHEDULER_ID } from "../../src/wire/node-id.ts";
import type { ScaleRequest, ScalingReport } from "../../src/wire/scaling.ts";
import type { WorkerNode } from "../../src/worker/worker-node.ts";
import { SimStore } from "./replicated-job.ts";

class ScaledJob {
  readonly cluster: SimCluster;
  readonly #records: StateRecord[] = [];
  #tool: WorkerNode | undefined;

  constructor() {
    const later = (written: () => void): void => void this.cluster.clock.after(1, written);
    const optionsOf = (node: number): object => (node === SCHEDULER_ID ? { store: new SimStore(this.#records, later) } : {});
    this.cluster = new SimCluster({ seed: 1, serverCount: 2, workerCount: 2, optionsOf });
  }

  async start(): Promise<void> {
    await this.cluster.start();
    await this.#startTool("tool");
  }

  async #startTool(host: string): Promise<void> {
    this.#tool = await this.cluster.run(this.cluster.startGuest(host));
  }

  /** Answers as HTTP does: "number 1", "" without a number, or the code of the refusal. */
  async post(path: string, body: unknown): Promise<string> {
    return await this.#outcome(POST_ROUTES[path]!(this.cluster.scheduler.scheduler!.managed, body));
  }

  async ask(request: ScaleRequest): Promise<string> {
    return await this.#outcome(callJson(this.#tool!.channelTo(SCHEDULER_ID), scalingAsk, request, this.cluster.clock));
  }

  async askWorkers(request: ScaleRequest): Promise<string> {
    return await this.#outcome(callJson(this.#tool!.channelTo(SCHEDULER_ID), scalingWorkers, request, this.cluster.clock));
  }

  async restartScheduler(): Promise<void> {
    this.cluster.kill(SCHEDULER_ID);
    await this.cluster.clock.advance(30);
    await this.cluster.run(this.cluster.startNode(SCHEDULER_ID));
    await this.cluster.clock.advance(1000);
    await this.#startTool("next tool"); // the scheduler does not know the guests of the one before
  }

  /** How many servers there are to be when all that was asked for is done, and how many workers. */
  async wished(): Promise<string> {
    await this.cluster.clock.advance(100);
    const { scaling, workers } = this.cluster.scheduler.scheduler!;
    const { current, queued, wishedCount }: ScalingReport = scaling.report();
    const { presentCount, wishedCount: workerCount = presentCount } = workers.report();
    return `${current?.to.length ?? wishedCount} servers, ${queued.length} queued, ${workerCount} workers`;
  }

  async #outcome(answer: Promise<unknown>): Promise<string> {
    const settled = answer.then(
      (reply) => String((reply as { readonly number?: number }).number ?? ""),
      (thrown: unknown) => (isWeighbridgeError(thrown) ? thrown.code : Promise.reject(thrown as Error)),
    );
    return await this.cluster.run(settled);
  }
}

type Way = (job: ScaledJob) => Promise<string>;

const WAYS: readonly (readonly [name: string, repeated: Way, wished: string])[] = [
  ["/scaleout of servers", (job) => job.post("/scaleout", { server_num: 1 }), "3 servers, 0 queued, 2 workers"],
  ["/scaleout of workers", (job) => job.post("/scaleout", { server_num: 0, worker_num: 1 }), "2 servers, 0 queued, 3 workers"],
  ["/scaleout of both", (job) => job.post("/scaleout", { server_num: 1, worker_num: 1 }), "3 servers, 0 queued, 3 workers"],
  ["/scalein", (job) => job.post("/scalein", { node_ids: ["server 1"] }), "1 servers, 0 queued, 2 workers"],
  ["a tool that adds servers", (job) => job.ask({ add: 1 }), "3 servers, 0 queued, 2 workers"],
  ["a tool that lets one leave", (job) => job.ask({ leave: [1] }), "1 servers, 0 queued, 2 workers"],
  ["a tool that adds workers", (job) => job.askWorkers({ add: 1 }), "2 servers, 0 queued, 3 workers"],
  ["a tool that says how many workers", (job) => job.askWorkers({ to: 3 }), "2 servers, 0 queued, 3 workers"],
];

test("a request that is repeated changes nothing more, or is refused, through every way in", async () => {
  for (const [name, repeated, wished] of WAYS) {
    const job = new ScaledJob();
    await job.start();
    await Promise.all([repeated(job), repeated(job)]); // the client gave up early
    assert.equal(await job.wished(), wished, `${name}, at once`);
    await repeated(job);
    assert.equal(await job.wished(), wished, `${name}, later`);
    await job.restartScheduler();
    await repeated(job);
    assert.equal(await job.wished(), wished, `${name}, at the next scheduler`);
  }
});

test("a request with a request_id is answered again with its number, also when it has ended, by any scheduler", async () => {
  const job = new ScaledJob();
  await job.start();
  const body = { server_num: 1, worker_num: 1, request_id: "a", timeout_ms: 5000 };
  assert.deepEqual(await Promise.all([job.post("/scaleout", body), job.post("/scaleout", body)]), ["1", "1"]);
  assert.equal(await job.post("/scaleout", { server_num: 1, worker_num: 1 }), "BAD_REQUEST", "it may be a repetition");
  assert.equal(await job.post("/scaleout", { ...body, request_id: "b" }), "2", "it is none");
  assert.equal(await job.post("/scaleout", body), "1");
  assert.equal(await job.wished(), "3 servers, 1 queued, 4 workers");
  assert.equal(await job.ask({ add: 1, requestId: "c", timeoutMs: 5000 }), "3");
  assert.equal(await job.ask({ add: 1, requestId: "c", timeoutMs: 5000 }), "3");
  await job.restartScheduler();
  assert.equal(await job.post("/scaleout", body), "1");
  await job.cluster.clock.advance(60_000);
  assert.equal(await job.post("/scaleout", body), "1", "it was rolled back, and is not begun anew");
  assert.equal(await job.wished(), "2 servers, 0 queued, 2 workers");
});

test("an id that was given to another request is refused, and so is none", async () => {
  const job = new ScaledJob();
  await job.start();
  assert.equal(await job.post("/scaleout", { server_num: 1, request_id: "a" }), "1");
  const post = (body: unknown): Promise<unknown> =>
    job.cluster.run(POST_ROUTES["/scaleout"]!(job.cluster.scheduler.scheduler!.managed, body));
  const other = /request_id "a" was given for servers \+1, and now for servers \+2/;
  await assert.rejects(post({ server_num: 2, request_id: "a" }), throwsCode("BAD_REQUEST", other));
  await assert.rejects(post({ server_num: 2, request_id: "" }), throwsCode("BAD_REQUEST", /request_id must be a string of 1 to 64/));
  await assert.rejects(post({ server_num: 2, request_id: "a".repeat(65) }), throwsCode("BAD_REQUEST", /1 to 64 characters/));
  await assert.rejects(post({ server_num: 2, request_id: 7 }), throwsCode("BAD_REQUEST", /1 to 64 characters/));
  assert.equal(await job.wished(), "3 servers, 0 queued, 2 workers");
});

test("of many requests with ids the last are known, and what is kept of them is bounded", async () => {
  const job = new ScaledJob();
  await job.start();
  for (let id = 0; id < 100; id++) assert.equal(await job.askWorkers({ to: 2 + (id % 2), requestId: `r${id}` }), "");
  const { requests } = job.cluster.scheduler.scheduler!.state.scaling;
  assert.deepEqual([requests.length, requests[0]?.id, requests.at(-1)?.id], [32, "r68", "r99"]);
});
