// table-config — checks the options of a group of tables and of a table, in Petuum's words. It refuses fields that mean
// nothing here; docs/compatibility.md gives the reason for each. Processes that describe a table differently get an
// error in the same words.

import { badArgument, isWeighbridgeError, WeighbridgeError } from "../../base/errors.ts";
import { checkFields, type FieldChecks, flag, oneOf, orElse, path, positive, refuse, whole } from "../../base/field-checks.ts";
import type { Complete } from "../../base/known-options.ts";

/** How updates reach other processes. */
export type ConsistencyModel = "SSP" | "SSPPush" | "SSPAggr";
const CONSISTENCY_MODELS: readonly ConsistencyModel[] = ["SSP", "SSPPush", "SSPAggr"];
/** Which updates are sent first when the link is busy. */
export type UpdateSortPolicy = "FIFO" | "Random" | "RelativeMagnitude";
const SORT_POLICIES: readonly UpdateSortPolicy[] = ["FIFO", "Random", "RelativeMagnitude"];

/**
 * A process of the job: its number, from 0, where it is reached, and a port that is free there, as a number or as text;
 * of process 0 the next one too.
 */
export type TableHost = { readonly id: number; readonly host: string; readonly port: number | string };

/** How the process takes part in the group. */
export type TableGroupConfig = {
  /**
   * All processes: each starts a server, the first one the scheduler. Left out, the environment says where the cluster
   * is.
   */
  readonly hostMap?: readonly TableHost[] | undefined;
  /** Which of them this process is. */
  readonly clientId?: number | undefined;
  /** How many tables there will be, on every process the same. Defaults to 1. */
  readonly numTables?: number | undefined;
  /** Threads of this process that use tables, and the one that calls `init`. Defaults to 2. */
  readonly numLocalAppThreads?: number | undefined;
  /**
   * SSP: rows are asked for. SSPPush: servers push rows that were read. SSPAggr: updates leave early, as far as the
   * bandwidth allows. Defaults to SSP.
   */
  readonly consistencyModel?: ConsistencyModel | undefined;
  /** Whether updates leave when any thread ends its clock, not only when the slowest does. Defaults to false. */
  readonly aggressiveClock?: boolean | undefined;
  /** A snapshot is taken each time this number of clocks has passed. Left out or -1: none. */
  readonly snapshotClock?: number | undefined;
  readonly snapshotDir?: string | undefined;
  /** The snapshot to begin with. Left out or -1: none. */
  readonly resumeClock?: number | undefined;
  readonly resumeDir?: string | undefined;
  /**
   * Where each process writes its statistics when it shuts down, as YAML: this path with its rank,
   * `<statsPath>.0.yaml`. Left out: nowhere.
   */
  readonly statsPath?: string | undefined;
  /** SSPAggr: megabits a second that early updates may take. Defaults to 40. */
  readonly bandwidthMbps?: number | undefined;
  /** SSPAggr: which rows leave first. Defaults to Random. */
  readonly updateSortPolicy?: UpdateSortPolicy | undefined;
  /** SSPAggr: the most that leaves at once. Defaults to 100. */
  readonly oplogPushUpperBoundKb?: number | undefined;
  /** SSPAggr: how many clocks what was not sent may be old. Defaults to 2. */
  readonly oplogPushStalenessTolerance?: number | undefined;
  /** SSPAggr: how many rows leave early at once. Defaults to 100. */
  readonly serverPushRowThreshold?: number | undefined;
};

/** How a table is made. */
export type TableConfig = {
  /** How many clocks a read may be behind; Infinity: any number. Defaults to 0. */
  readonly staleness?: number | undefined;
  /** The id under which the row type was registered. */
  readonly rowType: number;
  /** Columns of a row; of sparse rows, how many a row may have at once. */
  readonly rowCapacity: number;
  /** Rows in the process cache. */
  readonly processCacheCapacity: number;
  /** Rows that a thread adds to within a clock; beyond, updates leave early. */
  readonly oplogCapacity?: number | undefined;
  /** The same, in older words. */
  readonly processOplogCapacity?: number | undefined;
  /** Whether updates travel as whole rows. Defaults to false: what changes. */
  readonly oplogDenseSerialized?: boolean | undefined;
  /** 0 dense, 1 sparse, 2 sparse vector: how updates are held, which here the row type decides. Defaults to 1. */
  readonly rowOplogType?: number | undefined;
  /** Rows that a thread keeps of its own (`threadGet`). Defaults to 1; not enforced, as in Petuum. */
  readonly threadCacheCapacity?: number | undefined;
  /**
   * Whether rows that come in lack what this process added and has not sent: cheaper, and no read-my-writes. Defaults
   * to false.
   */
  readonly noOplogReplay?: boolean | undefined;
};

