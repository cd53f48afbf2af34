// The simulations of npm test, for seeds that they do not take. SOAK_SEEDS sets how many; a failing seed is in the
// message.

import assert from "node:assert/strict";
import { test } from "node:test";
import { runMixture } from "../differential/mixture.ts";
import { runAcknowledged, runBits, runPace, undisturbedReads } from "../simulation/changing-placement.ts";
import { Checkpoints, undisturbed } from "../simulation/checkpoints.ts";
import { runChurn, runReduces } from "../simulation/collectives.ts";
import { runCrashes } from "../simulation/crashes.ts";
import { runCutLinks } from "../simulation/cut-links.ts";
import { CUT_FAULTS, runCutScheduler } from "../simulation/cut-scheduler.ts";
import { runBlackouts, runComebacks } from "../simulation/durable.ts";
import { runEmbeddingCache } from "../simulation/embedding-cache.ts";
import { runExactlyOnce } from "../simulation/exactly-once.ts";
import { drawFaults, runFailover } from "../simulation/failover.ts";
import { calmTraining, FAILOVER_VICTIMS, killWhileTraining } from "../simulation/failover-kills.ts";
import { killWhileFilling, runFilling } from "../simulation/filling.ts";
import { runLentUnits } from "../simulation/lent-units.ts";
import { runLinks } from "../simulation/links.ts";
import { runModeChanges } from "../simulation/mode-changes.ts";
import { runMovingCheckpoints } from "../simulation/moving-checkpoints.ts";
import { killWhileMoving, MOVING_VICTIMS, STOPPED_VICTIMS, stopWhileMoving } from "../simulation/moving-kills.ts";
import { runMovingParts } from "../simulation/moving-parts.ts";
import { runParameters } from "../simulation/parameters.ts";
import { runPlacementCrashes } from "../simulation/placement-crashes.ts";
import { runAhead } from "../simulation/run-ahead.ts";
import { runScalingReplicas, trainWhile } from "../simulation/scaling-replicas.ts";
import { forSeeds } from "../simulation/seeds.ts";
import { stopAtBoundary, stopCopiesWhileMoving, stopTogether, stopWhileReplaced } from "../simulation/stopped-together.ts";
import { runUpdateOutcomes, type Weather } from "../simulation/update-outcomes.ts";
import { runCalledWorkers, runCrashedCalls } from "../simulation/worker-functions.ts";

const COUNT = Number(process.env.SOAK_SEEDS ?? 10_000);

test(`every push counts once, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 1_000_000, count: COUNT }, runExactlyOnce);
});

test(`updates over links that are cut count once or not at all, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 3_000_000, count: COUNT }, async (seed) => {
    await runCutLinks(seed);
  });
});

test(`the outcome of a failed update is what the servers have, for ${Math.ceil(COUNT / 20)} more seeds of each kind`, async () => {
  for (const weather of ["links", "moving", "failover"] as const satisfies readonly Weather[])
    for (const repeats of [false, true])
      await forSeeds({ from: 33_000_000, count: Math.ceil(COUNT / 20) }, async (seed) => {
        await runUpdateOutcomes(seed, { weather, tally: new Map(), repeats });
      });
});

test(`a scheduler that was cut off or stopped, and comes back, hurts nobody, for ${Math.ceil(COUNT / 100)} more seeds`, async () => {
  await forSeeds({ from: 31_000_000, count: Math.ceil(COUNT / 100) }, async (seed) => {
    const replicas = seed % 2 === 0 ? 1 : 2;
    const fault = CUT_FAULTS[seed % CUT_FAULTS.length];
    assert.ok(fault !== undefined);
    const calm = await runCutScheduler(seed, { replicas, work: "train" });
    const cut = await runCutScheduler(seed, { replicas, work: "train", fault });
    assert.deepEqual(cut.bits, calm.bits, `seed ${seed}`);
    await runCutScheduler(seed, { replicas, work: "rest", fault });
  });
});

test(`a call of a server to a worker runs once, for ${Math.ceil(COUNT / 10)} more seeds`, async () => {
  await forSeeds({ from: 16_000_000, count: Math.ceil(COUNT / 10) }, runCalledWorkers);
});

test(`it runs once at most, and ends, whoever is killed, for ${Math.ceil(COUNT / 10)} more seeds`, async () => {
  await forSeeds({ from: 17_000_000, count: Math.ceil(COUNT / 10) }, runCrashedCalls);
});

