// tables — what the embedding table does in process, on one thread, without a network: pulls and AdaGrad pushes of
// random rows, growth under new keys, and the worker's work on key lists. Figures for comparison within one run; the
// machine decides the rest.
//
//   node bench/tables.ts [huge] [speed] [growth] [lists]      all of them when none is named; growth takes about a
//                                                             minute and 3 GB
//
// speed    1 M rows, 10,240 keys a call, uniform and Zipf 1.05; a push takes gradients as they come, duplicates not
//          summed
// growth   1 to 20 M rows of 16 floats with their AdaGrad sums, 1,024 new keys a call; then the rates of `speed` at 20
//          M rows. Between the calls pages ahead are touched, as a server does in its idle turns; `growth-cold` is
//          without. A virtual machine may be busy with giving memory back to its host for some seconds after a large
//          process ended, and then has calls of 50 ms and more: wait for 20 s before
// lists    duplicates and partition of 10,240 keys
// huge     asks the system for large pages first, as a server does where koffi is installed

import { SILENT_LOG } from "../src/base/log.ts";
import { Random } from "../src/base/random.ts";
import { Arena } from "../src/kernel/arena.ts";
import { duplicateScratchBytes, simdDuplicateKernels } from "../src/kernel/duplicate-kernels.ts";
import { SimdInitializerKernels } from "../src/kernel/initializer-kernels.ts";
import { QuantileTable } from "../src/kernel/normal-quantiles.ts";
import { SimdOptimizerKernels } from "../src/kernel/optimizer-kernels.ts";
import { partitionScratchBytes, simdPartitionKernels } from "../src/kernel/partition-kernels.ts";
import { simdRowKernels } from "../src/kernel/row-kernels.ts";
import { SimdKernels } from "../src/kernel/simd-kernels.ts";
import { PART_BITS } from "../src/keys/placement.ts";
import { rangePlacement } from "../src/keys/placement-of.ts";
import { hugePages } from "../src/node/huge-pages.ts";
import { Initializer } from "../src/store/initializers/initializer.ts";
import { resolveInitializer } from "../src/store/initializers/initializer-spec.ts";
import { bringPagesAhead } from "../src/store/pages-ahead.ts";
import { TableStore } from "../src/store/table-store.ts";
import { resolveOptimizer } from "../src/store/updaters/optimizer-spec.ts";
import { Updater } from "../src/store/updaters/updater.ts";
import { quantile } from "./statistics.ts";

const CALL_KEYS = 10_240;
const CALLS = 64;
const ROUNDS = 9;
const NEW_KEYS = 1_024;
const ZIPF_EXPONENT = 1.05;
const HUGE = "huge";

type Distribution = "uniform" | "Zipf 1.05";

/** What a server does with a new memory, or nothing. */
const advise = process.argv.includes(HUGE) ? await hugePages({ log: SILENT_LOG }) : undefined;

function newArena(): Arena {
  const arena = new Arena();
  advise?.(arena);
  return arena;
}

class Stage {
  readonly arena = newArena();
  readonly store: TableStore;
  readonly keys: number;
  readonly values: number;
  readonly #width: number;

  constructor(width: number) {
    const { arena } = this;
    this.#width = width;
    const owner = { kind: "table", width } as const;
    const target = { name: "embedding", shape: [width] };
    const spec = resolveInitializer({ type: "uniform", low: -0.05, high: 0.05, seed: 1 });
    const updater = new Updater(arena, new SimdOptimizerKernels(arena), resolveOptimizer({ type: "adagrad" }), owner);
    // As a push does that was looked through.
    updater.begin({ step: 1, scheduleStep: 0, gradientScale: 1, workerRank: 0, magnitude: 1 });
    this.store = new TableStore({
      arena,
      kernels: new SimdKernels(arena),
      rowKernels: simdRowKernels(arena),
      width,
      updater,
      initializer: new Initializer(arena, new SimdInitializerKernels(arena), new QuantileTable(arena), spec, target),
      secret: 1n,
    });
    this.keys = arena.allocate(CALL_KEYS * CALLS * 8);
    this.values = arena.allocate(CALL_KEYS * width * 4);
    for (let i = 0; i < CALL_KEYS * width; i++) arena.floats[this.values / 4 + i] = ((i % 7) - 3) / 1_000;
  }

