// config-keys — the table of configuration keys; parsing, errors, `--help` and docs/configuration.md follow from it.
// What a key is for, in words, is in config-descriptions.ts.
// The order matters twice: a variable's translation and a default may read the keys above it.

import { tmpdir } from "node:os";
import { join } from "node:path";
import { LOG_LEVELS } from "../../base/log.ts";
import { loopTimeoutFor } from "../../cluster/pulse.ts";
import { ABSENT, type ConfigKey, constant, derived, REQUIRED } from "./config-key.ts";
import * as foreign from "./foreign-variable.ts";
import { isWildcard } from "./network-interface.ts";
import { type HostPort, hostPortsOf, SCHEDULER_PORT } from "./node-addresses.ts";
import type { FlatConfig, KeyName, Role } from "./node-config.ts";
import * as value from "./value-kind.ts";

type Known = Readonly<Partial<FlatConfig>>;

const COUNT_MAX = 65_535;
const U32_MAX = 2 ** 32 - 1;
const MIB = 2 ** 20;
const OUTBOX_BYTES = 2 * MIB;
/** What WebAssembly can address. */
const ARENA_BYTES_MAX = 4096 * MIB;
/** The rest of it is for updates and checkpoints of a server that is full (Arena.A5). */
const ARENA_BYTES = 3072 * MIB;
/** Links read into it: with less than this a server could not even talk to its scheduler and a worker. */
const ARENA_BYTES_MIN = 8 * MIB;
/** As much as a small message. */
const BYTES_MIN = 64 * 1024;
const LABEL_CHARS_MAX = 128;
const JOB_CHARS_MAX = 128;
const PATH_CHARS_MAX = 4096;
const LOOPBACK = "127.0.0.1";
const HEARTBEAT_INTERVAL_MS = 1000;
const HEARTBEAT_TIMEOUT_MS = 5000;
/** This many heartbeats may be lost before a node counts as dead. */
const HEARTBEATS_PER_TIMEOUT = 5;
const RESEND_TIMEOUT_MS = 1000;
const ETCD_LEASE_MS = 5000;
const CHECKPOINT_EVERY_MIN_MS = 100;

const NOT_SCHEDULER: readonly Role[] = ["server", "worker"];
const NO_RDMA = "Weighbridge has its own transport over TCP and Unix sockets and no RDMA: use zmq or p3, or leave it out";
const NO_INFINIBAND = "Weighbridge has its own transport over TCP and Unix sockets: use tcp, or leave it out";
const PSLITE_VANS = { zmq: "zmq", p3: "p3" };
const MS_ROLES = { MS_SCHED: "scheduler", MS_PSERVER: "server", MS_SERVER: "server", MS_WORKER: "worker" };
const port = value.wholeNumber({ min: 0, max: value.PORT_MAX }, "port");
const count = value.wholeNumber({ min: 0, max: COUNT_MAX }, "count");
const rank = value.wholeNumber({ min: 0, max: COUNT_MAX - 1 }, "rank");

/** A node that listens everywhere still has to advertise one address. */
function whenListeningEverywhere(translate: foreign.Translate): foreign.Translate {
  return (text, surroundings) => (isWildcard(surroundings.known.host ?? "") ? translate(text, surroundings) : undefined);
}
const asAdvertised = whenListeningEverywhere((text) => text);
const ADVERTISED_NOTE = "when the node listens everywhere";
const INTERFACE = { note: "that interface's address", roles: NOT_SCHEDULER, translate: foreign.interfaceAddress };
const ADVERTISED_INTERFACE = {
  ...{ note: `${INTERFACE.note}, ${ADVERTISED_NOTE}`, roles: NOT_SCHEDULER },
  translate: whenListeningEverywhere(foreign.interfaceAddress),
};

function firstScheduler({ schedulers }: Known): HostPort | undefined {
  return hostPortsOf(schedulers)[0];
}

/** If only one of interval and timeout is set, the other follows from it. */
function intervalFor({ heartbeatTimeoutMs: timeoutMs = HEARTBEAT_TIMEOUT_MS }: Known): number {
  return timeoutMs === 0 ? 0 : Math.max(1, Math.min(HEARTBEAT_INTERVAL_MS, Math.floor(timeoutMs / HEARTBEATS_PER_TIMEOUT)));
}

