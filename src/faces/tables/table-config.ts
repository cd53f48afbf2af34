// table-config — what users say of a group of tables and of a table, in Petuum's words, checked. Fields that mean
// nothing here are refused; docs/compatibility.md says why for each.

import { showValue, WeighbridgeError } from "../../base/errors.ts";
import { flag, oneOf, path, positive, refuse, whole } from "../../base/field-checks.ts";
import { checkOptions } from "../../base/known-options.ts";

const CONSISTENCY_MODELS = ["SSP", "SSPPush", "SSPAggr"] as const;
export type ConsistencyModel = (typeof CONSISTENCY_MODELS)[number];
const SORT_POLICIES = ["FIFO", "Random", "RelativeMagnitude"] as const;
export type UpdateSortPolicy = (typeof SORT_POLICIES)[number];

/** A process of the job: its number, from 0, where it is reached, and a port that is free there; of process 0 the next one too. */
export type TableHost = { readonly id: number; readonly host: string; readonly port: number };

export type TableGroupConfig = {
  /** All processes: each starts a server, the first one the scheduler. Left out, the environment says where the cluster is. */
  readonly hostMap?: readonly TableHost[];
  /** Which of them this process is. */
  readonly clientId?: number;
  /** How many tables there will be, on every process the same. Defaults to 1. */
  readonly numTables?: number;
  /** Threads of this process that use tables, and the one that calls `init`. Defaults to 2. */
  readonly numLocalAppThreads?: number;
  /**
   * SSP: rows are asked for. SSPPush: servers push rows that were read. SSPAggr: updates leave early, as far as the
   * bandwidth allows. Defaults to SSP.
   */
  readonly consistencyModel?: ConsistencyModel;
  /** Whether updates leave when any thread ends its clock, not only when the slowest does. Defaults to false. */
  readonly aggressiveClock?: boolean;
  /** Every so many clocks a snapshot is taken. Left out or -1: none. */
  readonly snapshotClock?: number;
  readonly snapshotDir?: string;
  /** The snapshot to begin with. Left out or -1: none. */
  readonly resumeClock?: number;
  readonly resumeDir?: string;
  /**
   * Where each process writes its statistics when it shuts down, as YAML: this path with its rank, `<statsPath>.0.yaml`.
   * Left out: nowhere.
   */
  readonly statsPath?: string;
  /** SSPAggr: megabits a second that early updates may take. Defaults to 40. */
  readonly bandwidthMbps?: number;
  /** SSPAggr: which rows leave first. Defaults to Random. */
  readonly updateSortPolicy?: UpdateSortPolicy;
  /** SSPAggr: the most that leaves at once. Defaults to 100. */
  readonly oplogPushUpperBoundKb?: number;
  /** SSPAggr: how many clocks what was not sent may be old. Defaults to 2. */
  readonly oplogPushStalenessTolerance?: number;
  /** SSPAggr: how many rows leave early at once. Defaults to 100. */
  readonly serverPushRowThreshold?: number;
};

export type TableConfig = {
  /** How many clocks a read may be behind; Infinity: any number. Defaults to 0. */
  readonly staleness?: number;
  /** The id under which the row type was registered. */
  readonly rowType: number;
  /** Columns of a row; of sparse rows, how many a row may have at once. */
  readonly rowCapacity: number;
  /** Rows in the process cache. */
  readonly processCacheCapacity: number;
  /** Rows that a thread adds to within a clock; beyond, updates leave early. */
  readonly oplogCapacity?: number;
  /** The same, in older words. */
  readonly processOplogCapacity?: number;
  /** Whether updates travel as whole rows. Defaults to false: what changes. */
  readonly oplogDenseSerialized?: boolean;
  /** 0 dense, 1 sparse, 2 sparse vector: how updates are held, which here the row type decides. Defaults to 1. */
  readonly rowOplogType?: number;
  /** Rows that a thread keeps of its own (`threadGet`). Defaults to 1; not enforced, as in Petuum. */
  readonly threadCacheCapacity?: number;
  /**
   * Whether rows that come in lack what this process added and has not sent: cheaper, and no read-my-writes. Defaults
   * to false.
   */
  readonly noOplogReplay?: boolean;
};

type LeftOut = "snapshotDir" | "resumeDir" | "hostMap" | "clientId" | "statsPath";
export type CheckedGroupConfig = Required<Omit<TableGroupConfig, LeftOut>> & Pick<TableGroupConfig, LeftOut>;
export type CheckedTableConfig = Required<Omit<TableConfig, "processOplogCapacity">>;

const GROUP_FIELDS: readonly (keyof TableGroupConfig)[] = [
  ...(["numTables", "numLocalAppThreads", "consistencyModel", "aggressiveClock", "snapshotClock", "snapshotDir", "resumeClock"] as const),
  ...(["resumeDir", "bandwidthMbps", "updateSortPolicy", "oplogPushUpperBoundKb", "oplogPushStalenessTolerance"] as const),
  ...(["serverPushRowThreshold", "hostMap", "clientId", "statsPath"] as const),
];
const TABLE_FIELDS: readonly (keyof TableConfig)[] = [
  ...(["staleness", "rowType", "rowCapacity", "processCacheCapacity", "oplogCapacity", "processOplogCapacity"] as const),
  ...(["oplogDenseSerialized", "rowOplogType", "threadCacheCapacity", "noOplogReplay"] as const),
];
/** Slots and their numbers are words. */
const ROWS_MAX = 2 ** 28;

