// round-source — the CUDA C++ of rounds: sums what the devices pushed, in their order, updates the weights with the
// sum, and hands the result out, in one pass over the bytes. The text is made for a type of number, an update rule and
// a number of devices, and compiled when it is first needed.
//
//   Round, 8-byte words       sources[S] | targets[T] | previous | result | slot 0 | slot 1 | length | flags | settings
//   settings                  SETTINGS numbers of the element's type, in the order of SETTING
//   flags                     bit 0: every address is a multiple of 16; bit 1: gradients are taken as they are;
//                             bit 2: weight decay counts
//
// `reduceOne` has its round among the parameters of the launch. `reduceMany` has a table of them: block b belongs to
// the last round whose first tile is not behind b.
//
// Invariants:
//   RoundSource.S1. Sources are added in their order, each sum rounded; an update rounds after every operation, as
//       kernels/optimizers does (compiled with --fmad=false): the same bits as on the CPU.
//   RoundSource.S2. A thread reads its elements of all sources before it writes them to a target: a target may be a
//       source.
//   RoundSource.S3. A tile is of the same TILE_BYTES of every span, whatever the alignment: the host counts tiles
//       without looking at addresses.

import { ROW_ELEMENTS, type RowElement } from "../kernel/row-element.ts";
import type { OptimizerName } from "../store/updaters/optimizer-spec.ts";

/** "copy" reads `previous` and has no sources; "none" makes the sum the result. */
export type RoundRule = "copy" | "none" | UpdateRule;

/** The optimizers that CUDA has. */
type UpdateRule = Extract<OptimizerName, "sum" | "sgd" | "momentum" | "nesterov" | "adagrad" | "adam" | "adamW">;

export type RoundKind = {
  readonly element: RowElement;
  readonly rule: RoundRule;
  readonly sourceCount: number;
  readonly targetCount: number;
};

const BLOCK_THREADS = 256;
const VECTOR_BYTES = 16;
/** Vectors of each span that a thread has in flight. */
const VECTORS_PER_THREAD = 1;

export const ROUND_SHAPE: { readonly blockThreads: number; readonly tileBytes: number } = {
  blockThreads: BLOCK_THREADS,
  tileBytes: BLOCK_THREADS * VECTORS_PER_THREAD * VECTOR_BYTES,
};
export const ROUND_OPTIONS: readonly string[] = ["--fmad=false"];

/** The settings of an update; `step` and `correction2` are Adam's, `part` is 1 - beta. */
export const SETTING = {
  rate: 0,
  scale: 1,
  clip: 2,
  decay: 3,
  epsilon: 4,
  beta1: 5,
  part1: 6,
  part2: 7,
  step: 8,
  correction2: 9,
} as const;
export const SETTING_COUNT: number = Object.keys(SETTING).length;

export const FLAG = { aligned: 1, bare: 2, decays: 4 } as const;

/**
 * What an update does to `w` with the gradient `g` and the slots `a` and `b`; `plain` is the gradient without decay.
 */
const UPDATES: Readonly<Record<UpdateRule, string>> = {
  sum: "w = w + plain;",
  sgd: "w = w - rate * g;",
  momentum: "a = beta1 * a + g; w = w - rate * a;",
  nesterov: "a = beta1 * a + g; w = w - rate * (g + beta1 * a);",
  adagrad: "a = a + g * g; w = w - (rate * g) / (sqrt(a) + epsilon);",
  adam: "a = a + part1 * (g - a); b = b + ((part2 * g) * g - part2 * b); w = w - (step * a) / (sqrt(b) * correction2 + epsilon);",
  adamW: `g = plain; a = a + part1 * (g - a); b = b + ((part2 * g) * g - part2 * b);
  w = w - (decay * w + (step * a) / (sqrt(b) * correction2 + epsilon));`,
};

const SLOT_COUNTS: Readonly<Record<UpdateRule, number>> = {
  sum: 0,
  sgd: 0,
  momentum: 1,
  nesterov: 1,
  adagrad: 1,
  adam: 2,
  adamW: 2,
};

/** In C++. */
const TYPE_NAMES: Readonly<Record<RowElement, string>> = {
  f32: "float",
  f64: "double",
  // Sums wrap around; of signed numbers C++ would leave that open.
  i32: "unsigned int",
  i64: "unsigned long long",
};

export const UPDATE_RULES: readonly string[] = Object.keys(UPDATES);

export function isUpdateRule(rule: string): rule is UpdateRule {
  return Object.hasOwn(UPDATES, rule);
}

/** 8-byte words of a Round. */
export function roundWords({ element, sourceCount, targetCount }: RoundKind): number {
  return sourceCount + targetCount + 6 + (SETTING_COUNT * ROW_ELEMENTS[element].bytes) / 8;
}

