// drawn-parameter — descriptions of parameters, drawn by chance: every optimizer with every initializer, consistency
// and link that it may have, of shapes and keys that lie at edges. What cannot be compared with a plain model in all
// mixtures is left out here, with the reason.

import type { EmbeddingOptions, TensorOptions } from "../../src/api/parameter-options.ts";
import type { Random } from "../../src/base/random.ts";
import type { Consistency } from "../../src/store/consistency.ts";
import type { InitializerSpec } from "../../src/store/initializers/initializer-spec.ts";
import type { ScheduleSpec } from "../../src/store/updaters/learning-rate-schedule.ts";
import type { OptimizerSpec } from "../../src/store/updaters/optimizer-spec.ts";
import { OPTIMIZER_TYPES } from "../../src/testing/optimizer-types.ts";
import type { LinkEncoding, ValueCodecChoice } from "../../src/wire/codecs/link-encoding.ts";
import type { CacheOptions } from "../../src/worker/cache/cached-embedding.ts";

export type DrawnCache = CacheOptions & { readonly pullBound: number; readonly pushBound: number };

export type DrawnTensor = {
  readonly kind: "tensor";
  readonly name: string;
  readonly options: TensorOptions;
  readonly optimizer: OptimizerSpec;
};
export type DrawnTable = {
  readonly kind: "table";
  readonly name: string;
  readonly options: EmbeddingOptions;
  readonly optimizer: OptimizerSpec;
  readonly keys: readonly bigint[];
  /** How worker 0 caches rows of it; undefined when nobody does. */
  readonly cache: DrawnCache | undefined;
};
export type DrawnParameter = DrawnTensor | DrawnTable;

const EDGE_KEYS = [0n, 1n, 2n ** 24n, 2n ** 24n + 1n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n] as const;
/** Names of all kinds, none of which is another's beginning by chance. */
const NAMES = [
  "w",
  "__proto__",
  "constructor",
  "a/b",
  "../up",
  "ünï 名前 🚚",
  " ",
  "x".repeat(200),
  "a:b",
  "%2e",
  "line\nbreak",
  "toString",
] as const;
const SHAPES: readonly (readonly number[])[] = [[1], [7], [64], [5, 3], [9, 16], [4, 2, 3], [130, 1]];
/** Of several blocks: with many rows, and with one row each. */
const LARGE_SHAPES: readonly (readonly number[])[] = [
  [140, 1000],
  [2, 70_000],
];
const LARGE_CHANCE = 0.03;

export function pick<T>(random: Random, list: readonly T[]): T {
  return list[random.below(list.length)] as T;
}

export function drawParameter(random: Random, index: number): DrawnParameter {
  const name = `${pick(random, NAMES)}${index}`;
  return random.chance(0.5) ? drawTensor(random, name) : drawTable(random, name);
}

function drawTensor(random: Random, name: string): DrawnTensor {
  const shape = pick(random, random.chance(LARGE_CHANCE) ? LARGE_SHAPES : SHAPES);
  const topK = random.chance(0.1);
  const link = topK ? { push: { topK: 0.25 } } : drawLink(random, "tensor");
  const optimizer = topK ? drawSum(random) : drawOptimizer(random, link);
  const consistency = drawConsistency(random, optimizer);
  const options = { shape, init: drawInitializer(random), optimizer, consistency, ...linkOf(link) };
  return { kind: "tensor", name, options, optimizer };
}

function drawTable(random: Random, name: string): DrawnTable {
  const rows = random.chance(0.3) ? 1 + random.below(20) : undefined;
  const cached = random.chance(0.35);
  const link = cached ? undefined : drawLink(random, "table");
  const optimizer = drawOptimizer(random, link);
  const versions = cached || random.chance(0.1);
  const cache = cached && !UNSUMMABLE.has(optimizer.type) ? drawCache(random, optimizer) : undefined;
  const consistency = versions ? ("asp" as const) : drawConsistency(random, optimizer);
  const options = {
    ...{ dim: pick(random, [1, 2, 3, 8, 17]), init: drawInitializer(random), optimizer, consistency, versions },
    ...(rows === undefined ? {} : { rows }),
    ...linkOf(link),
  };
  const keys = rows === undefined ? [...EDGE_KEYS, ...Array.from({ length: 30 }, () => drawKey(random))] : smallKeys(rows);
  return { kind: "table", name, options, optimizer, keys, cache };
}

/** Optimizers that take values, not gradients. */
export const UNSUMMABLE: ReadonlySet<string> = new Set(["assign", "min", "max"]);

