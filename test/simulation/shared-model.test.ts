// Goal: over a slow link, what is urgent overtakes what is large, and the exchange of a layer hides behind the
// computing of others; when a node dies in the middle of a round, those that wait are told who. In simulated time.

import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { runLayers } from "../../bench/layered-training.ts";
import { Session } from "../../src/api/session.ts";
import { OwnerModel } from "../../src/faces/shared-model/owner-model.ts";
import type { DistOptions } from "../../src/faces/shared-model/shared-model.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import type { SimNetworkOptions } from "../../src/testing/sim-network.ts";
import { throwsCode } from "../../src/testing/throws-code.ts";
import { idOf } from "../../src/wire/node-id.ts";

type Model = OwnerModel<Float32Array>;
type Stage = { readonly cluster: SimCluster; readonly models: readonly Model[] };

async function stageOf(
  network: Omit<SimNetworkOptions, "clock" | "seed">,
  lengths: readonly number[],
  { workerCount = 1, ...options }: DistOptions & { readonly workerCount?: number } = {},
  heartbeatTimeoutMs = 60_000,
): Promise<Stage> {
  const cluster = new SimCluster({ seed: 1, serverCount: 1, workerCount, heartbeatTimeoutMs, network });
  await cluster.start();
  const { clock } = cluster;
  const ranks = Array.from({ length: workerCount }, (_, rank) => rank);
  const updater = options.through === "allReduce" ? {} : { updater: { type: "sum" } as const };
  const models = await cluster.run(
    Promise.all(
      ranks.map(async (rank) => {
        const session = await Session.open(cluster.worker(rank).node);
        const parts = { clock, timeline: () => clock.nowMs() };
        const model = new OwnerModel<Float32Array>("dist", { session, ...updater, ...options }, parts);
        await model.init([0]);
        for (const [key, length] of lengths.entries()) await model.initKey([length], key, 0);
        return model;
      }),
    ),
  );
  return { cluster, models };
}

function sleep({ clock }: SimCluster, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.after(ms, resolve));
}

suite("over a link of a megabyte in 10 ms", () => {
  const network = { latencyMsMin: 1, latencyMsMax: 1, bytesPerMs: 100_000, windowBytes: 256 * 1024 };
  const huge = 4_000_000;

  for (const options of [{}, { consistency: "bsp" }, { through: "allReduce", workerCount: 2 }] as const)
    test(`an urgent small key that is pushed late overtakes a huge one, and equal ones keep their order: ${JSON.stringify(options)}`, async () => {
      const { cluster, models } = await stageOf(network, [huge, 10, 10, 10], options);
      const ended: [key: number, ms: number][] = [];
      const fromMs = cluster.clock.nowMs();
      const exchange = (model: Model, key: number, priority: number): void => {
        const data = new Float32Array(key === 0 ? huge : 10).fill(1);
        model.push(data, key, 0, priority);
        model.pullReq(data, key, 0, priority, () => {
          assert.equal(data.at(-1), options.through === "allReduce" ? 2 : 1);
          if (model === models[0]) ended.push([key, cluster.clock.nowMs() - fromMs]);
        });
      };
      for (const model of models) exchange(model, 0, 0);
      await cluster.run(sleep(cluster, 20));
      for (const model of models) for (const key of [1, 2, 3]) exchange(model, key, [0, -1, 9, 9][key]!);
      await cluster.run(Promise.all(models.map((model) => model.pullWaitAll(0))));
      const order = ended.map(([key]) => key);
      // Among workers, what begins with the end of the huge one may be over before it.
      if (options.through === "allReduce") assert.deepEqual(order.slice(0, 2), [2, 3], JSON.stringify(ended));
      else assert.deepEqual(order, [2, 3, 0, 1], JSON.stringify(ended));
    });
});