function timeoutFor({ heartbeatIntervalMs: intervalMs }: Known): number | undefined {
  if (intervalMs === undefined || intervalMs === 0) return intervalMs;
  return Math.min(value.DURATION_MS_MAX, Math.max(HEARTBEAT_TIMEOUT_MS, intervalMs * HEARTBEATS_PER_TIMEOUT));
}

export const KEYS: { readonly [K in KeyName]: ConfigKey<FlatConfig[K]> } = {
  role: {
    kind: value.oneOf(["scheduler", "server", "worker"], "role"),
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_ROLE" }],
    mindspore: [{ name: "MS_ROLE", translate: foreign.words(MS_ROLES, "MS_SCHED, MS_PSERVER, MS_SERVER or MS_WORKER") }],
  },
  serverCount: {
    kind: count,
    short: "-s",
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_NUM_SERVER" }],
    mindspore: [{ name: "MS_SERVER_NUM" }],
  },
  workerCount: {
    kind: count,
    short: "-w",
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_NUM_WORKER" }],
    mindspore: [{ name: "MS_WORKER_NUM" }],
  },
  workerCountMax: {
    kind: value.optional(count),
    fallback: ABSENT,
  },
  job: {
    kind: value.optional(value.jobName(JOB_CHARS_MAX)),
    fallback: ABSENT,
  },
  schedulers: {
    kind: value.optional(value.hostPorts()),
    fallback: ABSENT,
  },
  schedulerHost: {
    kind: value.hostName(),
    fallback: derived(`${LOOPBACK}; the first host of schedulers`, (known) => firstScheduler(known)?.host ?? LOOPBACK),
    dmlc: [{ name: "DMLC_PS_ROOT_URI" }],
    mindspore: [{ name: "MS_SCHED_HOST" }],
  },
  schedulerPort: {
    kind: value.wholeNumber({ min: 1, max: value.PORT_MAX }, "port"),
    fallback: derived(`${SCHEDULER_PORT}; the first port of schedulers`, (known) => firstScheduler(known)?.port ?? SCHEDULER_PORT),
    dmlc: [{ name: "DMLC_PS_ROOT_PORT" }],
    mindspore: [{ name: "MS_SCHED_PORT" }],
  },
  host: {
    kind: value.hostName(),
    fallback: derived(`${LOOPBACK}; a scheduler: schedulerHost`, (known) => (known.role === "scheduler" ? known.schedulerHost : LOOPBACK)),
    dmlc: [
      { name: "DMLC_USE_KUBERNETES", note: "1: 0.0.0.0", translate: foreign.onSwitch("0.0.0.0", undefined) },
      { name: "DMLC_PS_SERVER_URI", roles: ["server"], yields: true },
      { name: "DMLC_PS_WORKER_URI", roles: ["worker"], yields: true },
      { name: "DMLC_NODE_HOST", roles: NOT_SCHEDULER, yields: true },
      { name: "DMLC_INTERFACE", yields: true, ...INTERFACE },
    ],
    mindspore: [{ name: "MS_INTERFACE", ...INTERFACE }],
  },
  advertiseHost: {
    kind: value.hostName(),
    fallback: derived("host; a scheduler: schedulerHost", (known) => (known.role === "scheduler" ? known.schedulerHost : known.host)),
    dmlc: [
      { name: "DMLC_PS_SERVER_URI", note: ADVERTISED_NOTE, roles: ["server"], translate: asAdvertised },
      { name: "DMLC_PS_WORKER_URI", note: ADVERTISED_NOTE, roles: ["worker"], translate: asAdvertised },
      { name: "DMLC_NODE_HOST", note: ADVERTISED_NOTE, roles: NOT_SCHEDULER, yields: true, translate: asAdvertised },
      { name: "DMLC_INTERFACE", yields: true, ...ADVERTISED_INTERFACE },
      {
        name: "DMLC_USE_KUBERNETES",
        note: "1: the first IPv4 address that is not loopback",
        roles: NOT_SCHEDULER,
        yields: true,
        translate: whenListeningEverywhere(foreign.podAddress),
      },
    ],
    mindspore: [{ name: "MS_INTERFACE", ...ADVERTISED_INTERFACE }],
  },
  listenPort: {
    kind: port,
    fallback: derived("0; a scheduler: schedulerPort", (known) => (known.role === "scheduler" ? known.schedulerPort : 0)),
    dmlc: [
      { name: "DMLC_PS_SERVER_PORT", roles: ["server"] },
      { name: "DMLC_PS_WORKER_PORT", roles: ["worker"] },
      { name: "PORT", note: "when DMLC_ROLE is set", roles: NOT_SCHEDULER, yields: true, translate: foreign.psliteOnly },
    ],
  },
  rank: {
    kind: value.optional(rank),
    fallback: ABSENT,
    dmlc: [
      { name: "SERVER_ID", roles: ["server"] },
      { name: "DMLC_SERVER_ID", roles: ["server"] },
      { name: "WORKER_ID", roles: ["worker"] },
      { name: "DMLC_WORKER_ID", roles: ["worker"] },
      { name: "DMLC_RANK", roles: NOT_SCHEDULER },
    ],
  },
  transport: {
    kind: value.oneOf(["tcp", "unix"], "transport"),
    fallback: constant("tcp"),
    dmlc: [{ name: "DMLC_LOCAL", note: "1: unix", translate: foreign.onSwitch("unix", "tcp") }],
    mindspore: [{ name: "MS_COMM_TYPE", note: "tcp only", translate: foreign.words({ tcp: "tcp", TCP: "tcp" }, "tcp", NO_INFINIBAND) }],
  },
  van: {
    kind: value.oneOf(["weighbridge", "zmq", "p3"], "van"),
    fallback: constant("weighbridge"),
    dmlc: [{ name: "DMLC_PS_VAN_TYPE", note: "ibverbs is refused", translate: foreign.words(PSLITE_VANS, "zmq or p3", NO_RDMA) }],
  },
  serve: {
    kind: value.flag(),
    fallback: derived("on with workerCount 0 and van weighbridge, otherwise off", ({ workerCount, van }) =>
      workerCount === 0 && van === "weighbridge" ? "on" : "off",
    ),
  },
  socketDir: {
    kind: value.absolutePath(),
    fallback: derived("weighbridge-UID in the system's folder for temporary files", () => join(tmpdir(), `weighbridge-${userId()}`)),
  },
  stateDir: {
    kind: value.label(PATH_CHARS_MAX, "directory"),
    fallback: constant("auto"),
  },
  etcd: {
    kind: value.optional(value.urls()),
    fallback: ABSENT,
  },
  etcdLeaseMs: {
    kind: value.milliseconds(1000),
    fallback: constant(ETCD_LEASE_MS),
  },
  placement: {
    kind: value.oneOf(["ring", "range"], "policy"),
    fallback: constant("ring"),
  },
  replicas: {
    kind: value.wholeNumber({ min: 1, max: 2 }, "count"),
    fallback: constant(1),
  },
  threads: {
    kind: value.wholeNumber({ min: 1, max: COUNT_MAX }, "count"),
    fallback: constant(1),
  },
  heartbeatIntervalMs: {
    kind: value.milliseconds(0),
    fallback: derived(`${HEARTBEAT_INTERVAL_MS}, less when heartbeatTimeoutMs is short or 0`, intervalFor),
    dmlc: [{ name: "PS_HEARTBEAT_INTERVAL", note: "seconds", translate: foreign.seconds }],
  },
  heartbeatTimeoutMs: {
    kind: value.milliseconds(0),
    fallback: derived(`${HEARTBEAT_TIMEOUT_MS}, more when heartbeatIntervalMs is long, 0 when it is 0`, timeoutFor),
    dmlc: [{ name: "PS_HEARTBEAT_TIMEOUT", note: "seconds", translate: foreign.seconds }],
  },
  loopTimeoutMs: {
    kind: value.milliseconds(0),
    fallback: derived("30000, or twice heartbeatTimeoutMs if that is more", ({ heartbeatTimeoutMs = HEARTBEAT_TIMEOUT_MS }) =>
      loopTimeoutFor(heartbeatTimeoutMs),
    ),
  },
  startTimeoutMs: { kind: value.milliseconds(1), fallback: constant(60_000) },
  requestTimeoutMs: {
    kind: value.optional(value.milliseconds(1)),
    fallback: ABSENT,
  },
  linkTimeoutMs: {
    kind: value.milliseconds(1),
    fallback: constant(30_000),
  },
  resendTimeoutMs: {
    kind: value.milliseconds(0),
    fallback: derived(`0; ${RESEND_TIMEOUT_MS} when messages are dropped on purpose`, (known) =>
      (known["faults.dropPercent"] ?? 0) > 0 ? RESEND_TIMEOUT_MS : 0,
    ),
    dmlc: [
      { name: "PS_RESEND_TIMEOUT", note: "when PS_RESEND is 1 or PS_DROP_MSG more than 0", translate: foreign.resendTimeout },
      { name: "PS_RESEND", note: `1: ${RESEND_TIMEOUT_MS}`, yields: true, translate: foreign.onSwitch(RESEND_TIMEOUT_MS, 0) },
    ],
  },
  "faults.dropPercent": {
    kind: value.percent(),
    fallback: constant(0),
    dmlc: [{ name: "PS_DROP_MSG" }],
  },
  "faults.duplicatePercent": { kind: value.percent(), fallback: constant(0) },
  "faults.reorderPercent": { kind: value.percent(), fallback: constant(0) },
  "faults.delayMs": { kind: value.milliseconds(0), fallback: constant(0) },
  "faults.seed": {
    kind: value.wholeNumber({ min: 0, max: U32_MAX }, "seed"),
    fallback: constant(1),
  },
  outboxMessagesMax: {
    kind: value.wholeNumber({ min: 1, max: U32_MAX }, "count"),
    fallback: constant(65_536),
    dmlc: [{ name: "DMLC_PS_WATER_MARK" }],
  },
  outboxBytesMax: {
    kind: value.byteSize({ min: BYTES_MIN }),
    fallback: derived("2MiB", () => OUTBOX_BYTES),
  },
  arenaBytesMax: {
    kind: value.byteSize({ min: ARENA_BYTES_MIN, max: ARENA_BYTES_MAX }),
    fallback: derived("3GiB", () => ARENA_BYTES),
  },
  wakefulLoop: {
    kind: value.oneOf(["on", "off"], "switch"),
    fallback: constant("on"),
  },
  sharedMemory: {
    kind: value.flag(),
    fallback: constant("on"),
  },
  functions: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "module")),
    fallback: ABSENT,
  },
  checkpointDir: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    fallback: ABSENT,
  },
  durable: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    fallback: ABSENT,
  },
  restore: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    fallback: ABSENT,
  },
  resume: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "[=directory]")),
    fallback: ABSENT,
  },
  checkpointEvery: {
    kind: value.optional(value.every(CHECKPOINT_EVERY_MIN_MS)),
    fallback: ABSENT,
  },
  keep: {
    kind: value.optional(value.wholeNumber({ min: 1, max: COUNT_MAX }, "count")),
    fallback: ABSENT,
  },
  logLevel: {
    kind: value.oneOf(LOG_LEVELS, "level"),
    fallback: constant("info"),
    dmlc: [{ name: "PS_VERBOSE", note: "0: warn, 1: info, 2: debug", translate: foreign.verbosity }],
  },
  logFormat: {
    kind: value.oneOf(["text", "mindspore"], "format"),
    fallback: constant("text"),
    mindspore: ["MS_ROLE", "MS_SCHED_PORT", "MS_SERVER_NUM", "MS_WORKER_NUM"].map((name) => ({
      ...{ name, note: "set: mindspore" },
      translate: () => "mindspore",
    })),
  },
  managePort: {
    kind: port,
    fallback: constant(0),
    mindspore: [{ name: "MS_SCHED_MANAGE_PORT" }],
  },
  nodeId: {
    kind: value.optional(value.label(LABEL_CHARS_MAX, "label")),
    fallback: ABSENT,
    mindspore: [{ name: "MS_NODE_ID" }],
  },
};

/** Where the rest is read; not part of a NodeConfig and not allowed in a file. */
export const FILE_KEYS: { readonly config: ConfigKey<string>; readonly section: ConfigKey<string> } = {
  config: {
    kind: value.label(PATH_CHARS_MAX, "path"),
    short: "-c",
    fallback: ABSENT,
  },
  section: { kind: value.label(LABEL_CHARS_MAX, "name"), fallback: ABSENT },
};

// TypeScript does not know that these are all keys.
export const KEY_NAMES: readonly KeyName[] = Object.keys(KEYS) as KeyName[];

/** Windows has no user ids, and its temporary folder is the user's own. */
function userId(): number | string {
  return process.getuid?.() ?? "user";
}
