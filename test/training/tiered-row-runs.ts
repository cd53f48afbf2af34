// tiered-row-runs — what the tests of TieredRows share: batches by Zipf's law, a step as a layer makes it, and the same
// training with and without a cache.

import assert from "node:assert/strict";
import type { EmbeddingOptions } from "../../src/api/parameter-options.ts";
import type { Session } from "../../src/api/session.ts";
import { Random } from "../../src/base/random.ts";
import { RowMembers } from "../../src/faces/training/row-members.ts";
import { NO_SLOT, type RowSource } from "../../src/faces/training/row-source.ts";
import { TieredRows } from "../../src/faces/training/tiered-rows.ts";
import type { TieredRowsOptions } from "../../src/faces/training/tiered-rows-options.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { EmbeddedCluster } from "../../src/node/embedded-cluster.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { MemoryCollective, MemoryCollectives } from "../../src/testing/memory-collective.ts";
import type { Embedding } from "../../src/worker/embedding.ts";
import { openRawRows } from "../../src/worker/raw-rows.ts";

export const ROWS = 400;
export const WIDTH = 6;
export const IDS = 40;
export const MIB: number = 2 ** 20;

export type Batches = readonly (readonly number[])[];

/** Ids by Zipf's law, some of them out of range, the number of them different from step to step. */
export function batchesOf(seed: number, steps: number, idCount: number = IDS): Batches {
  const random = new Random(seed);
  const sums: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= ROWS; rank++) {
    sum += rank ** -1.05;
    sums.push(sum);
  }
  const draw = (): number => {
    if (random.chance(0.03)) return random.chance(0.5) ? -1 - random.below(5) : ROWS + random.below(5);
    const share = random.fraction() * sum;
    return (sums.findIndex((upTo) => upTo > share) * 97) % ROWS;
  };
  return Array.from({ length: steps }, () => Array.from({ length: random.below(idCount) }, draw));
}

/** A gradient that depends on the values, so that a wrong bit spreads. */
function gradientOf(values: Float32Array, slot: number, out: Float32Array, at: number, step: number): void {
  for (let j = 0; j < WIDTH; j++)
    out[at + j] = Math.fround((values[slot * WIDTH + j] as number) * 0.3 + ((step * 7 + j * 3) % 11) / 16 - 0.2);
}

/** Takes, computes and gives as a layer would: the gradients of a slot's occurrences are added. */
export async function step(
  source: RowSource,
  arena: Arena,
  ids: readonly number[],
  number: number,
  prefetched?: readonly number[],
): Promise<void> {
  const slots = await source.acquire(ids);
  if (prefetched !== undefined) source.prefetch(prefetched);
  const values = arena.floats.subarray(source.address >>> 2, (source.address >>> 2) + source.slotCount * WIDTH) as Float32Array;
  const counts = new Map<number, number>();
  for (const [i, slot] of slots.entries()) {
    assert.equal(slot === NO_SLOT, !((ids[i] as number) >= 0 && (ids[i] as number) < ROWS), "RowSource.R4");
    if (slot !== NO_SLOT) counts.set(slot, (counts.get(slot) ?? 0) + 1);
  }
  const distinct = Int32Array.from([...counts.keys()].sort((a, b) => a - b));
  const gradients = new Float32Array(distinct.length * WIDTH);
  for (const [i, slot] of distinct.entries()) gradientOf(values, slot, gradients, i * WIDTH, number * (counts.get(slot) as number));
  await source.push(distinct, gradients);
}

/** The same with pulls and pushes: what the cache is held against. */
async function plainStep(table: Embedding, ids: readonly number[], number: number): Promise<void> {
  const known = ids.filter((id) => id >= 0 && id < ROWS);
  const distinct = [...new Set(known)];
  const values = await table.pull(distinct);
  const gradients = new Float32Array(distinct.length * WIDTH);
  for (const [i, id] of distinct.entries()) gradientOf(values, i, gradients, i * WIDTH, number * known.filter((one) => one === id).length);
  if (distinct.length > 0) await table.push(distinct, gradients);
}

