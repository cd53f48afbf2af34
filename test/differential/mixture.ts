// Goal: whatever optimizer, row type, consistency, link, cache, number of servers and order of calls meet, every read
// is what a plain model makes of the same calls; and so it stays while parts move from server to server, through
// changes of rates and consistencies, parameters that are cleared, saved and loaded, and checkpoints that other numbers
// of servers take up.
//
// Calls are made one after the other, so that the model knows their order. All chance comes from the seed, which is in
// every failure.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import { changePlacement, drawChange } from "../../src/testing/change-placement.ts";
import { drawParameter, pick } from "./drawn-parameter.ts";
import { OpenCluster } from "./open-cluster.ts";
import { type Stage, Subject } from "./subject.ts";
import { PLUG_INS, TYPED_KINDS, TypedSubject } from "./typed-subject.ts";

const SERVER_COUNTS = [1, 2, 3, 5] as const;
const WORKERS_MAX = 3;
const PARAMETERS = 4;
const LIVES = 2;
const CLOCKS = 4;
const CALLS_MAX = 30;
const PLACEMENTS = ["ring", "range"] as const;
/** Some of every server. */
const PACE_KEYS: readonly number[] = Array.from({ length: 64 }, (_, key) => key);

/** One job, from a seed. Throws what differs. */
export async function runMixture(seed: number, { isChanging }: { readonly isChanging: boolean }): Promise<void> {
  const random = new Random(seed);
  const directory = await mkdtemp(join(tmpdir(), "weighbridge-mixture-"));
  await using reference = await EmbeddedCluster.start();
  const drawn = Array.from({ length: PARAMETERS }, (_, index) => drawParameter(random, index));
  const plain = drawn.map((parameter) => new Subject(parameter, random, `seed ${seed}`));
  const typed = TYPED_KINDS.map((kind) => new TypedSubject(kind, random, `seed ${seed}`));
  try {
    for (const subject of plain) await subject.learn(reference.session);
    for (let holder = 0; holder < LIVES; holder++) await liveOn([...plain, ...typed], random, { directory, holder, isChanging });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A cluster that goes on where the last one left off, and leaves a checkpoint. */
async function liveOn(
  subjects: readonly (Subject | TypedSubject)[],
  random: Random,
  job: { readonly directory: string; readonly holder: number; readonly isChanging: boolean },
): Promise<void> {
  const { directory, holder, isChanging } = job;
  // What a ring has left is restored in ranges, and the other way round.
  const placement = PLACEMENTS[holder % PLACEMENTS.length]!;
  const servers = pick(random, SERVER_COUNTS);
  const workers = 1 + random.below(WORKERS_MAX);
  const place = { checkpointDir: directory, ...(holder === 0 ? {} : { restore: directory }) };
  await using cluster = await OpenCluster.start({ servers, workers, placement, plugIns: PLUG_INS, ...place });
  const { sessions } = cluster;
  const [session] = sessions as [Session, ...Session[]];
  const stage: Stage = { sessions, servers };
  const pace = await session.embedding("pace", { dim: 1, optimizer: "sum", consistency: "bsp" });
  for (const subject of subjects) await subject.enter(stage);
  for (let i = 0; i < CLOCKS; i++) {
    for (let calls = random.below(CALLS_MAX); calls > 0; calls--) {
      // Workers hear of it with the next call.
      if (isChanging && random.chance(0.5)) await changePlacement(cluster, drawChange(random, servers));
      await pick(random, subjects).act(pick(random, sessions).rank);
    }
    for (const subject of subjects) await subject.settle();
    const { clocks } = session;
    for (const each of sessions) each.clock();
    await pace.pull(PACE_KEYS); // every server has heard of it from all workers, so that its rounds are over
    for (const subject of subjects) subject.endClock(clocks);
  }
  for (const subject of subjects) await subject.compareAll();
  const taken = await session.checkpoint().saved;
  assert.equal(taken.clock, session.clocks);
}
