// struck-training — a training on replicated servers of which one process after the other is killed or stopped, in the
// middle of its steps, as a seed says; the scheduler, too. No call of a worker may fail, each push counts once
// (scripts/struck-trainer.ts), and what is determined has the bits of a run without strikes.

import assert from "node:assert/strict";
import { Random } from "../../src/base/random.ts";
import { Cluster } from "./cluster.ts";
import { Copies, type Signal } from "./copies.ts";

const SERVERS = 2;
/** Of each worker, for each strike. */
const STEPS = 6;
/** So that a scheduler is among the first few that are killed (Copies). */
const SCHEDULER_SOON = 2;
/** Long enough that a busy machine makes no worker silent: a batch that is dealt without one has other sums. */
const HEARTBEAT_TIMEOUT_MS = 6000;

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
  const { task, workers, seed, strikes } = training;
  const trained = await run(training, strikes.length);
  if (task === "lenet" || workers === 1) {
    const calm = await run({ ...training, strikes: [] }, strikes.length);
    assert.equal(calm.losses.length, trained.losses.length);
    const step = calm.losses.findIndex((loss, i) => loss !== trained.losses[i]);
    const near = trained.struck.slice(Math.max(0, Math.floor(step / STEPS) - 1), Math.floor(step / STEPS) + 1);
    const text = `${task}, seed ${seed}: step ${step + 1} of worker 0 has another loss; before it there was ${near.join(" and ")}`;
    assert.equal(step, -1, text);
    assert.equal(
      new Set([...trained.bits, ...calm.bits]).size,
      1,
      `${task}, seed ${seed}: ${trained.bits.join()}, calm ${calm.bits.join()}`,
    );
  }
  const counts = new Map<string, number>();
  for (const what of trained.struck) counts.set(what, (counts.get(what) ?? 0) + 1);
  return counts;
}

/** What a run comes to: the bits of all workers, the losses of the first one, and who was struck, in this order. */
type Trained = { readonly bits: readonly string[]; readonly losses: readonly string[]; readonly struck: readonly string[] };

async function run({ task, workers: count, seed, strikes }: StruckTraining, rounds: number): Promise<Trained> {
  const flags = ["--replicas", 2, "--job", `${task}-${seed}`, "--heartbeat-timeout", `${HEARTBEAT_TIMEOUT_MS}ms`];
  await using cluster = await Cluster.create({ servers: SERVERS, workers: count, flags });
  const copies = new Copies(cluster, { servers: SERVERS, seed });
  const random = new Random(seed);
  const args = [task, String(STEPS * rounds)];
  const workers = Array.from({ length: count }, (_, rank) => cluster.worker(rank, "struck-trainer", ...args));
  const struck: string[] = [];
  for (const [round, signal] of strikes.entries()) {
    for (const worker of workers) worker.tell(`until ${STEPS * (round + 1)}`);
    const step = STEPS * round + 1 + random.below(STEPS - 1);
    await workers[random.below(count)]?.says(new RegExp(`^step ${step},`));
    struck.push(`${signal} of a ${await copies.strike(round + SCHEDULER_SOON + seed, signal)}`);
  }
  for (const worker of workers) worker.endInput();
  const bits: string[] = [];
  for (const worker of workers) bits.push((await worker.says(/^bits (\w+)$/))[1] as string);
  for (const node of [...workers, ...copies.processes, copies.scheduler]) await node.succeeds();
  const losses = [...(workers[0]?.stdout ?? "").matchAll(/^step \d+, loss (.*)$/gm)].map(([, loss]) => loss as string);
  return { bits, losses, struck };
}
