// struck-training — a training on replicated servers of which one process after the other is killed or stopped, in the
// middle of its steps, as a seed says; the scheduler, too. No call of a worker may fail, each push counts once
// (scripts/trainer.ts), and what is determined has the bits of a run without strikes.

import assert from "node:assert/strict";
import { Random } from "../../src/base/random.ts";
import { Cluster } from "./cluster.ts";
import { Copies, type Signal } from "./copies.ts";

const SERVERS = 2;
/** Of each worker, for each strike. */
const STEPS = 6;
/** So that a scheduler is among the first few that are killed (Copies). */
const SCHEDULER_SOON = 2;
const STRIKE_MS = 180_000;

export type StruckTraining = {
  /** LeNet trains in step, Wide & Deep asynchronously: its bits are determined with one worker alone. */
  readonly task: "lenet" | "wide-deep";
  readonly workers: number;
  readonly seed: number;
  readonly strikes: readonly Signal[];
};

/** These kills, and stops spread among them. */
export function strikesOf({ kills, stops }: { readonly kills: number; readonly stops: number }): readonly Signal[] {
  const all = kills + stops;
  return Array.from({ length: all }, (_, i) =>
    Math.floor(((i + 1) * stops) / all) > Math.floor((i * stops) / all) ? "SIGSTOP" : "SIGKILL",
  );
}

/** Returns who was struck how often. Throws if anything is lost, counted twice or computed otherwise. */
export async function strikeTraining(training: StruckTraining): Promise<ReadonlyMap<string, number>> {
  const struck = new Map<string, number>();
  const bits = await run(training, (what) => struck.set(what, (struck.get(what) ?? 0) + 1));
  const { task, workers, seed } = training;
  if (task === "lenet" || workers === 1) {
    const calm = await run({ ...training, strikes: [] }, () => {}, training.strikes.length);
    assert.deepEqual(bits, calm, `${task}, seed ${seed}`);
    assert.equal(new Set(bits).size, 1, `${task}, seed ${seed}: the workers have the same weights`);
  }
  return struck;
}

async function run(
  { task, workers: count, seed, strikes }: StruckTraining,
  onStruck: (what: string) => void,
  rounds: number = strikes.length,
): Promise<readonly string[]> {
  const flags = ["--replicas", 2, "--job", `${task}-${seed}`];
  await using cluster = await Cluster.create({ servers: SERVERS, workers: count, flags });
  const copies = new Copies(cluster, { servers: SERVERS, seed });
  const random = new Random(seed);
  const args = [task, String(STEPS * rounds)];
  const workers = Array.from({ length: count }, (_, rank) => cluster.worker(rank, "trainer", ...args));
  for (const [round, signal] of strikes.entries()) {
    for (const worker of workers) worker.tell(`until ${STEPS * (round + 1)}`);
    const step = STEPS * round + 1 + random.below(STEPS - 1);
    await workers[random.below(count)]?.says(new RegExp(`^step ${step}$`), 1, STRIKE_MS);
    onStruck(`${signal} of a ${await copies.strike(round + SCHEDULER_SOON + seed, signal)}`);
  }
  for (const worker of workers) worker.endInput();
  const bits: string[] = [];
  for (const worker of workers) bits.push((await worker.says(/^bits (\w+)$/, 1, STRIKE_MS))[1] as string);
  for (const node of [...workers, ...copies.processes, copies.scheduler]) await node.succeeds(STRIKE_MS);
  return bits;
}
