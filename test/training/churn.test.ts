// Goal: a training survives its nodes. A worker that dies gives its units to the others, who do every unit that is
// left; a server that comes back from its checkpoint lets training go on; a worker that is started again is lent units
// again. Nobody hangs, and what was repeated is counted. Many rounds of the hybrid ones are in test/soak.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { temporaryDirectory } from "../support/temporary-directory.ts";
import { dataset, type Setup, train, UNITS, workerComesBack, workerDies, workerDiesAtTheEnd } from "./churn-cases.ts";
import { RestartableCluster } from "./restartable-cluster.ts";

const SETUPS: readonly (readonly [string, Setup])[] = [
  ["all on servers", { isHybrid: false }],
  ["hybrid", { isHybrid: true }],
  ["hybrid, cached", { isHybrid: true, vocabCacheSize: 10 }],
];

for (const [name, setup] of SETUPS) {
  test(`a worker that dies leaves its units to the others, ${name}`, async () => {
    await workerDies(setup);
  });

  test(`a worker that is started again takes part in what is left, ${name}`, async () => {
    await workerComesBack(setup);
  });
}

for (const epoch of [1, 3]) {
  test(`a worker that dies over the word that epoch ${epoch} of 3 is over holds nobody up`, async () => {
    await workerDiesAtTheEnd({ isHybrid: true }, epoch);
  });
}

test("a server that is restarted from its checkpoint lets training go on", async () => {
  const checkpointDir = temporaryDirectory("churn");
  await using cluster = await RestartableCluster.start({ servers: 2, workers: 2, checkpointDir });
  const [one, two] = cluster.sessions as [Session, Session];
  let restarting: Promise<void> | undefined;
  const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
    if (epoch === 1 && step === 15) await one.checkpoint().saved;
    if (epoch === 2 && step === 3) {
      restarting = cluster.kill("server", 1).then(async () => await cluster.startServer(1, checkpointDir));
    }
  };
  const [first, second] = await Promise.all([
    train(one, { isHybrid: false }, { callbacks: [{ stepEnd }] }),
    train(two, { isHybrid: false }),
  ]);
  await restarting;
  assert.ok(first.retryCount + second.retryCount > 0, "somebody noticed");
  assert.equal(first.stepCount + second.stepCount, 2 * UNITS);
  const { accuracy } = await first.model.eval(dataset);
  assert.ok(accuracy! > 0.9, `accuracy ${accuracy}`);
});