  /** Id i as a u64 key that says nothing about i: ids of a real job are hashes. */
  putKey(position: number, id: number): void {
    this.arena.words[this.keys / 4 + position * 2] = Math.imul(id, 0x9e37_79b1);
    this.arena.words[this.keys / 4 + position * 2 + 1] = id;
  }

  /** Inserts ids, NEW_KEYS a call; milliseconds of each call. */
  grow(from: number, to: number, touches: boolean): Float64Array {
    const times = new Float64Array((to - from) / NEW_KEYS);
    for (let call = 0; call < times.length; call++) {
      for (let i = 0; i < NEW_KEYS; i++) this.putKey(i, from + call * NEW_KEYS + i);
      if (touches) bringPagesAhead(this.arena);
      const start = performance.now();
      this.store.update({ keys: this.keys, keyCount: NEW_KEYS, gradients: this.values });
      times[call] = performance.now() - start;
    }
    return times;
  }

  /** M rows/s of pulls and of pushes, medians. */
  rates(distribution: Distribution, rowCount: number): { pull: number; push: number } {
    const draw = distribution === "uniform" ? uniformIds(rowCount) : zipfIds(rowCount);
    for (let i = 0; i < CALL_KEYS * CALLS; i++) this.putKey(i, draw());
    const out = this.arena.allocate(CALL_KEYS * this.#width * 4);
    const eachCall = (work: (keys: number) => void): number => {
      const start = performance.now();
      for (let call = 0; call < CALLS; call++) work(this.keys + call * CALL_KEYS * 8);
      return (CALL_KEYS * CALLS) / (performance.now() - start) / 1e3;
    };
    const [pulls, pushes]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      pulls.push(eachCall((keys) => this.store.pull({ keys, keyCount: CALL_KEYS, out })));
      pushes.push(eachCall((keys) => this.store.update({ keys, keyCount: CALL_KEYS, gradients: this.values })));
    }
    return { pull: middle(pulls), push: middle(pushes) };
  }
}

function middle(values: number[]): number {
  return quantile(
    values.sort((a, b) => a - b),
    0.5,
  );
}

function uniformIds(idCount: number): () => number {
  const random = new Random(1);
  return () => random.below(idCount);
}

/** Rank r has probability ~ r^-1.05; ranks are dealt to ids far apart. */
function zipfIds(idCount: number): () => number {
  const random = new Random(1);
  const sums = new Float64Array(idCount);
  for (let rank = 0, sum = 0; rank < idCount; rank++) sums[rank] = sum += (rank + 1) ** -ZIPF_EXPONENT;
  return () => {
    const wanted = random.fraction() * sums[idCount - 1]!;
    let [from, to] = [0, idCount - 1];
    while (from < to) {
      const half = (from + to) >> 1;
      if (sums[half]! < wanted) from = half + 1;
      else to = half;
    }
    return (from * 7_919) % idCount;
  };
}

function print(name: string, figures: Readonly<Record<string, string>>): void {
  const cells = Object.entries(figures).map(([what, figure]) => `${what} ${figure}`);
  console.log(`${name.padEnd(40)} ${cells.join("   ")}`);
}

function printRates(stage: Stage, width: number, rowCount: number): void {
  for (const distribution of ["uniform", "Zipf 1.05"] as const) {
    const { pull, push } = stage.rates(distribution, rowCount);
    const name = `dim ${width}, ${(rowCount / 1e6).toFixed(0)} M rows, ${distribution}`;
    print(name, { pull: `${pull.toFixed(1)} M rows/s`, "AdaGrad push": `${push.toFixed(1)} M rows/s` });
  }
}

