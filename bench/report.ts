// report — turns the rounds of a case into the entry of the JSON file and into a line of the table.
// Every figure is the median of the rounds. `rawShare` compares with the raw rounds of the same run; 1 is the ceiling,
// whatever the yardstick. A share above CEILING_SHARE_MAX means that the ceiling is wrong, and the line says so.

import { type BenchCase, valueBytes } from "./cases.ts";
import type { Regime } from "./child.ts";
import type { Figure } from "./meter.ts";
import type { ClusterMemory } from "./our-cluster.ts";
import { describePlan, type RawPlan } from "./raw-stream.ts";
import { median } from "./statistics.ts";

/**
 * One element of the JSON array. GB are 10^9 bytes of values, MB 10^6 bytes; `rawShare` is null where nothing raw
 * compares.
 */
export type Entry = {
  readonly case: string;
  readonly regime: Regime;
  readonly reqPerSec: number;
  readonly gbPerSec: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly rawShare: number | null;
  readonly rssServerMb: number;
  readonly rssWorkerMb: number;
  /** Only in the memory case: what the keys added to the idle server. */
  readonly extraMb?: number;
};

/** All that is known about a case in a regime. The JSON takes only `entry`; the table shows the raw side as well. */
export type Line = {
  readonly benchCase: BenchCase;
  readonly regime: Regime;
  readonly raw?: Figure;
  readonly plan?: RawPlan;
  readonly rounds?: number;
  readonly entry?: Entry;
};

const CEILING_SHARE_MAX = 1.1;

export function medianFigure(rounds: readonly Figure[]): Figure {
  return {
    reqPerSec: median(rounds.map(({ reqPerSec }) => reqPerSec)),
    p50Us: median(rounds.map(({ p50Us }) => p50Us)),
    p99Us: median(rounds.map(({ p99Us }) => p99Us)),
  };
}

function gbPerSec(benchCase: BenchCase, { reqPerSec }: Figure): number {
  return (reqPerSec * valueBytes(benchCase)) / 1e9;
}

/** Latency: raw p50 over ours. Rate and bandwidth: ours over raw, which for the same bytes per request is one ratio. */
function rawShareOf({ yardstick }: BenchCase, ours: Figure, raw: Figure): number {
  return yardstick === "latency" ? raw.p50Us / ours.p50Us : ours.reqPerSec / raw.reqPerSec;
}

export function entryOf(
  { benchCase, regime, raw }: Line,
  { ours, memory, extraMb }: { ours: Figure; memory: ClusterMemory; extraMb?: number },
): Entry {
  return {
    case: benchCase.name,
    regime,
    reqPerSec: rounded(ours.reqPerSec, 1),
    gbPerSec: rounded(gbPerSec(benchCase, ours), 4),
    p50Us: rounded(ours.p50Us, 1),
    p99Us: rounded(ours.p99Us, 1),
    rawShare: raw === undefined ? null : rounded(rawShareOf(benchCase, ours, raw), 3),
    rssServerMb: rounded(memory.rssServerMb, 1),
    rssWorkerMb: rounded(memory.rssWorkerMb, 1),
    ...(extraMb === undefined ? {} : { extraMb: rounded(extraMb, 1) }),
  };
}

/** One line of progress: the figure the case is about, ours and raw, and the plan that was the ceiling. */
export function formatLine({ benchCase, regime, raw, plan, rounds, entry }: Line): string {
  const text = { latency: latencyText, rate: rateText, bandwidth: bandwidthText }[benchCase.yardstick];
  return [
    `${benchCase.name} ${regime}:`,
    ...(entry ? [`ours ${text(entry, benchCase)}`] : []),
    ...(raw ? [`raw ${text(raw, benchCase)}`] : []),
    ...(entry && entry.rawShare !== null ? [`share ${entry.rawShare.toFixed(2)}`] : []),
    ...(entry && (entry.rawShare ?? 0) > CEILING_SHARE_MAX ? ["(the ceiling is wrong)"] : []),
    ...(entry && benchCase.window === 0 ? [`server ${entry.rssServerMb} MB, worker ${entry.rssWorkerMb} MB`] : []),
    ...(entry?.extraMb === undefined ? [] : [`${entry.extraMb} MB over idle`]),
    ...(plan ? [`(${rounds} rounds; raw ${describePlan(plan)})`] : []),
  ].join(" ");
}

