// cases — what is measured: the table of cases, and what each one means in keys, values and requests in flight.
//
//   <direction>-<what one request carries>-w<requests in flight>[-spread][-fresh][-2x2]
//   push, pull                  requests of one kind, over and over
//   mix                         a push and then a pull of the same keys, in turn, as training does; both count as
//                               requests
//   4B 64KB 1MB 16MB            one key with that many bytes of values
//   10kx64                      10,000 neighbouring keys of 64 floats
//   random-10k-of-200kx64       10,000 random keys out of 200,000, of 64 floats each; another choice for every request
//   table-uniform-10kx16        10,000 rows of 16 floats out of a table of a million, chosen evenly, or by Zipf 1.05
//                               (then with duplicates); pushes go through AdaGrad
//   adam-16MB                   a tensor of 16 MiB; pushes go through Adam
//   -spread                     keys drawn from the whole 64-bit range, as hashed features are; without it they are
//                               neighbours
//   -fresh                      every request carries a key list that no request carried before; the keys of a pull
//                               were pushed to since they were last pulled: no cache of lists or answers helps. What
//                               prepares requests is not in the time, so they run in bursts, and there are no such
//                               cases with two workers, whose bursts would not coincide.
//   -2x2                        two servers and two workers; every request is spread evenly over both servers
// Two are not timed. memory-1M-keys fills an idle server with a million keys of one float and looks at its memory;
// memory-idle looks at a server and a worker that do nothing, run from the sources, and memory-idle-built at the same
// from the package as it is built.

import { FLOAT_BYTES } from "../src/kernel/elements.ts";
import type { Regime } from "./child.ts";

export type Direction = "push" | "pull" | "mix";

/** Where a case's keys lie: side by side, or anywhere in the 64-bit range. */
export type KeyLayout = "dense" | "spread";

/** What a case is compared by: time of a lone request, requests per second, or bytes of values per second. */
export type Yardstick = "latency" | "rate" | "bandwidth";

/** Which engine the case is about: keys and values that are summed, or a parameter with this optimizer. */
export type Engine = "kv" | "table-adagrad" | "tensor-adam";

/**
 * How a request chooses among more keys than it carries: each once and all equally likely, or by Zipf 1.05, as often as
 * they come.
 */
export type Choice = "uniform" | "zipf";

export type BenchCase = {
  readonly name: string;
  readonly engine: Engine;
  readonly choice: Choice;
  readonly direction: Direction;
  readonly keyLayout: KeyLayout;
  /** Whether each request carries a new key list; a pull then reads what was pushed since the last pull. */
  readonly isFresh: boolean;
  /** Keys of one request, and floats per key. */
  readonly keyCount: number;
  readonly width: number;
  /** The keys that exist. More than `keyCount` means that each request carries a random choice of them. */
  readonly universeKeyCount: number;
  readonly window: number;
  /** Servers, and workers. */
  readonly nodesPerRole: number;
  readonly yardstick: Yardstick;
  readonly regimes: readonly Regime[];
  /** The case's keys start here in each server's key range, so that the cases of one cluster never share a key. */
  readonly firstKeyOffset: number;
};

export const MEMORY_CASE_NAME = "memory-1M-keys";
export const IDLE_CASE_NAMES = { sources: "memory-idle", built: "memory-idle-built" } as const;

const KEYS_BETWEEN_CASES = 1 << 24;

type Shape = Pick<BenchCase, "direction" | "keyCount" | "width" | "window"> & {
  readonly name: string;
  readonly universeKeyCount?: number;
  readonly engine?: Engine;
  readonly choice?: Choice;
  readonly keyLayout?: KeyLayout;
  readonly isFresh?: boolean;
};

/** One key holding a tensor of `bytes`. */
function tensor(direction: Direction, label: string, bytes: number, window: number): Shape {
  return { name: `${direction}-${label}-w${window}`, direction, keyCount: 1, width: bytes / FLOAT_BYTES, window };
}

/** 10,000 rows per request, neighbours unless they are chosen from a universe. */
function rows(direction: Direction, label: string, width: number, universeKeyCount?: number): Shape {
  const shape = { name: `${direction}-${label}-w4`, direction, keyCount: 10_000, width, window: 4 };
  return universeKeyCount === undefined ? shape : { ...shape, universeKeyCount };
}

/** The same with keys from the whole 64-bit range. */
function spread(shape: Shape): Shape {
  return { ...shape, name: `${shape.name}-spread`, keyLayout: "spread" };
}

/** A list of neighbouring keys is new when it begins elsewhere: so many more keys than a request carries exist then. */
const FRESH_NEIGHBOURS = 64;