export function roundSource({ element, rule, sourceCount, targetCount }: RoundKind): string {
  const update = isUpdateRule(rule) ? UPDATES[rule] : undefined;
  const slotCount = isUpdateRule(rule) ? SLOT_COUNTS[rule] : 0;
  const name = TYPE_NAMES[element];
  const { bytes } = ROW_ELEMENTS[element];
  const settings = Object.entries(SETTING).map(([setting, index]) => `const T ${setting} = round.settings[${index}];`);
  return `
typedef ${name} T;
typedef unsigned long long u64;
#define LANES ${VECTOR_BYTES / bytes}
#define BLOCK ${BLOCK_THREADS}
#define VECTORS ${VECTORS_PER_THREAD}
#define SOURCES ${sourceCount}
#define TARGETS ${targetCount}
#define UPDATES ${update === undefined ? 0 : 1}
#define SLOTS ${slotCount}
#define READS_PREVIOUS ${rule === "copy" || update !== undefined ? 1 : 0}

struct Round {
  ${sourceCount > 0 ? "const T *sources[SOURCES];" : ""}
  ${targetCount > 0 ? "T *targets[TARGETS];" : ""}
  const T *previous;
  T *result;
  T *slot0;
  T *slot1;
  u64 length;
  u64 flags;
  T settings[${SETTING_COUNT}];
};

union Vector {
  uint4 raw;
  T lanes[LANES];
};

__device__ __forceinline__ Vector loadVector(const T *span, u64 vector) {
  Vector loaded;
  loaded.raw = __ldcs(reinterpret_cast<const uint4 *>(span) + vector);
  return loaded;
}

__device__ __forceinline__ void storeVector(T *span, u64 vector, Vector value) {
  __stcs(reinterpret_cast<uint4 *>(span) + vector, value.raw);
}

#if UPDATES
__device__ __forceinline__ T updated(const Round &round, T pushed, T w, T &a, T &b) {
  ${settings.join("\n  ")}
  T plain = pushed;
  if (!(round.flags & ${FLAG.bare})) {
    plain = scale * plain;
    plain = plain < -clip ? -clip : (plain > clip ? clip : plain);
  }
  T g = plain;
  if (round.flags & ${FLAG.decays}) g = plain + decay * w;
  ${update ?? ""}
  return w;
}
#endif

__device__ __forceinline__ void oneElement(const Round &round, u64 i) {
  T value;
#if SOURCES > 0
  value = round.sources[0][i];
#pragma unroll
  for (int d = 1; d < SOURCES; d++) value = value + round.sources[d][i];
#else
  value = round.previous[i];
#endif
#if UPDATES
  T a = 0, b = 0;
  if (SLOTS > 0) a = round.slot0[i];
  if (SLOTS > 1) b = round.slot1[i];
  value = updated(round, value, round.previous[i], a, b);
  if (SLOTS > 0) round.slot0[i] = a;
  if (SLOTS > 1) round.slot1[i] = b;
#endif
  if (round.result != 0) round.result[i] = value;
#pragma unroll
  for (int t = 0; t < TARGETS; t++)
    if (round.targets[t] != 0) round.targets[t][i] = value;
}

__device__ __forceinline__ void vectorsOfTile(const Round &round, u64 first, u64 end) {
  Vector value[VECTORS], previous[VECTORS], slot0[VECTORS], slot1[VECTORS];
#if SOURCES > 0
  Vector source[VECTORS][SOURCES];
#endif
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const u64 at = first + v * BLOCK;
    if (at >= end) continue;
#if SOURCES > 0
#pragma unroll
    for (int d = 0; d < SOURCES; d++) source[v][d] = loadVector(round.sources[d], at);
#endif
    if (READS_PREVIOUS) previous[v] = loadVector(round.previous, at);
    if (SLOTS > 0) slot0[v] = loadVector(round.slot0, at);
    if (SLOTS > 1) slot1[v] = loadVector(round.slot1, at);
  }
#pragma unroll
  for (int v = 0; v < VECTORS; v++) {
    const u64 at = first + v * BLOCK;
    if (at >= end) continue;
#if SOURCES > 0
    value[v] = source[v][0];
#pragma unroll
    for (int d = 1; d < SOURCES; d++)
#pragma unroll
      for (int l = 0; l < LANES; l++) value[v].lanes[l] = value[v].lanes[l] + source[v][d].lanes[l];
#else
    value[v] = previous[v];
#endif
#if UPDATES
#pragma unroll
    for (int l = 0; l < LANES; l++) {
      T a = 0, b = 0;
      if (SLOTS > 0) a = slot0[v].lanes[l];
      if (SLOTS > 1) b = slot1[v].lanes[l];
      value[v].lanes[l] = updated(round, value[v].lanes[l], previous[v].lanes[l], a, b);
      if (SLOTS > 0) slot0[v].lanes[l] = a;
      if (SLOTS > 1) slot1[v].lanes[l] = b;
    }
    if (SLOTS > 0) storeVector(round.slot0, at, slot0[v]);
    if (SLOTS > 1) storeVector(round.slot1, at, slot1[v]);
#endif
    if (round.result != 0) storeVector(round.result, at, value[v]);
#pragma unroll
    for (int t = 0; t < TARGETS; t++)
      if (round.targets[t] != 0) storeVector(round.targets[t], at, value[v]);
  }
}

__device__ __forceinline__ void tile(const Round &round, u64 number) {
  const u64 firstVector = number * (BLOCK * VECTORS), first = firstVector * LANES;
  if (round.flags & ${FLAG.aligned}) {
    const u64 vectorCount = round.length / LANES;
    vectorsOfTile(round, firstVector + threadIdx.x, vectorCount);
    const u64 rest = vectorCount * LANES + threadIdx.x;
    if (rest < round.length && rest >= first && rest < first + BLOCK * VECTORS * LANES) oneElement(round, rest);
  } else {
    const u64 end = first + BLOCK * VECTORS * LANES;
    for (u64 i = first + threadIdx.x; i < end && i < round.length; i += BLOCK) oneElement(round, i);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) reduceOne(const Round round) {
  tile(round, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    reduceMany(const Round *rounds, const unsigned int *firstTiles, const unsigned int roundCount) {
  unsigned int low = 0, high = roundCount;
  while (high - low > 1) {
    const unsigned int middle = (low + high) / 2;
    if (firstTiles[middle] <= blockIdx.x) low = middle;
    else high = middle;
  }
  const Round round = rounds[low];
  tile(round, blockIdx.x - firstTiles[low]);
}
`;
}
