// long-waits — Goal: a wait for clocks that lasts longer than 5 s is told once in the log of the process that waits,
// with whom it waits for: in every face, and for threads of its own process too. So is a rendezvous.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { OwnerModel } from "../../src/faces/shared-model/owner-model.ts";
import { TableGroup } from "../../src/faces/tables/table-group.ts";
import { TensorWorker } from "../../src/faces/tensors/tensor-worker.ts";
import { ArrayDataset } from "../../src/faces/training/dataset.ts";
import { Model } from "../../src/faces/training/model.ts";
import { setParamPs } from "../../src/faces/training/network.ts";
import { dense } from "../../src/nn/layers/dense.ts";
import { SoftmaxCrossEntropy } from "../../src/nn/losses/softmax-cross-entropy.ts";
import { Sequential } from "../../src/nn/sequential.ts";
import { Workspace } from "../../src/nn/workspace.ts";
import { ServerFiles } from "../../src/node/checkpoint/server-files.ts";
import { MemoryCluster } from "../../src/testing/memory-cluster.ts";
import { SimDisk } from "./sim-disk.ts";
import { FLOATS, INTEGERS, TableCluster } from "./tables.ts";

/** The lines about waits, which are cleared. */
function told(cluster: MemoryCluster): string[] {
  const lines = cluster.logLines.filter((line) => line.includes("wait for clocks"));
  cluster.logLines.length = 0;
  return lines;
}

const line = (waits: string): RegExp => new RegExp(`^warn a wait for clocks lasts longer than 5 s: ${waits}$`);

test("pulls that wait for another worker's clock are told once a wait, however many pulls and servers there are", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2, serverCount: 2 });
  const [fast, slow] = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  const tensor = await cluster.run(fast!.tensor("w", { shape: [1000, 100], optimizer: "sum", consistency: { ssp: 1 } }));
  for (let clock = 0; clock < 3; clock++) fast!.clock();
  const pulls = Promise.all([tensor.pull(), tensor.pullRows([1]), tensor.pullRows([999])]);
  await cluster.clock.advance(4900);
  assert.deepEqual(told(cluster), []);
  await cluster.clock.advance(30_000);
  const [first, ...others] = told(cluster);
  assert.match(first!, line("at clock 3 for the slowest to reach clock 2: worker 1 at clock 0"));
  assert.deepEqual(others, []);
  slow!.clock();
  await cluster.clock.advance(30_000);
  assert.deepEqual(told(cluster), [], "it is the same wait");
  slow!.clock();
  await cluster.run(pulls);
  fast!.clock();
  const again = tensor.pull();
  await cluster.clock.advance(10_000);
  assert.match(told(cluster).join("\n"), line("at clock 4 for the slowest to reach clock 3: worker 1 at clock 2"));
  slow!.clock();
  await cluster.run(again);
});

test("a get that waits for a thread of its own process names the thread", async () => {
  const cluster = await MemoryCluster.start();
  const group = new TableGroup(() => Session.open(cluster.worker().node));
  group.registerRow(0, FLOATS);
  const open = async () => {
    await group.init({ numLocalAppThreads: 2 }, true); // its thread never calls clock()
    await group.createTable(0, { rowType: 0, rowCapacity: 4, processCacheCapacity: 4 });
    await group.createTableDone();
    return await group.registerThread();
  };
  const thread = await cluster.run(open());
  thread.clock();
  const row = thread.getTableOrDie(0, FLOATS).get(1);
  await cluster.clock.advance(6500);
  const own = "thread 200 of this process stands at clock 0, another at clock 1: call clock\\(\\) there, or deregisterThread\\(\\)";
  assert.match(told(cluster).join("\n"), line(`at clock 1 for the slowest to reach clock 1: worker 0 at clock 0; ${own}`));
  group.clock();
  (await cluster.run(Promise.resolve(row))).release();
});

test("a get that waits for another process is told in the log of the process that waits", async () => {
  const cluster = await TableCluster.start({ processes: 2, tables: [{ rowType: 1 }], config: { consistencyModel: "SSPPush" } });
  cluster.thread(0).clock();
  const row = cluster.thread(0).getTableOrDie(0, INTEGERS).get(1);
  await cluster.cluster.clock.advance(8000);
  assert.match(told(cluster.cluster).join("\n"), line("at clock 1 for the slowest to reach clock 1: worker 1 at clock 0"));
  cluster.thread(1).clock();
  (await cluster.run(Promise.resolve(row))).release();
  await cluster.shutDown();
});

test("a sync of an SSP group that waits for another member is told", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  const workers = await cluster.run(
    Promise.all([0, 1].map(async (rank) => new TensorWorker(await Session.open(cluster.worker(rank).node)))),
  );
  await cluster.run(Promise.all(workers.map((worker) => worker.sspInit(7, { size: 2, tolerance: 0 }))));
  const syncing = workers[0]!.sspSync(7, 1);
  await cluster.clock.advance(6500);
  assert.match(told(cluster).join("\n"), line("at clock 1 for the slowest to reach clock 1: worker 1 at clock 0"));
  await cluster.run(workers[1]!.sspSync(7, 1));
  await cluster.run(syncing);
});

