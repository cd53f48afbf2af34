// table-statistics — what one thread did with one table: counted where it happens, read when asked for.

/** Staleness from here on is counted together. */
const STALENESS_MAX = 15;

/** What a table has done in this process. */
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
  /** By the ids of threads: all that have registered, also those that have left. */
  readonly threads: ReadonlyMap<number, TableStatistics>;
};

/** What a group tells its observers, when its process has ended a clock and when it has shut down. */
export type TableReport = {
  /** Of the process. */
  readonly rank: number;
  /** How many clocks all threads of the process have ended. */
  readonly clock: number;
  /** Whether the group has shut down: there are no reports after it. */
  readonly isLast: boolean;
  /** By table, as `group.statistics`. Put together when it is read, so that watchers may skip reports at no cost. */
  readonly statistics: ReadonlyMap<number, TableTotals>;
};

/** Where reports go. A report is made only if it is wanted. */
export type ReportSink = {
  readonly isWanted: boolean;
  take(report: TableReport): void;
};

export const NO_REPORTS: ReportSink = { isWanted: false, take: () => {} };

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

const COUNTS = 5;

/** The numbers as they are counted: fields of arrays, so that counting allocates nothing. */
export class TableCounters {
  static readonly HITS = 0;
  static readonly MISSES = 1;
  static readonly WAIT_MS = 2;
  static readonly INCS = 3;
  static readonly CLOCKS = 4;
  static readonly BYTES: number = (COUNTS + STALENESS_MAX + 1) * Float64Array.BYTES_PER_ELEMENT;
  readonly counts: Float64Array;
  readonly staleness: Float64Array;

  /** In memory of BYTES, which another thread may read: a thread of the system counts where its process can look. */
  constructor(memory: ArrayBufferLike = new ArrayBuffer(TableCounters.BYTES)) {
    this.counts = new Float64Array(memory, 0, COUNTS);
    this.staleness = new Float64Array(memory, this.counts.byteLength, STALENESS_MAX + 1);
  }

  /** A get at this clock found a row of that version. */
  read(clock: number, version: number): void {
    const behind = clock - version;
    this.staleness[Math.max(0, Math.min(STALENESS_MAX, behind))]!++;
  }

  /** What it was made with, to be posted. */
  get memory(): ArrayBufferLike {
    return this.counts.buffer;
  }

  get statistics(): TableStatistics {
    const [hits, misses, waitMs, incs, clocks] = this.counts as unknown as [number, number, number, number, number];
    return { gets: hits + misses, hits, misses, waitMs, incs, clocks, staleness: [...this.staleness] };
  }
}