suite("overlap", () => {
  const layers = { layerMs: 100, steps: 4, latencyMs: 0, bytesPerMs: 25_000, lengths: Array<number>(6).fill(250_000) };

  test("six equal layers over a link that needs 0.4 of a layer's time each way: a third of the waiting at most, and the trace shows it", async () => {
    const [on, off] = [await runLayers({ ...layers, overlaps: true }), await runLayers({ ...layers, overlaps: false })];
    assert.ok(on.waitedMs <= off.waitedMs / 3, `${on.waitedMs} of ${off.waitedMs} ms`);
    const computed = layers.layerMs * layers.lengths.length * layers.steps;
    assert.ok(on.allMs < computed + on.waitedMs + 1, "there is nothing else that takes time");
    const spans = on.trace.traceEvents.filter(({ ph }) => ph === "X");
    const exchanges = spans.filter(({ name }) => name === "exchange key 5");
    assert.equal(exchanges.length, layers.steps);
    const computing = spans.filter(({ name }) => name.startsWith("compute"));
    const hidden = exchanges.filter((exchange) => computing.some(({ ts = 0, dur = 0 }) => ts <= exchange.ts! && exchange.ts! < ts + dur));
    assert.ok(hidden.length >= layers.steps - 1, "the last layer's exchange is within the computing of others");
  });

  test("the latency of the first layer cannot be hidden: its gradient is the last to be computed, and its weights the first to be needed", async () => {
    const net = { lengths: [78_400, 100, 1000, 10], layerMs: 2, steps: 5, latencyMs: 20, bytesPerMs: 100_000 };
    const [on, off] = [await runLayers({ ...net, overlaps: true }), await runLayers({ ...net, overlaps: false })];
    for (const { waitedMs } of [on, off]) assert.ok(waitedMs >= net.steps * 2 * net.latencyMs, `${waitedMs} ms`);
  });
});

suite("a node that dies in the middle of a round", () => {
  const network = { latencyMsMin: 1, latencyMsMax: 1 };
  const pushTo = (model: Model): void => {
    const data = new Float32Array(10);
    model.push(data, 0, 0);
    model.pullReq(data, 0, 0);
  };

  for (const options of [{}, { consistency: "bsp", workerCount: 2 }] as const)
    test(`the server: the pull fails with its name: ${JSON.stringify(options)}`, async () => {
      const { cluster, models } = await stageOf(network, [10], options, 1000);
      pushTo(models[0]!);
      await cluster.run(sleep(cluster, 0.5));
      cluster.kill(idOf("server", 0));
      await cluster.run(assert.rejects(models[0]!.pullWait(0, 0), throwsCode("NODE_DEAD", /server 0/)));
      await cluster.run(Promise.resolve(models[0]!.close()));
    });

  test("a worker: an all-reduce fails with its name, and under BSP the others go on without it", async () => {
    for (const options of [{ through: "allReduce", workerCount: 3 } as const, { consistency: "bsp", workerCount: 3 } as const]) {
      const { cluster, models } = await stageOf(network, [10], options, 1000);
      for (const model of models.slice(0, 2)) pushTo(model);
      await cluster.run(sleep(cluster, 5));
      cluster.kill(idOf("worker", 2));
      for (const model of models.slice(0, 2)) {
        const waits = model.pullWait(0, 0);
        if ("through" in options) await cluster.run(assert.rejects(waits, throwsCode("NODE_DEAD", /worker 2/)));
        else await cluster.run(waits);
      }
    }
  });
});

test("a worker that was taken for dead learns it from its next exchange, before the scheduler has told it", async () => {
  const { cluster, models } = await stageOf({}, [3], { consistency: "bsp", workerCount: 2 }, 2000);
  const exchange = async (model: Model, to: Float32Array): Promise<void> => {
    model.push(to, 0, 0);
    model.pullReq(to, 0, 0);
    await model.pullWait(0, 0);
  };
  await cluster.run(Promise.all(models.map((model) => exchange(model, new Float32Array(3).fill(1)))));
  cluster.network.partition("worker-0", "scheduler", { breakLinks: true });
  await cluster.clock.advance(5000);
  const [out, other] = models as [Model, Model];
  await cluster.run(exchange(other, new Float32Array(3).fill(1))); // it goes on
  await assert.rejects(cluster.run(exchange(out, new Float32Array(3).fill(1))), throwsCode("NODE_DEAD", /worker 0 is over/));
});