export type Work = {
  readonly workers: number;
  readonly servers?: number;
  readonly steps: number;
  readonly optimizer: OptimizerSpec;
  readonly consistency?: EmbeddingOptions["consistency"];
  readonly batches?: (rank: number) => Batches;
};

export function tableOptions({ optimizer, consistency = "bsp" }: Work): EmbeddingOptions {
  return { dim: WIDTH, rows: ROWS, init: { type: "normal", std: 0.5, seed: 3 }, optimizer, consistency };
}

export const batchesFor = (work: Work, rank: number): Batches => work.batches?.(rank) ?? batchesOf(100 + rank, work.steps);

/** All rows with their optimizer's slots, as the servers have them; and the steps that they counted. */
export async function stateOf(session: Session): Promise<{ readonly rows: Uint32Array; readonly steps: readonly number[] }> {
  const table = await openTable(session);
  const raw = table.raw(openRawRows, new Arena({ bytesMax: 8 * MIB }));
  const rows = new Float32Array(ROWS * raw.rowFloats);
  await raw.read(
    BigUint64Array.from({ length: ROWS }, (_, i) => BigInt(i)),
    rows,
  );
  const { training } = await raw.claim();
  return { rows: new Uint32Array(rows.buffer), steps: training.map(({ step: count }) => count) };
}

export async function openTable(session: Session): Promise<Embedding> {
  const [spec] = await session.parameters();
  assert.ok(spec?.kind === "embedding");
  const { name, dim, rows, versions, init, optimizer, consistency } = spec;
  return await session.embedding(name, { dim, rows: rows as number, versions, init, optimizer, consistency });
}

export async function plainRun(work: Work): Promise<Awaited<ReturnType<typeof stateOf>>> {
  await using cluster = await EmbeddedCluster.start({ servers: work.servers ?? 2, workers: work.workers });
  await Promise.all(
    cluster.sessions.map(async (session) => {
      const table = await session.embedding("e", tableOptions(work));
      await session.barrier();
      for (const [number, ids] of batchesFor(work, session.rank).entries()) {
        await plainStep(table, ids, number);
        session.clock();
      }
      await table.pull([0]); // of the clock after the last
      await session.barrier();
    }),
  );
  return await stateOf(cluster.session);
}

export type CachedWork = Work & {
  readonly vocabCacheSize: number;
  readonly hostRows?: number;
  readonly flushEverySteps?: number;
  /** What a worker prefetch while step `number` goes on. */
  readonly prefetched?: (rank: number, number: number, batches: Batches) => readonly number[] | undefined;
};

export async function cachedRun(
  work: CachedWork,
): Promise<Awaited<ReturnType<typeof stateOf>> & { readonly sources: readonly TieredRows[] }> {
  await using cluster = await EmbeddedCluster.start({ servers: work.servers ?? 2, workers: work.workers });
  const shared = new MemoryCollectives(cluster.sessions.map(({ rank }) => rank));
  const { prefetched = (_rank, number, batches) => batches[number + 1] } = work;
  const sources = await Promise.all(
    cluster.sessions.map(async (session) => {
      const { source, arena } = await openSource(session, work, { shared });
      const batches = batchesFor(work, session.rank);
      for (const [number, ids] of batches.entries()) {
        await step(source, arena, ids, number, prefetched(session.rank, number, batches));
        session.clock();
      }
      await source.flush();
      await session.barrier();
      return source;
    }),
  );
  const state = await stateOf(cluster.session);
  return { ...state, sources };
}

export async function openSource(
  session: Session,
  work: CachedWork,
  { shared, ...rest }: Partial<TieredRowsOptions> & { readonly shared?: MemoryCollectives } = {},
): Promise<{ readonly source: TieredRows; readonly arena: Arena }> {
  const arena = new Arena({ bytesMax: 64 * MIB });
  const embedding = await session.embedding("e", tableOptions(work));
  const { rank } = session;
  const members = shared === undefined ? undefined : new RowMembers(rank, new MemoryCollective(shared, rank));
  const { vocabCacheSize, hostRows, flushEverySteps } = work;
  const source = await TieredRows.open({ embedding, arena, vocabCacheSize, hostRows, flushEverySteps, idCountMax: IDS, members, ...rest });
  return { source, arena };
}
