// session — runs cases on live clusters. Raw and ours take turns (A/B/A/B), so that a busy neighbour hits both alike;
// medians are reported.

import { type BenchCase, IDLE_CASE_NAMES, idleCase, MEMORY_CASE } from "./cases.ts";
import type { Regime } from "./child.ts";
import { idleMemory, type Packaging } from "./idle-memory.ts";
import type { Figure } from "./meter.ts";
import type { Effort } from "./options.ts";
import { OurCluster } from "./our-cluster.ts";
import { findCeiling, rawFlowOf } from "./raw-ceiling.ts";
import { RawCluster } from "./raw-cluster.ts";
import type { RawFlow, RawPlan } from "./raw-stream.ts";
import { entryOf, type Line, medianFigure } from "./report.ts";

/** Cases that share a regime, a number of nodes and a memory share their processes. */
export type Group = { readonly regime: Regime; readonly nodesPerRole: number; readonly cases: readonly BenchCase[] };

const SMALL_REQUEST_BYTES = 64 << 10;

export type SessionOptions = { readonly effort: Effort; readonly rawOnly: boolean; readonly onLine: (line: Line) => void };

export function groupsOf(cases: readonly BenchCase[], regimes: readonly Regime[]): readonly Group[] {
  return regimes.flatMap((regime) => {
    const byProcesses = Map.groupBy(
      cases.filter((benchCase) => benchCase.regimes.includes(regime)),
      (benchCase) => `${benchCase.nodesPerRole} ${memoryOf(benchCase)}`,
    );
    return [...byProcesses.values()].map((cases) => ({ regime, nodesPerRole: cases[0]!.nodesPerRole, cases }));
  });
}

/**
 * A server keeps the tables of all its cases, a million rows each: those of both choices together do not fit into its
 * arena.
 */
function memoryOf({ engine, choice }: BenchCase): string {
  return engine === "table-adagrad" ? `tables ${choice}` : "the rest";
}

export async function runGroup(group: Group, { effort, rawOnly, onLine }: SessionOptions): Promise<void> {
  await using raw = await RawCluster.start(group);
  await using ours = rawOnly ? undefined : await OurCluster.start(group);
  const ceilings = new Ceilings(raw, effort);
  for (const benchCase of group.cases) {
    const { flow, requestsPerExchange } = rawFlowOf(benchCase);
    const deadline = performance.now() + effort.caseBudgetMs;
    const plan = await ceilings.planFor(flow, deadline);
    await ours?.open(benchCase);
    await ours?.measure(isSmall(benchCase) ? effort.settleSmallSpan : effort.settleSpan);
    const rawRounds: Figure[] = [];
    const ourRounds: Figure[] = [];
    for (let round = 0; round < effort.rounds && (round === 0 || performance.now() < deadline); round++) {
      const exchanges = await raw.measure(flow, plan, effort.span);
      rawRounds.push({ ...exchanges, reqPerSec: exchanges.reqPerSec * requestsPerExchange });
      if (ours !== undefined) ourRounds.push(await ours.measure(effort.span));
    }
    const line = { benchCase, regime: group.regime, raw: medianFigure(rawRounds), plan, rounds: rawRounds.length };
    if (ours === undefined) onLine(line);
    else onLine({ ...line, entry: entryOf(line, { ours: medianFigure(ourRounds), memory: await ours.memory() }) });
  }
}

function isSmall({ keyCount, width }: BenchCase): boolean {
  return keyCount * width * Float32Array.BYTES_PER_ELEMENT <= SMALL_REQUEST_BYTES;
}

/** Starts a cluster of its own, so that the server is idle before the keys come. */
export async function runMemoryCase(onLine: (line: Line) => void): Promise<void> {
  const line = { benchCase: MEMORY_CASE, regime: "free" } as const;
  await using ours = await OurCluster.start({ regime: line.regime, nodesPerRole: MEMORY_CASE.nodesPerRole });
  const idle = await ours.memory();
  const filling = await ours.open(MEMORY_CASE);
  const memory = await ours.memory();
  await ours.verify();
  onLine({ ...line, entry: entryOf(line, { ours: filling, memory, extraMb: memory.rssServerMb - idle.rssServerMb }) });
}

export async function runIdleCase(packaging: Packaging, onLine: (line: Line) => void): Promise<void> {
  const line = { benchCase: idleCase(IDLE_CASE_NAMES[packaging]), regime: "free" } as const;
  const memory = await idleMemory(packaging);
  onLine({ ...line, entry: entryOf(line, { ours: { reqPerSec: 0, p50Us: 0, p99Us: 0 }, memory }) });
}

/** Searches once per flow: cases that move the same bytes in the same way have the same ceiling. */
class Ceilings {
  readonly #cluster: RawCluster;
  readonly #effort: Effort;
  readonly #plans = new Map<string, RawPlan>();

  constructor(cluster: RawCluster, effort: Effort) {
    this.#cluster = cluster;
    this.#effort = effort;
  }

  async planFor(flow: RawFlow, deadline: number): Promise<RawPlan> {
    const key = JSON.stringify(flow);
    const plan = this.#plans.get(key) ?? (await findCeiling(this.#cluster, flow, this.#effort.searchSpan, deadline));
    this.#plans.set(key, plan);
    return plan;
  }
}
