// The simulations of npm test, for seeds that they do not take. SOAK_SEEDS sets how many; a failing seed is in the message.

import { test } from "node:test";
import { runMixture } from "../differential/mixture.ts";
import { Checkpoints, undisturbed } from "../simulation/checkpoints.ts";
import { runChurn, runReduces } from "../simulation/collectives.ts";
import { runCrashes } from "../simulation/crashes.ts";
import { runCutLinks } from "../simulation/cut-links.ts";
import { runEmbeddingCache } from "../simulation/embedding-cache.ts";
import { runExactlyOnce } from "../simulation/exactly-once.ts";
import { runLentUnits } from "../simulation/lent-units.ts";
import { forSeeds } from "../simulation/seeds.ts";

const COUNT = Number(process.env.SOAK_SEEDS ?? 10_000);

test(`every push counts once, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 1_000_000, count: COUNT }, runExactlyOnce);
});

test(`updates over links that are cut count once or not at all, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 3_000_000, count: COUNT }, async (seed) => {
    await runCutLinks(seed);
  });
});

test(`clusters live through deaths, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 2_000_000, count: COUNT }, runCrashes);
});

test(`cached rows keep their bounds and lose nothing, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 4_000_000, count: COUNT }, runEmbeddingCache);
});

test(`epochs are done whole whoever dies, for ${COUNT} more seeds`, async () => {
  await forSeeds({ from: 5_000_000, count: COUNT }, (seed) => runLentUnits(seed, { workers: seed % 4 >= 2, scheduler: seed % 2 === 1 }));
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
