// Goal: a worker that was wrongly taken for dead (it was stopped, or cut off) hears of the clock that it ended and that
// does not count: one call fails and names it. Where nothing was lost it joins again by itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { quietCluster } from "./links.ts";

for (const consistency of ["bsp", "asp"] as const) {
  const what =
    consistency === "bsp"
      ? "is told once which clock of it does not count"
      : "is told of nothing where its updates were applied on arrival";
  test(`a worker that was taken for dead before the servers heard of the end of its clock ${what} (${consistency})`, async () => {
    const cluster = quietCluster({ serverCount: 2, workerCount: 2 });
    await cluster.start();
    const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
    const [others, stopped] = sessions as [Session, Session];
    const [theirs, own] = await cluster.run(
      Promise.all(sessions.map((session) => session.tensor("w", { shape: [4], optimizer: "sum", consistency }))),
    );
    const one = new Float32Array(4).fill(1);
    const step = async (): Promise<void> => {
      await Promise.all([theirs!.push(one), own!.push(one)]);
      for (const session of sessions) session.clock();
    };
    await cluster.run(step());
    await cluster.run(Promise.all([theirs!.push(one), own!.push(one)])); // both acknowledged at clock 1
    for (const host of ["scheduler", "server-0", "server-1"]) cluster.network.partition("worker-1", host);
    others.clock();
    stopped.clock(); // nobody hears of it
    const after = await cluster.run(theirs!.pull()); // once the other one is dead
    assert.deepEqual(after, new Float32Array(4).fill(consistency === "bsp" ? 3 : 4));
    cluster.network.heal();
    await cluster.run(new Promise<void>((resolve) => void cluster.clock.after(5_000, resolve)));

    const told: string[] = [];
    for (let attempt = 0; attempt < 4; attempt++) {
      await cluster.run(own!.pull()).catch((thrown: unknown) => {
        assert.ok(isWeighbridgeError(thrown, "NOT_JOINED") && thrown.retryable, String(thrown));
        told.push(thrown.message);
      });
    }
    assert.equal(told.length, consistency === "bsp" ? 1 : 0, told.join("\n"));
    for (const message of told) assert.match(message, /worker 1 was taken for dead .* pushed at clock 1 .* does not count/);
    assert.equal(stopped.clocks, 2);
    await cluster.run(step());
    assert.deepEqual(await cluster.run(own!.pull()), new Float32Array(4).fill(consistency === "bsp" ? 5 : 6));
    await cluster.finalize();
  });
}

for (const endsClock of [true, false]) {
  const when = endsClock ? "after it has ended its clock" : "in the midst of a clock";
  test(`a worker that is stopped ${when}, and calls as soon as it goes on, gets one NOT_JOINED, which names the clocks`, async () => {
    const cluster = quietCluster({ serverCount: 2, workerCount: 2 });
    await cluster.start();
    const sessions = await cluster.run(Promise.all([0, 1].map((rank) => Session.open(cluster.worker(rank).node))));
    const [others, stopped] = sessions as [Session, Session];
    const made = await cluster.run(
      Promise.all(sessions.map((session) => session.tensor("w", { shape: [300_000], optimizer: "sum", consistency: "bsp" }))),
    );
    const [theirs, own] = made as [Tensor, Tensor];
    const one = new Float32Array(own.size).fill(1);
    await cluster.run(Promise.all([theirs.push(one), own.push(one)]));
    for (const host of ["scheduler", "server-0", "server-1"]) cluster.network.partition("worker-1", host);
    others.clock();
    if (endsClock) stopped.clock(); // nobody hears of it
    await cluster.run(theirs.pull()); // once the other one is dead

    const told: string[] = [];
    const persist = async (call: () => Promise<unknown>): Promise<void> => {
      for (;;) {
        try {
          await call();
          return;
        } catch (thrown) {
          assert.ok(isWeighbridgeError(thrown, "NOT_JOINED") && thrown.retryable, String(thrown));
          told.push(thrown.message);
        }
      }
    };
    const calls = persist(() => own.push(one)); // leaves while nobody hears it
    cluster.network.heal();
    await cluster.run(calls);
    await cluster.run(persist(() => own.pull()));
    assert.equal(told.length, 1, told.join("\n"));
    const lost = endsClock
      ? /pushed at clock 0 .* does not count; it has joined again, and stands at clock 1:/
      : /^worker 1 was taken for dead, and out of the clock set.*; it has joined again, and stands at clock 1:/;
    assert.match(told[0] ?? "", lost);
    assert.match(told[0] ?? "", /push again what it had pushed .* at the clock that it had not ended$/);
    await cluster.finalize();
  });
}