export type CheckedTableHost = TableHost & { readonly port: number };
type LeftOut = "snapshotDir" | "resumeDir" | "clientId" | "statsPath";
export type CheckedGroupConfig = Complete<Omit<TableGroupConfig, LeftOut | "hostMap">> &
  Pick<TableGroupConfig, LeftOut> & { readonly hostMap?: readonly CheckedTableHost[] };
export type CheckedTableConfig = Complete<Omit<TableConfig, "processOplogCapacity">>;

const COUNT_MAX = 2 ** 31;
/** Slots and their numbers are words. */
const ROWS_MAX = 2 ** 28;
/** -1: never. */
const CLOCK = orElse(whole(1, 2 ** 32 - 1), -1);

const NO_POLLING = "nothing polls here";
const ONE_OPLOG = "there is one kind of oplog here, by row, and oplogCapacity bounds it";
const NO_CHANNELS = "every process of the host map has one server, which has one thread: there are no channels to count";
/** Petuum's fields that mean nothing here, and why: docs/compatibility.md says more. */
const NO_GROUP_FIELDS: Readonly<Record<string, string>> = {
  numTotalClients: "the host map, or the environment, says how many processes there are",
  numCommChannelsPerClient: NO_CHANNELS,
  aggressiveCpu: NO_POLLING,
  bgIdleMilli: NO_POLLING,
  serverIdleMilli: NO_POLLING,
  serverRingSize: "it means nothing in Petuum either",
  threadOplogBatchSize: "oplogCapacity of a table bounds what a thread keeps within a clock",
  serverRowCandidateFactor: "servers push all rows that have changed: there are no candidates to choose from",
  oocPathPrefix: "rows are in memory, of as many servers as it takes: there is no LocalOOC",
};
const NO_TABLE_FIELDS: Readonly<Record<string, string>> = {
  tableInfo: "its fields stand beside the others here: staleness, rowType, rowCapacity, oplogDenseSerialized, rowOplogType",
  tableStaleness: "it is staleness here",
  denseRowOplogCapacity: "the updates of a row have the room of the row, rowCapacity",
  oplogType: ONE_OPLOG,
  appendOnlyOplogType: ONE_OPLOG,
  appendOnlyBuffCapacity: ONE_OPLOG,
  perThreadAppendOnlyBuffPoolSize: ONE_OPLOG,
  bgApplyAppendOplogFreq: ONE_OPLOG,
  processStorageType: "rows are evicted when the cache is full: processCacheCapacity for all of them keeps all",
};

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
    id === index && typeof host === "string" && host !== "" && isPort(port);
  return (
    Array.isArray(value) && value.length > 0 && value.every((host: TableHost | null, index) => isHost({ ...host } as TableHost, index))
  );
}

function isPort(port: unknown): boolean {
  const number = typeof port === "string" && /^\d{1,5}$/.test(port) ? Number(port) : port;
  return Number.isInteger(number) && (number as number) > 0 && (number as number) < 65_535;
}

/** Throws BAD_ARGUMENT with the reason for the first field of Petuum's, in either case, that means nothing here. */
function refuseForeign(config: unknown, reasons: Readonly<Record<string, string>>, what: string): void {
  if (typeof config !== "object" || config === null) return;
  for (const name of Object.keys(config)) {
    const inOurCase = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    if (Object.hasOwn(reasons, inOurCase)) throw badArgument(`${what} have no ${name}: ${reasons[inOurCase]}`);
  }
}

/** Directories are those of servers that `init` starts. Throws BAD_ARGUMENT. */
export function checkGroupConfig(config: TableGroupConfig): CheckedGroupConfig {
  const what = "the fields of a table group";
  refuseForeign(config, NO_GROUP_FIELDS, what);
  const fields = checkFields(config, GROUP_FIELDS, what);
  const checked = fields.hostMap === undefined ? fields : { ...fields, hostMap: fields.hostMap.map(withNumber) };
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

function withNumber(host: TableHost): CheckedTableHost {
  return { ...host, port: Number(host.port) };
}

/** Throws BAD_ARGUMENT. */
export function checkTableConfig(id: number, config: TableConfig): CheckedTableConfig {
  refuseForeign(config, NO_TABLE_FIELDS, `the fields of table ${id}`);
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