test("a pull of a shared model under BSP that waits for another process is told", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  const { clock } = cluster;
  const open = async (rank: number): Promise<OwnerModel<Float32Array>> => {
    const session = await Session.open(cluster.worker(rank).node);
    const parts = { clock, timeline: () => clock.nowMs() };
    const model = new OwnerModel<Float32Array>("dist", { session, updater: { type: "sum" }, consistency: "bsp" }, parts);
    await model.init([0]);
    await model.initKey([4], 0, 0);
    return model;
  };
  const models = await cluster.run(Promise.all([0, 1].map(open)));
  const exchange = (model: OwnerModel<Float32Array>): Promise<unknown> => {
    const data = new Float32Array(4).fill(1);
    model.push(data, 0, 0);
    model.pullReq(data, 0, 0);
    return model.pullWait(0, 0);
  };
  const waiting = exchange(models[0]!);
  await clock.advance(6500);
  assert.match(told(cluster).join("\n"), line("at clock 1 for the slowest to reach clock 1: worker 1 at clock 0"));
  await cluster.run(Promise.all([waiting, exchange(models[1]!)]));
});

test("a training that waits for a worker whose steps are long tells it once a minute, not once a step", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 2 });
  const [stepCount, stepMs, batchSize] = [25, 6000, 2];
  const dataset = new ArrayDataset({
    labels: Array.from({ length: stepCount * batchSize }, (_, i) => i % 2),
    values: { shape: [3], floats: new Float32Array(stepCount * batchSize * 3).fill(0.5) },
  });
  const train = async (rank: number): Promise<void> => {
    const workspace = new Workspace();
    const network = new Sequential(workspace, {
      inputShape: [3],
      sampleCountMax: batchSize,
      layers: [dense({ name: "head", outputs: 2 })],
    });
    for (const parameter of network.parameters) setParamPs(parameter);
    const loss = new SoftmaxCrossEntropy(workspace, { classCount: 2, sampleCountMax: batchSize });
    const model = new Model(network, { loss, optimizer: { type: "sgd", learningRate: 0.1 } });
    const session = await Session.open(cluster.worker(rank).node);
    const stepEnd = (): Promise<void> => new Promise((go) => void cluster.clock.after(rank === 0 ? 0 : stepMs, go));
    await model.train(1, dataset, { session, batchSize, callbacks: [{ stepEnd }], consistency: "bsp" });
    await model.close();
    await session.close({ barrier: false });
  };
  await cluster.run(Promise.all([0, 1].map(train)));
  const lines = told(cluster);
  for (const text of lines) assert.match(text, line("at clock \\d+ for the slowest to reach clock \\d+: worker 1 at clock \\d+"));
  assert.equal(lines.length, Math.ceil((stepCount * stepMs) / 60_000), lines.join("\n"));
});

test("a checkpoint that waits for another worker's clock is told once, however many servers there are; one at a clock to come is not", async () => {
  const cluster = new MemoryCluster({ workerCount: 2, serverCount: 2 });
  const disk = new SimDisk(new Random(1), "/checkpoints");
  const files = (): object => ({ checkpointFiles: new ServerFiles("/checkpoints", disk.mount(cluster.clock, 0).layer) });
  const servers = [0, 1].map((rank) => cluster.startNode("server", rank, files()));
  const workers = [0, 1].map((rank) => cluster.startNode("worker", rank));
  await cluster.run(Promise.all([cluster.startNode("scheduler", 0), ...servers, ...workers]));
  const [fast, slow] = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
  fast!.clock();
  const { saved } = fast!.checkpoint();
  await cluster.clock.advance(4900);
  assert.deepEqual(told(cluster), []);
  await cluster.clock.advance(30_000);
  const [first, ...others] = told(cluster);
  assert.match(first!, line("for the slowest to reach clock 1: worker 1 at clock 0"));
  assert.deepEqual(others, []);
  slow!.clock();
  assert.equal((await cluster.run(saved)).clock, 1);
  const later = fast!.checkpoint({ clock: 3 }).saved;
  await cluster.clock.advance(30_000);
  assert.deepEqual(told(cluster), [], "nobody is late: its own worker has not come there");
  for (const session of [fast!, slow!, fast!, slow!]) session.clock();
  assert.equal((await cluster.run(later)).clock, 3);
});

test("a rendezvous that some workers do not come to is told once, with their names (RendezvousClient.C2)", async () => {
  const cluster = await MemoryCluster.start({ workerCount: 3 });
  const sessions = await cluster.run(Promise.all([0, 1, 2].map((rank) => Session.open(cluster.worker(rank).node))));
  const meet = (rank: number): Promise<unknown> => sessions[rank]!.rendezvous.meet("end", { generation: 0 });
  cluster.logLines.length = 0;
  const met = [meet(0)];
  await cluster.clock.advance(4500);
  assert.deepEqual(cluster.logLines, []);
  await cluster.clock.advance(30_000);
  const waits = (whom: string): string => `warn a wait for workers lasts longer than 5 s: at rendezvous 0 of "end" for ${whom}`;
  assert.deepEqual(cluster.logLines.splice(0), [waits("worker 1, worker 2")]);
  met.push(meet(2));
  await cluster.clock.advance(4500);
  assert.deepEqual(cluster.logLines, []);
  await cluster.clock.advance(30_000);
  assert.deepEqual(cluster.logLines, [waits("worker 1")]);
  await cluster.run(Promise.all([...met, meet(1)]));
});