/** Where there is no room for all, the column of the highest rank goes first; those without one stay. */
const COLUMNS: readonly { readonly title: string; readonly rank?: number; readonly cell: (line: Line) => string }[] = [
  { title: "case", cell: ({ benchCase }) => benchCase.name },
  { title: "regime", cell: ({ regime }) => regime },
  { title: "req/s", cell: ({ entry }) => number(entry?.reqPerSec, 0) },
  {
    title: "rows/s",
    rank: 7,
    cell: ({ benchCase, entry }) => (entry && benchCase.keyCount > 2 ? number(entry.reqPerSec * benchCase.keyCount, 0) : ""),
  },
  { title: "GB/s", rank: 1, cell: ({ entry }) => number(entry?.gbPerSec, 2) },
  { title: "p50 µs", rank: 2, cell: ({ entry }) => number(entry?.p50Us, 1) },
  { title: "p99 µs", rank: 3, cell: ({ entry }) => number(entry?.p99Us, 1) },
  { title: "raw req/s", rank: 4, cell: ({ raw }) => number(raw?.reqPerSec, 0) },
  { title: "raw GB/s", rank: 5, cell: ({ benchCase, raw }) => number(raw && gbPerSec(benchCase, raw), 2) },
  { title: "raw p50 µs", rank: 6, cell: ({ raw }) => number(raw?.p50Us, 1) },
  { title: "rawShare", cell: ({ entry }) => number(entry?.rawShare ?? undefined, 2) },
  { title: "server MB", rank: 8, cell: ({ entry }) => number(entry?.rssServerMb, 0) },
  { title: "worker MB", rank: 9, cell: ({ entry }) => number(entry?.rssWorkerMb, 0) },
  { title: "extra MB", rank: 10, cell: ({ entry }) => number(entry?.extraMb, 1) },
];

const NO_COLUMN = { title: "", rank: 0, cells: [] as string[] };

/**
 * The lines as aligned text, no wider than `columnsMax` if that can be; columns in which no line has a value are left
 * out.
 */
export function formatTable(lines: readonly Line[], columnsMax: number = Infinity): string {
  let columns = COLUMNS.map(({ title, rank = 0, cell }) => ({ title, rank, cells: lines.map(cell) })).filter(({ cells }) =>
    cells.some((text) => text !== ""),
  );
  const leftOut: string[] = [];
  for (;;) {
    const text = tableText(columns);
    const first = columns.reduce((highest, column) => (column.rank > highest.rank ? column : highest), NO_COLUMN);
    if (first.rank === 0 || text.indexOf("\n") <= columnsMax)
      return leftOut.length === 0 ? text : `${text}\nleft out for want of room: ${leftOut.join(", ")}`;
    leftOut.unshift(first.title);
    columns = columns.filter((column) => column !== first);
  }
}

function tableText(columns: readonly { readonly title: string; readonly cells: readonly string[] }[]): string {
  const padded = columns.map(({ title, cells }, index) => {
    const width = Math.max(title.length, ...cells.map((text) => text.length));
    return [title, ...cells].map((text) => (index < 2 ? text.padEnd(width) : text.padStart(width)));
  });
  return [...(padded[0] ?? []).keys()].map((row) => padded.map((column) => column[row]!).join("  ")).join("\n");
}

/**
 * One line per mix whose parts were measured too: what it reaches of the rate at which pushes and fresh pulls would
 * come in turn.
 */
export function formatMixes(lines: readonly Line[]): readonly string[] {
  const rateOf = (name: string): number | undefined => lines.find(({ entry }) => entry?.case === name)?.entry?.reqPerSec;
  return lines.flatMap(({ benchCase, entry }) => {
    if (benchCase.direction !== "mix" || entry === undefined) return [];
    const push = rateOf(benchCase.name.replace(/^mix/, "push"));
    const pull = rateOf(`${benchCase.name.replace(/^mix/, "pull")}-fresh`);
    if (push === undefined || pull === undefined) return [];
    const share = entry.reqPerSec / (2 / (1 / push + 1 / pull));
    return [`${benchCase.name}: ${share.toFixed(2)} of the harmonic mean of its push and its fresh pull`];
  });
}

function latencyText({ p50Us }: Figure): string {
  return `p50 ${number(p50Us, 1)} µs`;
}

function rateText({ reqPerSec }: Figure): string {
  return `${number(reqPerSec, 0)} req/s`;
}

function bandwidthText(figure: Figure, benchCase: BenchCase): string {
  return `${number(gbPerSec(benchCase, figure), 2)} GB/s`;
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

function number(value: number | undefined, digits: number): string {
  return value === undefined ? "" : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
