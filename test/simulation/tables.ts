// tables — processes with tables in a simulated cluster: each worker of it is a process, its async tasks are the
// threads.

import { Session } from "../../src/api/session.ts";
import { type DenseRowType, denseRow, multiplicativeRow } from "../../src/faces/tables/rows/dense-row.ts";
import {
  type SparseFeatureRowType,
  type SparseRowType,
  sortedRow,
  sparseFeatureRow,
  sparseRow,
} from "../../src/faces/tables/rows/sparse-row.ts";
import type { TableConfig, TableGroupConfig } from "../../src/faces/tables/table-config.ts";
import { TableGroup } from "../../src/faces/tables/table-group.ts";
import type { TableThread } from "../../src/faces/tables/table-thread.ts";
import { MemoryCluster } from "../../src/testing/memory-cluster.ts";
import { SimCluster, type SimClusterOptions } from "../../src/testing/sim-cluster.ts";
import { SETTLING } from "../support/settling.ts";

export const FLOATS: DenseRowType<"f32"> = denseRow("f32");
export const INTEGERS: DenseRowType<"i32"> = denseRow("i32");
export const DOUBLES: DenseRowType<"f64"> = denseRow("f64");
export const LONGS: DenseRowType<"i64"> = denseRow("i64");

export const SPARSE: SparseRowType<"f64"> = sparseRow("f64");
export const SORTED: SparseRowType<"i64"> = sortedRow("i64");
export const FEATURES: SparseFeatureRowType<"i32"> = sparseFeatureRow("i32", { dim: 50 });
export const PRODUCTS: DenseRowType<"f32"> = multiplicativeRow("f32");

/** By the ids under which they are registered. */
const ROW_TYPES = [FLOATS, INTEGERS, DOUBLES, LONGS, SPARSE, SORTED, FEATURES, PRODUCTS] as const;

/** What tests say of a table; the rest is the usual. */
export type SimTable = Partial<TableConfig>;

const USUAL: TableConfig = { staleness: 0, rowType: 0, rowCapacity: 8, processCacheCapacity: 16, oplogCapacity: 16 };

export type TableClusterOptions = {
  readonly processes: number;
  readonly servers?: number;
  readonly threads?: number;
  readonly tables?: readonly SimTable[];
  readonly config?: TableGroupConfig;
};

type Cluster = Pick<MemoryCluster, "run" | "worker" | "clock" | "server" | "scheduler">;

export class TableCluster<C extends Cluster = Cluster> {
  readonly cluster: C;
  readonly groups: readonly TableGroup[];
  readonly sessions: readonly Session[];
  /** Of each process. */
  readonly threads: readonly (readonly TableThread[])[];

  constructor(cluster: C, groups: readonly TableGroup[], sessions: readonly Session[], threads: readonly (readonly TableThread[])[]) {
    this.cluster = cluster;
    this.groups = groups;
    this.sessions = sessions;
    this.threads = threads;
  }

  static async start(options: TableClusterOptions): Promise<TableCluster<MemoryCluster>> {
    return await TableCluster.over(
      await MemoryCluster.start({ serverCount: options.servers ?? 1, workerCount: options.processes }),
      options,
    );
  }

  static async simulate(
    seed: number,
    options: TableClusterOptions,
    sim: Partial<SimClusterOptions> = {},
  ): Promise<TableCluster<SimCluster>> {
    const cluster = new SimCluster({ seed, serverCount: options.servers ?? 1, workerCount: options.processes, settle: SETTLING, ...sim });
    await cluster.start();
    return await TableCluster.over(cluster, options);
  }

  static async over<C extends Cluster>(cluster: C, options: TableClusterOptions): Promise<TableCluster<C>> {
    const { processes, threads = 1, tables = [{}], config = {} } = options;
    const sessions: Session[] = [];
    const open = async (rank: number): Promise<TableGroup> => {
      const group = new TableGroup(async () => (sessions[rank] = await Session.open(cluster.worker(rank).node)));
      for (const [id, rowType] of ROW_TYPES.entries()) group.registerRow(id, rowType);
      await group.init({ numTables: tables.length, numLocalAppThreads: threads + 1, ...config });
      for (const [id, table] of tables.entries()) await group.createTable(id, { ...USUAL, ...table });
      await group.createTableDone();
      return group;
    };
    const groups = await cluster.run(Promise.all(Array.from({ length: processes }, (_, rank) => open(rank))));
    const registered = groups.map((group) => Promise.all(Array.from({ length: threads }, () => group.registerThread())));
    return new TableCluster(cluster, groups, sessions, await cluster.run(Promise.all(registered)));
  }

  thread(process: number, thread = 0): TableThread {
    return this.threads[process]?.[thread] as TableThread;
  }

  async run<T>(promise: Promise<T>): Promise<T> {
    return await this.cluster.run(promise);
  }

  /** All processes leave, and the other nodes with them. */
  async shutDown(): Promise<void> {
    const [session] = this.sessions;
    const servers = Array.from({ length: session?.serverCount ?? 0 }, (_, rank) => this.cluster.server(rank).finalize());
    const groups = this.groups.map((group) => group.shutDown());
    await this.run(Promise.all([this.cluster.scheduler.finalize(), ...servers, ...groups]));
  }
}

/** Whether a promise has settled by now. */
export function isSettled(promise: Promise<unknown>): () => boolean {
  let settled = false;
  const note = (): void => {
    settled = true;
  };
  promise.then(note, note);
  return () => settled;
}
