// paired — this checkout beside another one of this repository, an earlier commit for instance, in paired turns:
//
//   git worktree add ../before COMMIT && (cd ../before && npm install)
//   node bench/paired.ts --other ../before [--starts 3] [--turns 7] [--ms 350] [--settle 1200] [CASE…]
//   node bench/paired.ts --other . --replicas 2 --settle 6000 push-4B-w64 push-1MB-w8 push-16MB-w4 push-10kx64-w4
//   node bench/paired.ts --other . --durable push-4B-w64 push-1MB-w8
//   node bench/paired.ts --other . --shared-memory push-4B-w64 push-1MB-w8
//
// Both clusters are alive; a turn measures one and then the other, in both orders by turns. What counts is the ratio
// within a turn. The processor's clock, other work on the machine and where threads and memory have come to lie change
// from start to start more than from turn to turn, so clusters are started several times, and the median of the starts'
// medians is told. Before the first turn each cluster settles: small requests are compiled again and again for seconds,
// and for longer where three processes share two cores, so that figures of two copies need `--settle 6000`. The other
// checkout's own bench drives its cluster: both must know the case. With `--replicas 2` each server of this checkout
// has two copies, with `--durable` it keeps its log in a file, with `--checkpoints` it has a directory for them; those
// of the other one have one copy and no files. With `--shared-memory` links of this checkout share memory, and
// those of the other one do not. What other processes of the machine used of its cores meanwhile is told,
// too: above 5 % the figures say little.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { type BenchCase, CASES } from "./cases.ts";
import type { Regime } from "./child.ts";
import { ForeignCpu } from "./foreign-cpu.ts";
import { type Figure, together } from "./meter.ts";
import { OurCluster } from "./our-cluster.ts";
import { median } from "./statistics.ts";

/** Of one round: sums of float32 stay exact for so long. */
const SETTLE_ROUND_MS = 1_200;
const WARMUP_MS = 60;
const CASES_PER_CLUSTER = 8;

type Settings = {
  readonly Other: typeof OurCluster;
  readonly turns: number;
  readonly measureMs: number;
  readonly settleMs: number;
  readonly regime: Regime;
  readonly replicas: number;
  readonly durable: boolean;
  readonly checkpoints: boolean;
  readonly sharedMemory: boolean;
};
type Turn = { readonly ours: Figure; readonly other: Figure };

async function turnsOf(cases: readonly BenchCase[], settings: Settings): Promise<Map<string, Turn[]>> {
  const { Other, turns, measureMs, settleMs, regime, replicas } = settings;
  const nodesPerRole = (cases[0] as BenchCase).nodesPerRole;
  using files = temporaryDirectory();
  const durable = settings.durable ? join(files.path, "durable") : undefined;
  const checkpointDir = settings.checkpoints ? join(files.path, "checkpoints") : undefined;
  const memory = settings.sharedMemory ? ({ sharedMemory: "on" } as const) : {};
  await using ours = await OurCluster.start({ regime, nodesPerRole, replicas, durable, checkpointDir, ...memory });
  await using other = await Other.start({ regime, nodesPerRole });
  const found = new Map<string, Turn[]>();
  for (const benchCase of cases) {
    for (const cluster of [ours, other]) {
      await cluster.open(benchCase);
      for (let ms = 0; ms < settleMs; ms += SETTLE_ROUND_MS) await cluster.measure({ warmupMs: 0, measureMs: SETTLE_ROUND_MS });
    }
    const measure = async (cluster: OurCluster): Promise<Figure> => await cluster.measure({ warmupMs: WARMUP_MS, measureMs });
    const list: Turn[] = [];
    for (let turn = 0; turn < turns; turn++) {
      const [first, second] = turn % 2 === 0 ? [ours, other] : [other, ours];
      const [a, b] = [await measure(first), await measure(second)];
      list.push(turn % 2 === 0 ? { ours: a, other: b } : { ours: b, other: a });
    }
    found.set(benchCase.name, list);
  }
  return found;
}

function temporaryDirectory(): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), "weighbridge-bench-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** How much better ours is: above 1 is faster. */
function ratioOf({ yardstick }: BenchCase, { ours, other }: Turn): number {
  return yardstick === "latency" ? other.p50Us / ours.p50Us : ours.reqPerSec / other.reqPerSec;
}

function line(benchCase: BenchCase, starts: readonly (readonly Turn[])[]): string {
  const medians = starts.map((turns) => median(turns.map((turn) => ratioOf(benchCase, turn))));
  const all = starts.flat().map((turn) => ratioOf(benchCase, turn));
  const ours = together(starts.flat().map((turn) => turn.ours));
  const figure =
    benchCase.yardstick === "latency" ? `${ours.p50Us.toFixed(1)} µs` : `${(ours.reqPerSec / starts.flat().length).toFixed(0)} req/s`;
  const shown = medians.map((ratio) => ratio.toFixed(2)).join(" ");
  return `${benchCase.name.padEnd(38)} ${median(medians).toFixed(3)}   starts ${shown}   turns ${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)}   ${figure}`;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      other: { type: "string" },
      starts: { type: "string", default: "3" },
      turns: { type: "string", default: "7" },
      ms: { type: "string", default: "350" },
      settle: { type: "string", default: "1200" },
      regime: { type: "string", default: "free" },
      replicas: { type: "string", default: "1" },
      durable: { type: "boolean", default: false },
      checkpoints: { type: "boolean", default: false },
      "shared-memory": { type: "boolean", default: false },
    },
  });
  if (values.other === undefined) throw new Error("--other names the checkout to compare with");
  const unknown = positionals.find((name) => !CASES.some((one) => one.name === name));
  if (unknown !== undefined) throw new Error(`no case is named ${unknown}`);
  const { OurCluster: Other } = (await import(pathToFileURL(resolve(values.other, "bench/our-cluster.ts")).href)) as {
    OurCluster: typeof OurCluster;
  };
  const settings = {
    Other,
    turns: Number(values.turns),
    measureMs: Number(values.ms),
    settleMs: Number(values.settle),
    regime: values.regime as Regime,
    replicas: Number(values.replicas),
    durable: values.durable,
    checkpoints: values.checkpoints,
    sharedMemory: values["shared-memory"],
  };
  const chosen = CASES.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
  for (const cases of groupsOf(chosen)) {
    const starts: Map<string, Turn[]>[] = [];
    const foreign = new ForeignCpu();
    for (let start = 0; start < Number(values.starts); start++) starts.push(await turnsOf(cases, settings));
    for (const benchCase of cases) {
      const turns = starts.map((found) => found.get(benchCase.name) as Turn[]);
      console.log(line(benchCase, turns));
    }
    const share = foreign.share();
    if (share !== undefined) console.log(`other processes used ${(share * 100).toFixed(1)} % of the cores`);
  }
}

/**
 * Cases that one pair of clusters serves: of one size, and few enough for the memory of a server, which keeps the keys
 * of all of them.
 */
function groupsOf(cases: readonly BenchCase[]): readonly (readonly BenchCase[])[] {
  const groups: BenchCase[][] = [];
  for (const benchCase of cases) {
    const last = groups.at(-1);
    if (last !== undefined && last.length < CASES_PER_CLUSTER && last[0]?.nodesPerRole === benchCase.nodesPerRole) last.push(benchCase);
    else groups.push([benchCase]);
  }
  return groups;
}

await main();
