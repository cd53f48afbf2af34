// table-statistics — what one thread did with one table: counted where it happens, read when asked for.

/** Staleness from here on is counted together. */
const STALENESS_MAX = 15;

export type TableStatistics = {
  readonly gets: number;
  /** Gets that found a fresh row in the process cache. */
  readonly hits: number;
  readonly misses: number;
  /** How long this thread waited for rows. */
  readonly waitMs: number;
  readonly incs: number;
  readonly clocks: number;
  /**
   * By how many clocks the rows of gets were behind the thread: entry i says how many were i behind, the last one how
   * many were further.
   */
  readonly staleness: readonly number[];
};

/** The same of a table over all threads of the process, and what travelled for it. */
export type TableTotals = {
  readonly sentBytes: number;
  readonly receivedBytes: number;
  /** Both, for each clock that the process ended. */
  readonly bytesPerClock: number;
  /** By the ids of threads. Of threads of the system their own handles tell. */
  readonly threads: ReadonlyMap<number, TableStatistics>;
};

/** Lines for people, as YAML. */
export function totalsText(totals: ReadonlyMap<number, TableTotals>): string {
  const lines = [...totals].flatMap(([id, { threads, ...table }]) => [
    `table ${id}:`,
    ...Object.entries(table).map(([name, value]) => `  ${name}: ${value}`),
    ...[...threads].flatMap(([thread, { staleness, ...counts }]) => [
      `  thread ${thread}:`,
      ...Object.entries(counts).map(([name, value]) => `    ${name}: ${value}`),
      `    staleness: [${staleness.join(", ")}]`,
    ]),
  ]);
  return `${lines.join("\n")}\n`;
}

/** The numbers as they are counted: fields of one array, so that counting allocates nothing. */
export class TableCounters {
  static readonly HITS = 0;
  static readonly MISSES = 1;
  static readonly WAIT_MS = 2;
  static readonly INCS = 3;
  static readonly CLOCKS = 4;
  readonly counts: Float64Array = new Float64Array(5);
  readonly staleness: Float64Array = new Float64Array(STALENESS_MAX + 1);

  /** A get at this clock found a row of that version. */
  read(clock: number, version: number): void {
    const behind = clock - version;
    this.staleness[Math.max(0, Math.min(STALENESS_MAX, behind))]!++;
  }

  get statistics(): TableStatistics {
    const [hits, misses, waitMs, incs, clocks] = this.counts as unknown as [number, number, number, number, number];
    return { gets: hits + misses, hits, misses, waitMs, incs, clocks, staleness: [...this.staleness] };
  }
}
