// cache-stage — a table with a cache over it, and the few things that tests of caches do with both.

import type { EmbeddingOptions } from "../api/parameter-options.ts";
import type { Session } from "../api/session.ts";
import { assert } from "../base/assert.ts";
import type { CachedEmbedding, CacheOptions } from "../worker/cache/cached-embedding.ts";
import type { Embedding } from "../worker/embedding.ts";

export type CacheStage = { readonly table: Embedding; readonly cache: CachedEmbedding };

export async function stageOf(
  session: Session | undefined,
  cache: Partial<CacheOptions> = {},
  options: Partial<EmbeddingOptions> = {},
): Promise<CacheStage> {
  assert(session !== undefined, "the cluster has this worker");
  const table = await session.embedding("e", { dim: 2, optimizer: "sum", versions: true, ...options });
  return { table, cache: table.cached({ rows: 8, ...cache }) };
}

/** A row of `dim` elements, all `value`, for each key. */
export function rowsOf(keys: readonly (number | bigint)[], value: number, dim = 2): Float32Array {
  return new Float32Array(keys.length * dim).fill(value);
}

export async function read({ cache }: CacheStage, key: number): Promise<number | undefined> {
  return (await cache.pull([key]))[0];
}

export async function stored({ table }: CacheStage, key: number): Promise<number | undefined> {
  return (await table.pull([key]))[0];
}

export async function add({ cache }: CacheStage, key: number, value = 1): Promise<void> {
  await cache.push([key], rowsOf([key], value));
}
