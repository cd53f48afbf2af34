// checkpoint-model — for tests alone: a model with parameters of every kind, whose training gives the same bits
// whenever and wherever it is done.

import type { Session } from "../../src/api/session.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import type { Tensor } from "../../src/worker/tensor.ts";

/** Floats of the dense tensor. */
export const SIZE = 300_000;
const KEYS = Array.from({ length: 500 }, (_, i) => (BigInt(i) * 0x9e37_79b9_7f4a_7c15n) & (2n ** 64n - 1n));

export type Model = Readonly<Record<"dense" | "sync" | "rows", Tensor>> & Readonly<Record<"users" | "items" | "tags", Embedding>>;

/** The model of one worker. */
export async function modelOf(session: Session): Promise<Model> {
  const schedule = { type: "cosine", steps: 40 } as const;
  return {
    dense: await session.tensor("dense", { shape: [SIZE], optimizer: { type: "adam", schedule }, init: { type: "normal", seed: 3 } }),
    sync: await session.tensor("layer/sync", { shape: [700, 10], optimizer: { type: "momentum" }, consistency: "bsp" }),
    rows: await session.tensor("rows", { shape: [40_000, 16], optimizer: { type: "rmsprop", momentum: 0.5 }, init: { type: "he" } }),
    users: await session.embedding("users", { dim: 6, optimizer: { type: "adam" }, versions: true, init: { type: "uniform", seed: 9 } }),
    items: await session.embedding("items", { dim: 3, optimizer: { type: "rowWiseAdagrad" }, consistency: "bsp" }),
    // One count of steps for the whole table.
    tags: await session.embedding("tags", { dim: 2, optimizer: { type: "lazyAdam" } }),
  };
}

/** One iteration of one worker, the same whenever and wherever it is done. */
async function train({ dense, sync, rows, users, items, tags }: Model, rank: number, clock: number): Promise<void> {
  const wave = (length: number, of: number): Float32Array => Float32Array.from({ length }, (_, i) => Math.sin(i * 0.37 + clock + of));
  const some = KEYS.filter((_, i) => (i + clock) % 3 === 0);
  await Promise.all([
    dense.push(wave(SIZE, 1)),
    sync.push(wave(7000, rank)),
    rows.pushRows([clock, 39_999, 17], wave(48, 2)),
    users.push(some, wave(some.length * 6, 3)),
    items.push(some, wave(some.length * 3, rank)),
    tags.push(some, wave(some.length * 2, 4)),
  ]);
}

/** So many clocks of all workers. */
export async function trainAll(sessions: readonly Session[], models: readonly Model[], clocks: number): Promise<void> {
  for (let i = 0; i < clocks; i++) {
    // Async updates of several workers would come in any order: only the first makes those. All take part in the sync
    // ones.
    for (const [rank, session] of sessions.entries()) {
      const model = models[rank] as Model;
      if (rank === 0) await train(model, rank, session.clocks);
      else await model.sync.push(Float32Array.from({ length: 7000 }, (_, k) => Math.cos(k + session.clocks)));
    }
    for (const session of sessions) session.clock();
  }
}

/** All values of the model. */
export async function stateOf({ dense, sync, rows, users, items, tags }: Model): Promise<readonly Float32Array[]> {
  return await Promise.all([dense.pull(), sync.pull(), rows.pull(), users.pull(KEYS), items.pull(KEYS), tags.pull(KEYS)]);
}

/** A cluster of two workers that have both described the model. */
export async function start(servers: number, folder: string, restore?: string): Promise<{ cluster: EmbeddedCluster; models: Model[] }> {
  const cluster = await EmbeddedCluster.start({
    servers,
    workers: 2,
    arenaBytesMax: 256 << 20,
    checkpointDir: folder,
    ...(restore === undefined ? {} : { restore }),
  });
  const models: Model[] = [];
  for (const session of cluster.sessions) models.push(await modelOf(session));
  return { cluster, models };
}