function speed(): void {
  const rowCount = 1_000_448; // whole calls of new keys
  for (const width of [16, 64]) {
    const stage = new Stage(width);
    stage.grow(0, rowCount, false);
    printRates(stage, width, rowCount);
  }
}

function growth(touches: boolean): void {
  const [from, to, width] = [1_000_448, 20_000_768, 16];
  const stage = new Stage(width);
  stage.grow(0, from, touches);
  const times = stage.grow(from, to, touches).sort();
  const ms = (share: number): string => `${quantile(times, share).toFixed(2)} ms`;
  const name = `1 to 20 M rows, 1,024 new a call${touches ? "" : ", cold"}`;
  print(name, { p50: ms(0.5), "p99.9": ms(0.999), worst: ms(1) });
  const { rowCount, usedBytes } = stage.store;
  print(`memory at ${(rowCount / 1e6).toFixed(0)} M rows`, {
    "beyond values and slots": `${(usedBytes / rowCount - width * 8).toFixed(1)} B/row`,
  });
  if (touches) printRates(stage, width, rowCount);
}

function lists(): void {
  const arena = new Arena();
  const [keys, keysOut, indexes] = [CALL_KEYS * 8, CALL_KEYS * 8, CALL_KEYS * 4].map((bytes) => arena.allocate(bytes));
  const scratch = arena.allocate(duplicateScratchBytes(CALL_KEYS) + partitionScratchBytes({ keyCount: CALL_KEYS, ownerCount: 16 }));
  const duplicates = simdDuplicateKernels(arena);
  const measure = (name: string, work: () => void): void => {
    const rates: number[] = [];
    for (let round = 0; round < 400; round++) {
      const start = performance.now();
      work();
      rates.push(CALL_KEYS / (performance.now() - start) / 1e3);
    }
    print(`${name}, 10,240 keys`, { rate: `${middle(rates.slice(200)).toFixed(0)} M keys/s` });
  };
  const fill = (draw: (i: number) => number): void => {
    for (let i = 0; i < CALL_KEYS; i++) arena.words[keys! / 4 + i * 2] = draw(i);
  };
  const find = (): number => duplicates.findDuplicates(keys!, CALL_KEYS, 1, scratch, keysOut!, indexes!);
  fill((i) => i);
  measure("duplicates: none", find);
  fill(zipfIds(1e6));
  measure(`duplicates: Zipf 1.05 (${find()} unique)`, find);
  fill((i) => i);
  for (const serverCount of [2, 16]) {
    const { owners } = rangePlacement({ servers: Array.from({ length: serverCount }, (_, rank) => rank), epoch: 0 });
    const [table, spans] = [arena.allocate(owners.byteLength), arena.allocate((serverCount + 1) * 4)];
    new Uint16Array(arena.memory.buffer, table, owners.length).set(owners);
    const { partitionKeys } = simdPartitionKernels(arena);
    measure(`partition over ${serverCount} servers`, () =>
      partitionKeys(keys!, CALL_KEYS, table, PART_BITS, serverCount, scratch, spans, keysOut!, indexes!),
    );
  }
}

const CASES: Readonly<Record<string, () => void>> = {
  speed,
  growth: () => growth(true),
  "growth-cold": () => growth(false),
  lists,
};
if (process.argv.includes(HUGE) && advise === undefined) console.error("no huge pages: not Linux, or koffi is not installed");
const asked = process.argv.slice(2).filter((word) => word !== HUGE);
const unknown = asked.filter((name) => CASES[name] === undefined);
if (unknown.length > 0) {
  console.error(`no such case: ${unknown.join(", ")}; there are ${Object.keys(CASES).join(", ")}`);
  process.exitCode = 1;
} else {
  for (const name of asked.length > 0 ? asked : Object.keys(CASES)) CASES[name]?.();
}
