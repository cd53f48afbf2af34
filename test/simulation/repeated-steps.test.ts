// Goal: the loop of docs/guides/when-nodes-fail.md. Under BSP a step that is repeated after a server died counts once
// on every server that lives, whenever the server dies.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Session } from "../../src/api/session.ts";
import { isWeighbridgeError } from "../../src/base/errors.ts";
import { partOf } from "../../src/keys/placement.ts";
import { ringPlacement } from "../../src/keys/ring-placement.ts";
import { SimCluster } from "../../src/testing/sim-cluster.ts";
import { idOf } from "../../src/wire/node-id.ts";
import type { Tensor } from "../../src/worker/tensor.ts";
import { forSeeds } from "./seeds.ts";

const SEEDS = 2;
const STEPS = 11;
const WORKERS = 2;
const LIVES = 0;
const DIES = 1;
const BSP = { shape: [4], optimizer: "sum", consistency: "bsp" } as const;
const ONES = new Float32Array(4).fill(1);

/** The first number of a tensor whose only block is this server's. */
function numberOn(server: number): number {
  const placement = ringPlacement({ servers: [0, 1], epoch: 1 });
  for (let number = 1; ; number++) if (placement.ownerOf(partOf(0, number)) === server) return number;
}

/**
 * Makes so many tensors, of which one is on each server: all workers make them in the same order, which is that of
 * their numbers.
 */
async function makeModel(session: Session): Promise<Model> {
  const tensors: Tensor[] = [];
  const count = Math.max(numberOn(LIVES), numberOn(DIES));
  for (let number = 1; number <= count; number++) tensors.push(await session.tensor(`w${number}`, BSP));
  return { holders: tensors[numberOn(LIVES) - 1] as Tensor, dies: tensors[numberOn(DIES) - 1] as Tensor };
}

type Model = { readonly holders: Tensor; readonly dies: Tensor };

/** The guide's loop, with two parameters. */
async function train(session: Session, cluster: SimCluster): Promise<void> {
  let model: Model | undefined;
  let isRepeated = false;
  while (session.clocks < STEPS) {
    try {
      if (isRepeated) await session.rejoin();
      isRepeated = false;
      model ??= await makeModel(session);
      await model.holders.pull({ timeoutMs: 60_000 });
      await model.holders.push(ONES);
      await model.dies.push(ONES); // fails while the other push has been taken
      session.clock();
    } catch (error) {
      if (!isWeighbridgeError(error)) throw error;
      isRepeated = true;
      if (error.code === "UNKNOWN_PARAMETER") model = undefined;
      else if (error.retryable || error.outcome === "unknown") await new Promise<void>((wake) => cluster.clock.after(500, wake));
      else throw error;
    }
  }
}

test(`under BSP a step that is repeated after NODE_DEAD counts once where the parameter was not on the dead server, for ${SEEDS} seeds`, async () => {
  await forSeeds({ from: 3, count: SEEDS }, async (seed) => {
    const cluster = new SimCluster({
      seed,
      serverCount: 2,
      workerCount: WORKERS,
      placement: "ring", // as numberOn has it
      heartbeatTimeoutMs: 500,
      heartbeatIntervalMs: 100,
      network: { latencyMsMin: 0, latencyMsMax: 5 },
    });
    await cluster.start();
    const ranks = Array.from({ length: WORKERS }, (_, rank) => rank);
    const sessions = await cluster.run(Promise.all(ranks.map((rank) => Session.open(cluster.worker(rank).node))));
    const training = Promise.all(sessions.map((session) => train(session, cluster)));
    training.catch(() => {}); // waited for below
    const victim = idOf("server", DIES);
    await cluster.run(new Promise<void>((wake) => cluster.clock.after(5 + cluster.random.below(100), wake)));
    cluster.kill(victim);
    await cluster.run(new Promise<void>((wake) => cluster.clock.after(1000 + cluster.random.below(1000), wake)));
    await cluster.run(cluster.startNode(victim));
    await cluster.run(training);
    const [first] = sessions;
    assert.ok(first !== undefined);
    const { holders } = await cluster.run(makeModel(first));
    assert.deepEqual([...(await cluster.run(holders.pull()))], Array(4).fill(STEPS * WORKERS));
  });
});