/** Pulls, and pushes to many keys, with a new key list each time; pulls come after a push to their keys. */
function freshTwins(shapes: readonly Shape[]): readonly Shape[] {
  return shapes
    .filter(({ direction, keyCount }) => direction === "pull" || (direction === "push" && keyCount > 1))
    .map((shape) => ({
      ...shape,
      name: `${shape.name}-fresh`,
      isFresh: true,
      universeKeyCount: shape.universeKeyCount ?? (shape.keyCount === 1 ? 1 : shape.keyCount + FRESH_NEIGHBOURS),
    }));
}

const SMALL: readonly Shape[] = [
  tensor("push", "4B", 4, 1),
  tensor("pull", "4B", 4, 1),
  tensor("push", "4B", 4, 64),
  tensor("pull", "4B", 4, 64),
];

const LARGE: readonly Shape[] = [
  tensor("push", "64KB", 64 << 10, 16),
  tensor("pull", "64KB", 64 << 10, 16),
  tensor("push", "1MB", 1 << 20, 8),
  tensor("pull", "1MB", 1 << 20, 8),
  tensor("push", "16MB", 16 << 20, 4),
  tensor("pull", "16MB", 16 << 20, 4),
  rows("push", "10kx64", 64),
  rows("pull", "10kx64", 64),
  rows("push", "random-10k-of-200kx64", 64, 200_000),
  rows("pull", "random-10k-of-200kx64", 64, 200_000),
  rows("push", "random-10k-of-1Mx1", 1, 1_000_000),
];

const MIX: Shape = { ...rows("push", "10kx64", 64), name: "mix-10kx64-w4", direction: "mix" };

const SPREAD: readonly Shape[] = [
  rows("push", "10kx64", 64),
  rows("pull", "10kx64", 64),
  MIX,
  rows("push", "random-10k-of-200kx64", 64, 200_000),
  rows("pull", "random-10k-of-200kx64", 64, 200_000),
  rows("push", "random-10k-of-1Mx1", 1, 1_000_000),
].map(spread);

/** Rows of a table of a million, with AdaGrad behind pushes. */
function table(direction: Direction, choice: Choice, width: number): Shape {
  return { ...rows(direction, `table-${choice}-10kx${width}`, width, 1_000_000), engine: "table-adagrad", choice };
}

const PARAMETERS: readonly Shape[] = [
  ...(["uniform", "zipf"] as const).flatMap((choice) =>
    [16, 64].flatMap((width) => [table("push", choice, width), table("pull", choice, width)]),
  ),
  { ...tensor("push", "adam-16MB", 16 << 20, 4), engine: "tensor-adam" },
  { ...tensor("pull", "adam-16MB", 16 << 20, 4), engine: "tensor-adam" },
];

/** Every timed case, in the order in which it is reported. */
export const CASES: readonly BenchCase[] = [
  ...[...SMALL, ...freshTwins(SMALL)].map(onOnePair),
  ...[...LARGE, ...freshTwins(LARGE), MIX].map(onOnePair),
  ...[...SPREAD, ...freshTwins(SPREAD)].map(onOnePair),
  ...[...LARGE, MIX].map(onTwoPairs),
  ...[...PARAMETERS, ...freshTwins(PARAMETERS)].map(onOnePair),
].map((benchCase, index) => ({ ...benchCase, firstKeyOffset: (index + 1) * KEYS_BETWEEN_CASES }));

/** Only ever filled, 10,000 keys at a time. */
export const MEMORY_CASE: BenchCase = onOnePair({ ...rows("push", "", 1, 1_000_000), name: MEMORY_CASE_NAME, window: 1 });

/** Nothing is asked of these. */
export function idleCase(name: string): BenchCase {
  return { ...onOnePair(tensor("pull", "", 0, 0)), name };
}

export function valueBytes({ keyCount, width }: BenchCase): number {
  return keyCount * width * FLOAT_BYTES;
}

function onOnePair(shape: Shape): BenchCase {
  const isSmall = shape.keyCount * shape.width === 1;
  return {
    engine: "kv",
    choice: "uniform",
    keyLayout: "dense",
    isFresh: false,
    ...shape,
    universeKeyCount: shape.universeKeyCount ?? shape.keyCount,
    nodesPerRole: 1,
    yardstick: isSmall ? (shape.window === 1 ? "latency" : "rate") : "bandwidth",
    // On one core a bandwidth case only measures how two processes share it; where the threads wake up matters for
    // small messages.
    regimes: isSmall ? ["free", "pinned"] : ["free"],
    firstKeyOffset: 0,
  };
}

/** A single key becomes one key per server, each with its share of the values. */
function onTwoPairs(shape: Shape): BenchCase {
  const nodesPerRole = 2;
  const split = shape.keyCount === 1 ? { ...shape, keyCount: nodesPerRole, width: shape.width / nodesPerRole } : shape;
  return { ...onOnePair(split), name: `${shape.name}-2x2`, nodesPerRole };
}