/** Bounds above 0 let updates wait and be summed: only what does not care is compared with single updates. */
function drawCache(random: Random, optimizer: OptimizerSpec): DrawnCache {
  const isLinear =
    (optimizer.type === "sum" || (optimizer.type === "sgd" && !optimizer.weightDecay && optimizer.schedule === undefined)) &&
    (optimizer.clipValue ?? null) === null;
  return {
    rows: pick(random, [1, 3, 8, 100]),
    policy: pick(random, ["lru", "lfu", "lfu-opt"]),
    // What a worker pulled last is then what it reads.
    pullBound: random.chance(0.5) || optimizer.type === "dcAsgd" ? 0 : 1 + random.below(4),
    pushBound: isLinear && random.chance(0.6) ? 1 + random.below(4) : 0,
  };
}

/** Servers reduce what top-k leaves out in any order; only sums come to the same in the end. */
function drawSum(random: Random): OptimizerSpec {
  return {
    type: "sum",
    ...(random.chance(0.3) ? { clipNorm: 0.5 + random.fraction() } : {}),
    nonFinite: pick(random, ["refuse", "skip", "zero"]),
  };
}

function drawOptimizer(random: Random, link: Partial<LinkEncoding> | undefined): OptimizerSpec {
  // An error in a gradient stays as small in these.
  const isRounded = link?.push === "int8" || link?.push === "int8-centred";
  const type = isRounded ? pick(random, ["sum", "sgd", "assign", "min", "max"] as const) : pick(random, OPTIMIZER_TYPES);
  const nonFinite = pick(random, ["refuse", "skip", "zero"] as const);
  if (type === "assign" || type === "min" || type === "max") return { type, nonFinite };
  const clips = {
    ...(random.chance(0.2) ? { clipNorm: 0.5 + random.fraction() } : {}),
    ...(random.chance(0.2) ? { clipValue: 0.25 + random.fraction() } : {}),
    nonFinite,
  };
  if (type === "sum") return { type, ...clips };
  if (type === "ftrl") return { type, ...clips, l1: pick(random, [0, 0.3]), l2: pick(random, [0, 0.1]) };
  const scheduled = { learningRate: 0.01 + 0.1 * random.fraction(), ...(random.chance(0.3) ? { schedule: drawSchedule(random) } : {}) };
  const decay = random.chance(0.4) ? { weightDecay: 0.1 } : {};
  const epsilon = 1e-3; // nothing hangs on the sign of what almost cancels
  if (type === "lazyAdam") return { type, ...clips, ...scheduled, epsilon };
  if (type === "sgd" || type === "momentum" || type === "nesterov") return { type, ...clips, ...scheduled, ...decay };
  if (type === "rmsprop") return { type, ...clips, ...scheduled, ...decay, epsilon, momentum: pick(random, [0, 0.5]) };
  if (type === "dcAsgd") return { type, ...clips, ...scheduled, ...decay, epsilon, lambda: 0.5 };
  return { type, ...clips, ...scheduled, ...decay, epsilon };
}

export function drawSchedule(random: Random): ScheduleSpec {
  const after = pick<ScheduleSpec>(random, [
    { type: "constant" },
    { type: "step", every: 2, factor: 0.5 },
    { type: "cosine", steps: 6, floor: 0.1 },
  ]);
  return random.chance(0.5) ? { type: "warmUp", steps: 3, after } : after;
}

export function drawConsistency(random: Random, { type }: OptimizerSpec): Consistency {
  return pick<Consistency>(random, [
    "bsp",
    UNSUMMABLE.has(type) ? "bsp" : { bsp: true, reduce: "mean" },
    { ssp: random.below(3) },
    { delay: random.below(3) },
    "asp",
    "asp",
  ]);
}

function drawLink(random: Random, kind: "tensor" | "table"): Partial<LinkEncoding> | undefined {
  if (random.chance(0.4)) return undefined;
  const codecs: readonly ValueCodecChoice[] = ["f32", "fp16", "bf16", "int8", "int8-centred"];
  const values = {
    push: pick(random, codecs),
    pull: pick(random, codecs) as Exclude<ValueCodecChoice, object>,
    compression: pick(random, ["none", "zstd"] as const),
  };
  return kind === "tensor" ? values : { ...values, keys: pick(random, ["delta", "raw"] as const), keyCache: random.chance(0.5) };
}

function linkOf(link: Partial<LinkEncoding> | undefined): { link?: Partial<LinkEncoding> } {
  return link === undefined ? {} : { link };
}

function drawInitializer(random: Random): InitializerSpec {
  const seed = random.below(1000);
  return pick<InitializerSpec>(random, [
    { type: "constant", value: random.fraction() - 0.5 },
    { type: "uniform", low: -0.5, high: 0.5, seed },
    { type: "normal", std: 0.5, seed },
    { type: "truncatedNormal", std: 0.5, seed },
    { type: "xavier", seed },
    { type: "he", seed },
  ]);
}

function drawKey(random: Random): bigint {
  return (BigInt(random.uint32()) << 32n) | BigInt(random.uint32());
}

function smallKeys(count: number): bigint[] {
  return Array.from({ length: count }, (_, i) => BigInt(i));
}
