// deadlines.test — Goal: a DEADLINE of a read that waits at the servers names the slowest worker (spec/consistency.md,
// P3), whichever way the read took; one that does not wait there names nobody.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Session } from "../api/session.ts";
import { psFunction } from "../contracts/ps-function.ts";
import { EmbeddedCluster } from "../node/embedded-cluster.ts";
import { SimCluster } from "../testing/sim-cluster.ts";

const DEADLINE = { timeoutMs: 20 } as const;
const SLOWEST = /^waited 20 ms for .*: it waits at clock 2 for the slowest to reach clock 2: worker 1, worker 2 at clock 0$/;
const BSP = { shape: [4, 2], optimizer: "sum", consistency: "bsp" } as const;

/** A call that does not end by itself. */
const never = psFunction({ name: "never", request: {}, response: {}, handler: () => new Promise<never>(() => {}) });

let cluster: EmbeddedCluster;
before(async () => {
  cluster = await EmbeddedCluster.start({ servers: 2, workers: 3, functions: [never] });
  cluster.session.clock();
  cluster.session.clock();
});
after(async () => await cluster.close());

const READS: Readonly<Record<string, (session: Session) => Promise<() => Promise<unknown>>>> = {
  "a pull": async (session) => {
    const tensor = await session.tensor("w", BSP);
    return () => tensor.pull(DEADLINE);
  },
  "a pull of rows of a tensor": async (session) => {
    const tensor = await session.tensor("w", BSP);
    return () => tensor.pullRows([1, 2], DEADLINE);
  },
  "a push and pull": async (session) => {
    const tensor = await session.tensor("w", BSP);
    return () => tensor.pushPull(new Float32Array(8), "all", DEADLINE);
  },
  "a pull over a link that carries less": async (session) => {
    const tensor = await session.tensor("less", { ...BSP, link: { pull: "fp16" } });
    return () => tensor.pull(DEADLINE);
  },
  "a pull of an embedding": async (session) => {
    const table = await session.embedding("t", { dim: 2, optimizer: "sum", consistency: "bsp" });
    return () => table.pull([1, 2, 3], DEADLINE);
  },
};

for (const [what, open] of Object.entries(READS)) {
  test(`the DEADLINE of ${what} that waits for slower workers names them, and comes in time`, async () => {
    const read = await open(cluster.session);
    const startedAtMs = performance.now();
    const retryable = what !== "a push and pull"; // its push counts
    await assert.rejects(read(), { code: "DEADLINE", retryable, message: SLOWEST });
    assert.ok(performance.now() - startedAtMs < 1000);
  });
}

test("the DEADLINE of a call that waits for no other worker names nobody", async () => {
  const { session } = cluster;
  await assert.rejects(session.call(never, { server: 0 }, {}, DEADLINE), { code: "DEADLINE", message: "waited 20 ms for never" });
});

/** A cluster in which a call takes longer than DEADLINE to get to its server. */
async function startFarCluster(): Promise<SimCluster> {
  const far = new SimCluster({
    ...{ seed: 1, serverCount: 1, workerCount: 2, settle: () => setImmediate() },
    network: { latencyMsMin: 50, latencyMsMax: 50 },
  });
  await far.start();
  return far;
}

const PUSHES: Readonly<
  Record<string, (session: Session) => Promise<readonly [pushed: Promise<unknown>, pull: () => Promise<Float32Array>]>>
> = {
  "a push": async (session) => {
    const tensor = await session.tensor("w", { shape: [2], optimizer: "sum" });
    return [tensor.push(Float32Array.of(1, 1), DEADLINE), () => tensor.pull()];
  },
  "a push and pull": async (session) => {
    const tensor = await session.tensor("w", { shape: [2], optimizer: "sum" });
    return [tensor.pushPull(Float32Array.of(1, 1), "all", DEADLINE), () => tensor.pull()];
  },
  "a push of rows of a tensor": async (session) => {
    const tensor = await session.tensor("w", { shape: [2, 1], optimizer: "sum" });
    return [tensor.pushRows([0, 1], Float32Array.of(1, 1), DEADLINE), () => tensor.pull()];
  },
  "a push and pull of rows of a tensor": async (session) => {
    const tensor = await session.tensor("w", { shape: [2, 1], optimizer: "sum" });
    const push = { rows: [0, 1], gradients: Float32Array.of(1, 1) };
    return [tensor.pushPull(push, [0], DEADLINE), () => tensor.pull()];
  },
  "a push of an embedding": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum" });
    return [table.push([1, 2], Float32Array.of(1, 1), DEADLINE), () => table.pull([1, 2])];
  },
  "a push and pull of an embedding": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum" });
    const push = { keys: [1, 2], gradients: Float32Array.of(1, 1) };
    return [table.pushPull(push, [1], DEADLINE), () => table.pull([1, 2])];
  },
  "an update of a cache": async (session) => {
    const table = await session.embedding("t", { dim: 1, optimizer: "sum", versions: true });
    return [table.cached({ rows: 4 }).push([1, 2], Float32Array.of(1, 1), DEADLINE), () => table.pull([1, 2])];
  },
};

for (const [what, open] of Object.entries(PUSHES)) {
  test(`the DEADLINE of ${what} says that it may still be applied, and then it is`, async () => {
    const far = await startFarCluster();
    const session = await far.run(Session.open(far.worker(0).node));
    const [pushed, pull] = await far.run(
      open(session).then(async ([push, read]) => [await push.catch((thrown: unknown) => thrown), read] as const),
    );
    assert.match(String(pushed), /waited 20 ms for .*, which may still be applied$/);
    assert.deepEqual(await far.run(pull()), Float32Array.of(1, 1));
    await far.finalize();
  });
}

test("the DEADLINE of a read that is still on its way names nobody, though others are behind", async () => {
  const far = await startFarCluster();
  const [session] = await far.run(Promise.all([0, 1].map((rank) => Session.open(far.worker(rank).node))));
  assert.ok(session !== undefined);
  session.clock();
  const table = await far.run(session.embedding("free", { dim: 1, optimizer: "sum", consistency: "asp" }));
  await assert.rejects(far.run(table.pull([1], DEADLINE)), { code: "DEADLINE", message: 'waited 20 ms for rows of "free"' });
  await far.finalize();
});
