// Goal: a training survives its nodes. A worker that dies gives its units to the others, who do every unit that is left; a server that comes back from its checkpoint
// lets training go on; a worker that is started again is lent units again. Nobody hangs, and what was repeated is counted. More of hybrid trainings is in test/soak.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { Session } from "../../src/api/session.ts";
import { dataset, train, UNITS, workerComesBack, workerDies } from "./churn-cases.ts";
import { RestartableCluster } from "./restartable-cluster.ts";

const TIMEOUT = { timeout: 60_000 };

for (const isHybrid of [false, true]) {
  test(`a worker that dies leaves its units to the others, ${isHybrid ? "hybrid" : "all on servers"}`, TIMEOUT, async () => {
    await workerDies({ isHybrid });
  });
}

test("a worker that is started again takes part in what is left", TIMEOUT, async () => {
  await workerComesBack({ isHybrid: false });
});

test("a server that is restarted from its checkpoint lets training go on", { timeout: 60_000 }, async () => {
  const checkpointDir = mkdtempSync(join(tmpdir(), "weighbridge-churn-"));
  try {
    await using cluster = await RestartableCluster.start({ servers: 2, workers: 2, checkpointDir });
    const [one, two] = cluster.sessions as [Session, Session];
    let restarting: Promise<void> | undefined;
    const stepEnd = async ({ epoch, step }: { epoch: number; step: number }): Promise<void> => {
      if (epoch === 1 && step === 15) await one.checkpoint();
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
  } finally {
    rmSync(checkpointDir, { recursive: true, force: true });
  }
});