/** Throws BAD_ARGUMENT. */
export function checkGroupConfig(config: TableGroupConfig): CheckedGroupConfig {
  const what = "the configuration of a table group";
  checkOptions(config, GROUP_FIELDS, what);
  const { numTables = 1, numLocalAppThreads = 2, consistencyModel = "SSP", aggressiveClock = false } = config;
  const { snapshotClock = -1, resumeClock = -1, snapshotDir, resumeDir, statsPath } = config;
  const { bandwidthMbps = 40, updateSortPolicy = "Random", oplogPushUpperBoundKb = 100 } = config;
  const { oplogPushStalenessTolerance = 2, serverPushRowThreshold = 100 } = config;
  const hosts = checkHosts(config);
  whole({ numTables }, 0, 2 ** 31);
  whole({ numLocalAppThreads }, 1, 1000);
  oneOf({ consistencyModel }, CONSISTENCY_MODELS);
  flag({ aggressiveClock });
  for (const field of [{ snapshotClock }, { resumeClock }]) if (Object.values(field)[0] !== -1) whole(field, 1, 2 ** 32 - 1);
  for (const field of [{ snapshotDir }, { resumeDir }, { statsPath }]) path(field);
  positive({ bandwidthMbps });
  oneOf({ updateSortPolicy }, SORT_POLICIES);
  positive({ oplogPushUpperBoundKb });
  whole({ oplogPushStalenessTolerance }, 0, 2 ** 31);
  whole({ serverPushRowThreshold }, 1, 2 ** 31);
  return {
    ...{ numTables, numLocalAppThreads, consistencyModel, aggressiveClock, snapshotClock, resumeClock, bandwidthMbps, updateSortPolicy },
    ...{ oplogPushUpperBoundKb, oplogPushStalenessTolerance, serverPushRowThreshold, ...hosts },
    ...(snapshotDir === undefined ? {} : { snapshotDir }),
    ...(resumeDir === undefined ? {} : { resumeDir }),
    ...(statsPath === undefined ? {} : { statsPath }),
  };
}

/** Directories are those of servers that `init` starts. Throws BAD_ARGUMENT. */
function checkHosts({ hostMap, clientId, snapshotDir, resumeDir }: TableGroupConfig): Pick<TableGroupConfig, "hostMap" | "clientId"> {
  if (hostMap === undefined) {
    if (clientId !== undefined) throw new WeighbridgeError("BAD_ARGUMENT", "clientId is for a hostMap, and there is none");
    if (snapshotDir === undefined && resumeDir === undefined) return {};
    const text = "snapshotDir and resumeDir are for servers that init() starts, from a hostMap: start others with --checkpoint-dir";
    throw new WeighbridgeError("BAD_ARGUMENT", text);
  }
  const isHost = ({ id, host, port }: TableHost, index: number): boolean =>
    id === index && typeof host === "string" && host !== "" && Number.isInteger(port) && port > 0 && port < 65_535;
  if (!(Array.isArray(hostMap) && hostMap.length > 0 && hostMap.every(isHost)))
    throw refuse({ hostMap }, "a list of { id, host, port }, with the ids 0, 1, 2 …");
  whole({ clientId }, 0, hostMap.length - 1);
  if (snapshotDir !== undefined && resumeDir !== undefined && snapshotDir !== resumeDir)
    throw new WeighbridgeError("BAD_ARGUMENT", "snapshotDir and resumeDir are one directory: servers keep their snapshots in one place");
  return { hostMap, clientId: clientId as number };
}

/** Throws BAD_ARGUMENT. */
export function checkTableConfig(id: number, config: TableConfig): CheckedTableConfig {
  checkOptions(config, TABLE_FIELDS, `the configuration of table ${id}`);
  const { staleness = 0, rowType, rowCapacity, processCacheCapacity, processOplogCapacity } = config;
  const { oplogDenseSerialized = false, rowOplogType = 1, threadCacheCapacity = 1, noOplogReplay = false } = config;
  if (config.oplogCapacity !== undefined && processOplogCapacity !== undefined && config.oplogCapacity !== processOplogCapacity)
    throw new WeighbridgeError("BAD_ARGUMENT", "oplogCapacity and processOplogCapacity are two words for one thing: give one of them");
  const oplogCapacity = config.oplogCapacity ?? processOplogCapacity ?? processCacheCapacity;
  if (staleness !== Infinity) whole({ staleness }, 0, 2 ** 31);
  whole({ rowType }, 0, 2 ** 31);
  whole({ rowCapacity }, 1, 2 ** 31);
  whole({ processCacheCapacity }, 1, ROWS_MAX);
  whole({ oplogCapacity }, 1, ROWS_MAX);
  whole({ rowOplogType }, 0, 2);
  whole({ threadCacheCapacity }, 1, ROWS_MAX);
  for (const field of [{ oplogDenseSerialized }, { noOplogReplay }]) flag(field);
  return {
    ...{ staleness, rowType, rowCapacity, processCacheCapacity, oplogCapacity },
    ...{ oplogDenseSerialized, rowOplogType, threadCacheCapacity, noOplogReplay },
  };
}

/** The id of a table or of a row type. Throws BAD_ARGUMENT. */
export function checkId(what: string, id: number): void {
  if (Number.isSafeInteger(id) && id >= 0 && id < 2 ** 31) return;
  throw new WeighbridgeError("BAD_ARGUMENT", `the id of ${what} is a whole number from 0 to 2147483647, not ${showValue(id)}`);
}
