// table-config — checks the options of a group of tables and of a table, in Petuum's words. It refuses fields that mean
// nothing here; docs/compatibility.md gives the reason for each. Processes that describe a table differently get an
// error in the same words.

import { badArgument, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { checkFields, type FieldChecks, flag, oneOf, orElse, path, positive, refuse, whole } from "../../base/field-checks.ts";

const CONSISTENCY_MODELS = ["SSP", "SSPPush", "SSPAggr"] as const;
export type ConsistencyModel = (typeof CONSISTENCY_MODELS)[number];
const SORT_POLICIES = ["FIFO", "Random", "RelativeMagnitude"] as const;
export type UpdateSortPolicy = (typeof SORT_POLICIES)[number];

/**
 * A process of the job: its number, from 0, where it is reached, and a port that is free there; of process 0 the next
 * one too.
 */
export type TableHost = { readonly id: number; readonly host: string; readonly port: number };

export type TableGroupConfig = {
  /**
   * All processes: each starts a server, the first one the scheduler. Left out, the environment says where the cluster
   * is.
   */
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
   * Where each process writes its statistics when it shuts down, as YAML: this path with its rank,
   * `<statsPath>.0.yaml`. Left out: nowhere.
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

const COUNT_MAX = 2 ** 31;
/** Slots and their numbers are words. */
const ROWS_MAX = 2 ** 28;
/** -1: never. */
const CLOCK = orElse(whole(1, 2 ** 32 - 1), -1);

const GROUP_FIELDS: FieldChecks<CheckedGroupConfig> = {
  numTables: { ...whole(0, COUNT_MAX), initial: 1 },
  numLocalAppThreads: { ...whole(1, 1000), initial: 2 },
  consistencyModel: oneOf(CONSISTENCY_MODELS, "SSP"),
  aggressiveClock: flag(),
  snapshotClock: CLOCK,
  snapshotDir: path(),
  resumeClock: CLOCK,
  resumeDir: path(),
  statsPath: path(),
  bandwidthMbps: positive(40),
  updateSortPolicy: oneOf(SORT_POLICIES, "Random"),
  oplogPushUpperBoundKb: positive(100),
  oplogPushStalenessTolerance: { ...whole(0, COUNT_MAX), initial: 2 },
  serverPushRowThreshold: { ...whole(1, COUNT_MAX), initial: 100 },
  hostMap: { expected: "a list of { id, host, port }, with the ids 0, 1, 2 …", isRight: isHostMap, initial: undefined },
  clientId: { ...whole(0, COUNT_MAX), initial: undefined },
};

const OPLOG_ROWS = { ...whole(1, ROWS_MAX), initial: undefined };
const TABLE_FIELDS: FieldChecks<TableConfig> = {
  staleness: { ...orElse(whole(0, COUNT_MAX), Infinity), initial: 0 },
  rowType: whole(0, COUNT_MAX),
  rowCapacity: whole(1, COUNT_MAX),
  processCacheCapacity: whole(1, ROWS_MAX),
  oplogCapacity: OPLOG_ROWS,
  processOplogCapacity: OPLOG_ROWS,
  oplogDenseSerialized: flag(),
  rowOplogType: { ...whole(0, 2), initial: 1 },
  threadCacheCapacity: { ...whole(1, ROWS_MAX), initial: 1 },
  noOplogReplay: flag(),
};

function isHostMap(value: unknown): boolean {
  const isHost = ({ id, host, port }: TableHost, index: number): boolean =>
    id === index && typeof host === "string" && host !== "" && Number.isInteger(port) && port > 0 && port < 65_535;
  return (
    Array.isArray(value) && value.length > 0 && value.every((host: TableHost | null, index) => isHost({ ...host } as TableHost, index))
  );
}

/** Directories are those of servers that `init` starts. Throws BAD_ARGUMENT. */
export function checkGroupConfig(config: TableGroupConfig): CheckedGroupConfig {
  const checked = checkFields(config, GROUP_FIELDS, "the fields of a table group");
  const { hostMap, clientId, snapshotDir, resumeDir } = checked;
  if (hostMap === undefined) {
    if (clientId !== undefined) throw badArgument("clientId is for a hostMap, and there is none");
    const text = "snapshotDir and resumeDir are for servers that init() starts, from a hostMap: start others with --checkpoint-dir";
    if (snapshotDir !== undefined || resumeDir !== undefined) throw badArgument(text);
  } else if (!(clientId! < hostMap.length)) throw refuse({ clientId }, `the id of a host of hostMap, 0 to ${hostMap.length - 1}`);
  if (snapshotDir !== undefined && resumeDir !== undefined && snapshotDir !== resumeDir)
    throw badArgument("snapshotDir and resumeDir are one directory: servers keep their snapshots in one place");
  return checked;
}

/** Throws BAD_ARGUMENT. */
export function checkTableConfig(id: number, config: TableConfig): CheckedTableConfig {
  const { processOplogCapacity, ...checked } = checkFields(config, TABLE_FIELDS, `the fields of table ${id}`);
  const { oplogCapacity = processOplogCapacity ?? checked.processCacheCapacity } = checked;
  if ((processOplogCapacity ?? oplogCapacity) !== oplogCapacity)
    throw badArgument("oplogCapacity and processOplogCapacity are two words for one thing: give one of them");
  return { ...(checked as CheckedTableConfig), oplogCapacity };
}

/** The id of a table or of a row type, written { name }. Throws BAD_ARGUMENT. */
export function checkId(field: Readonly<Record<string, number>>): void {
  const { expected, isRight } = whole(0, COUNT_MAX - 1);
  if (!isRight(Object.values(field)[0])) throw refuse(field, expected);
}

/** Modes as the engine shows them (store/consistency.ts): "ssp:2", "asp", "bsp", "bsp, staleness 2". */
const MODES = /\bconsistency is (.+?) and ((?:bsp, staleness \w+|[^;,\s]+))/;

/** What was thrown; a SPEC_MISMATCH with the names of the fields that differ. */
export function mismatchInWordsOfTables(thrown: unknown, id: number): unknown {
  if (!isWeighbridgeError(thrown, "SPEC_MISMATCH")) return thrown;
  const message = thrown.message
    .replaceAll(/\bdim is\b/g, "rowCapacity is")
    .replace(MODES, (_, there: string, here: string) => differencesOf(modeOf(there), modeOf(here)).join("; "));
  const text = `table ${id}: two processes create it with different configurations: ${message}`;
  return new WeighbridgeError("SPEC_MISMATCH", text, { cause: thrown });
}

type Mode = { readonly staleness: string; readonly isExact: boolean };

function modeOf(text: string): Mode {
  return { staleness: text === "asp" ? "Infinity" : (/\d+$/.exec(text)?.[0] ?? "0"), isExact: text.startsWith("bsp") };
}

/** A table without a bound is the same with and without snapshots. */
function differencesOf(there: Mode, here: Mode): string[] {
  const staleness = there.staleness === here.staleness ? [] : [`staleness is ${there.staleness} and ${here.staleness}`];
  const isBounded = there.staleness !== "Infinity" && here.staleness !== "Infinity";
  const given = ({ isExact }: Mode): string => (isExact ? "given" : "left out");
  const snapshots = isBounded && there.isExact !== here.isExact ? [`snapshotClock of the group is ${given(there)} and ${given(here)}`] : [];
  return [...staleness, ...snapshots];
}