test(`clusters live through deaths, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 2_000_000, count: COUNT }, runCrashes);
});

test(`no call fails and every update counts once when heads, standbys and schedulers die, for ${Math.ceil(COUNT / 10)} more seeds`, async () => {
  await forSeeds({ from: 18_000_000, count: Math.ceil(COUNT / 10) }, async (seed) => void (await runFailover(seed, drawFaults(seed))));
});

test(`pushes that standbys have before their heads handle them count once, for ${Math.ceil(COUNT / 20)} more seeds`, async () => {
  await forSeeds({ from: 24_000_000, count: Math.ceil(COUNT / 20) }, async (seed) => void (await runAhead(seed)));
});

test(`standbys that come later are filled exactly, whoever dies, for ${Math.ceil(COUNT / 25)} more seeds`, async () => {
  await forSeeds({ from: 19_000_000, count: Math.ceil(COUNT / 25) }, async (seed) => {
    assert.equal((await runFilling(seed)).differing, 0, "no standby differed from its head");
  });
});

test("somebody dies at every boundary between two events of a training with standbys, and of a takeover", async () => {
  const expected = await calmTraining();
  for (const victim of FAILOVER_VICTIMS) {
    let events = 1;
    while (!(await killWhileTraining(victim, events, expected))) events++;
  }
});

test("somebody dies at every boundary between two events of a copy", async () => {
  for (const victim of ["head", "standby", "scheduler"] as const) {
    let events = 1;
    while (!(await killWhileFilling(victim, events))) events++;
  }
});

test(`both copies of ranks are stopped together, and one leaves all they had, for ${Math.ceil(COUNT / 20)} more seeds`, async () => {
  await forSeeds({ from: 28_000_000, count: Math.ceil(COUNT / 20) }, (seed) =>
    stopTogether({ seed, serverCount: 1 + (seed % 2), dies: seed % 3 === 0, areFilling: seed % 5 === 0 }),
  );
  await forSeeds({ from: 30_000_000, count: Math.ceil(COUNT / 50) }, stopCopiesWhileMoving);
  await forSeeds({ from: 29_000_000, count: Math.ceil(COUNT / 20) }, async (seed) => void (await stopWhileReplaced(seed)));
});

test("one copy of a rank is stopped, and the other at every boundary between two events of that", async () => {
  for (const first of ["head", "standby"] as const) {
    let events = 0;
    while (!(await stopAtBoundary(first, events))) events++;
  }
});

test(`parts move between replicated servers whose heads and standbys die, for ${Math.ceil(COUNT / 50)} more seeds`, async () => {
  const expected = await undisturbedReads();
  await forSeeds({ from: 20_000_000, count: Math.ceil(COUNT / 50) }, async (seed) => {
    await runBits(seed, expected, seed % 2 === 0 ? "parts" : "servers", { isReplicated: true });
  });
});

test(`replicated servers come and leave while heads, standbys and schedulers die, for ${Math.ceil(COUNT / 50)} more seeds`, async () => {
  const expected = await trainWhile(1, async () => {});
  await forSeeds({ from: 22_000_000, count: Math.ceil(COUNT / 50) }, async (seed) => void (await runScalingReplicas(seed, expected)));
});

test(`parts move between durable servers that die and come back, for ${Math.ceil(COUNT / 100)} more seeds`, async () => {
  await forSeeds({ from: 21_000_000, count: Math.ceil(COUNT / 100) }, async (seed) => {
    await runComebacks(seed, { moves: { count: 0 } });
  });
});

test("somebody dies at every boundary between two events of a change of the placement", async () => {
  for (const victim of MOVING_VICTIMS) {
    let events = 1;
    while (!(await killWhileMoving(victim, events))) events++;
  }
});

test("a server is stopped on purpose, and started again, at every boundary between two events of a change of the placement", async () => {
  for (const victim of STOPPED_VICTIMS) {
    let events = 1;
    while (!(await stopWhileMoving(victim, events))) events++;
  }
});

test(`cached rows keep their bounds and lose nothing, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 4_000_000, count: COUNT }, runEmbeddingCache);
});

test(`epochs are done whole whoever dies, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 5_000_000, count: COUNT }, (seed) =>
    runLentUnits(seed, { workers: seed % 4 >= 2, scheduler: seed % 2 === 1, joins: seed % 8 >= 4 }),
  );
});

test(`workers reduce exactly over bad links, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 6_000_000, count: COUNT }, runReduces);
});

test(`workers that are left reduce on when nodes die, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 7_000_000, count: COUNT }, async (seed) => {
    await runChurn(seed);
  });
});

test(`no cut is wrong and none is lost, for ${Math.ceil(COUNT / 10)} more seeds`, async () => {
  const reference = await undisturbed();
  await forSeeds({ from: 8_000_000, count: Math.ceil(COUNT / 10) }, (seed) => new Checkpoints(seed, reference).run());
});

test(`mixtures of parameters and calls come to what a plain model does, for ${Math.ceil(COUNT / 10)} more seeds`, async () => {
  await forSeeds({ from: 9_000_000, count: Math.ceil(COUNT / 10) }, async (seed) => await runMixture(seed, { isChanging: seed % 2 === 1 }));
});

const CHANGING = Math.ceil(COUNT / 20);

test(`nodes die and links are cut at every phase of a change of the placement, for ${CHANGING} more seeds`, async () => {
  await forSeeds({ from: 10_000_000, count: CHANGING }, async (seed) => void (await runPlacementCrashes(seed)));
});

test(`checkpoints are whole, and what workers do is exact, while parts move, for ${CHANGING} more seeds`, async () => {
  const [reference, reads, changes] = [await undisturbed(), await undisturbedReads(), { count: 0 }];
  await forSeeds({ from: 11_000_000, count: CHANGING }, async (seed) => {
    await runAcknowledged(seed);
    await runAcknowledged(seed, "servers");
    await runPace(seed, "servers");
    await runBits(seed, reads, "servers");
    await runMovingParts(seed, changes, "servers");
    await runPace(seed);
    await runBits(seed, reads);
    await runMovingParts(seed, changes);
    await runMovingCheckpoints(seed, changes);
    await runExactlyOnce(seed, changes);
    await runEmbeddingCache(seed, changes);
    await runModeChanges(seed, changes);
    assert.deepEqual(await runParameters(seed, seed + 1, changes), await runParameters(seed));
    assert.deepEqual(await runLinks(seed, seed + 1, changes), await runLinks(seed));
    if (seed % 4 === 0) await new Checkpoints(seed, reference, changes).run();
  });
});

test("durable servers lose nothing when everything dies, and come back one by one, for 30 seeds", async () => {
  await forSeeds({ from: 2, count: 30 }, async (seed) => {
    await runBlackouts(seed);
    await runComebacks(seed);
  });
});
