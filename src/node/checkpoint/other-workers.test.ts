// Goal: a checkpoint goes on with another number of workers, too, also of DC-ASGD, which compares with what each of
// them has pulled.

import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryFolder } from "../../../test/support/checkpoint-stage.ts";
import type { Session } from "../../api/session.ts";
import type { Tensor } from "../../worker/tensor.ts";
import { EmbeddedCluster } from "../embedded-cluster.ts";

const SHAPE = [5, 3];
const ones = new Float32Array(15).fill(1);

async function tensorOf(session: Session): Promise<Tensor> {
  return await session.tensor("delayed", {
    shape: SHAPE,
    init: { type: "normal", seed: 4 },
    optimizer: { type: "dcAsgd", learningRate: 0.1 },
  });
}

/** What a push of each of these workers makes of the tensor, one after the other, without a read in between. */
async function pushes(sessions: readonly Session[]): Promise<Float32Array[]> {
  const tensors = await Promise.all(sessions.map(tensorOf));
  const values: Float32Array[] = [];
  for (const tensor of tensors) values.push(await tensor.pushPull(ones, "all"));
  return values;
}

test("a restored job goes on with any number of workers: each counts as having pulled what was restored", async () => {
  using folder = temporaryFolder();
  const checkpointDir = folder.path;
  await using before = await EmbeddedCluster.start({ workers: 2, checkpointDir });
  await pushes(before.sessions); // worker 0 has not seen what worker 1 pushed
  await before.session.checkpoint().saved;

  for (const workers of [1, 2, 3]) {
    const restored = { servers: 2, workers, restore: checkpointDir };
    await using cluster = await EmbeddedCluster.start(restored);
    await using reader = await EmbeddedCluster.start(restored);
    for (const session of reader.sessions) await (await tensorOf(session)).pull();
    assert.deepEqual(await pushes(cluster.sessions), await pushes(reader.sessions), `${workers} workers`);
  }
});

test("one parameter alone is loaded with another number of workers, too", async () => {
  using folder = temporaryFolder();
  const checkpointDir = folder.path;
  await using before = await EmbeddedCluster.start({ workers: 2, checkpointDir });
  await pushes(before.sessions);
  await before.session.saveParameter("delayed", "alone");
  const saved = await (await tensorOf(before.session)).pull();

  await using cluster = await EmbeddedCluster.start({ servers: 2, workers: 1, checkpointDir });
  const tensor = await tensorOf(cluster.session);
  await cluster.session.loadParameter("delayed", "alone");
  assert.deepEqual(await tensor.pull(), saved);
});
