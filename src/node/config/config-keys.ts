// config-keys — the table of configuration keys; parsing, errors, `--help` and docs/configuration.md follow from it.
// The order matters twice: a variable's translation and a default may read the keys above it.

import { tmpdir } from "node:os";
import { join } from "node:path";
import { ABSENT, type ConfigKey, constant, derived, REQUIRED } from "./config-key.ts";
import * as foreign from "./foreign-variable.ts";
import { isWildcard } from "./network-interface.ts";
import { type HostPort, hostPortsOf } from "./node-addresses.ts";
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
    description: "What this node is.",
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_ROLE" }],
    mindspore: [{ name: "MS_ROLE", translate: foreign.words(MS_ROLES, "MS_SCHED, MS_PSERVER, MS_SERVER or MS_WORKER") }],
  },
  serverCount: {
    kind: count,
    short: "-s",
    description: "Servers in the cluster.",
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_NUM_SERVER" }],
    mindspore: [{ name: "MS_SERVER_NUM" }],
  },
  workerCount: {
    kind: count,
    short: "-w",
    description:
      "Workers that the start waits for; others may join the running job. On the command line also a range, -w 2..8 or --workers 2..8, whose end is the workerCountMax.",
    fallback: REQUIRED,
    dmlc: [{ name: "DMLC_NUM_WORKER" }],
    mindspore: [{ name: "MS_WORKER_NUM" }],
  },
  workerCountMax: {
    kind: value.optional(count),
    description: "How many workers there may be at most. Left out: as many as come to the running job; with --van zmq workerCount.",
    fallback: ABSENT,
  },
  job: {
    kind: value.optional(value.jobName(JOB_CHARS_MAX)),
    description:
      "The job's name. A node that is given one is refused by nodes of another job. One that is not takes its scheduler's, and a scheduler its working directory's.",
    fallback: ABSENT,
  },
  schedulers: {
    kind: value.optional(value.hostPorts()),
    description:
      "Where schedulers of the job may be, host:port, separated by commas: the one that runs, and those that take over. A node looks for it at one after the other. schedulerHost and schedulerPort then need not be given, and are the first of them.",
    fallback: ABSENT,
  },
  schedulerHost: {
    kind: value.hostName(),
    description: "Where the scheduler is reached.",
    fallback: derived(`${LOOPBACK}; the first host of schedulers`, (known) => firstScheduler(known)?.host ?? LOOPBACK),
    dmlc: [{ name: "DMLC_PS_ROOT_URI" }],
    mindspore: [{ name: "MS_SCHED_HOST" }],
  },
  schedulerPort: {
    kind: value.wholeNumber({ min: 1, max: value.PORT_MAX }, "port"),
    description: "The port the scheduler listens on; with Unix sockets it names the scheduler's socket.",
    fallback: { ...REQUIRED, text: "required, unless schedulers are given", valueFor: (known) => firstScheduler(known)?.port },
    dmlc: [{ name: "DMLC_PS_ROOT_PORT" }],
    mindspore: [{ name: "MS_SCHED_PORT" }],
  },
  host: {
    kind: value.hostName(),
    description: "The address this node listens on; 0.0.0.0 or :: for all.",
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
    description: "The address other nodes reach this one at. Required when host is 0.0.0.0 or ::, except for a scheduler.",
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
  port: {
    kind: port,
    description: "The port this node listens on; 0 for any free one.",
    fallback: derived("0; a scheduler: schedulerPort", (known) => (known.role === "scheduler" ? known.schedulerPort : 0)),
    dmlc: [
      { name: "DMLC_PS_SERVER_PORT", roles: ["server"] },
      { name: "DMLC_PS_WORKER_PORT", roles: ["worker"] },
      { name: "PORT", note: "when DMLC_ROLE is set", roles: NOT_SCHEDULER, yields: true, translate: foreign.psliteOnly },
    ],
  },
  rank: {
    kind: value.optional(rank),
    description: "This node's number within its role, kept across restarts; the scheduler chooses when it is not given.",
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
    description: "How nodes talk: tcp, or unix for Unix sockets within one machine.",
    fallback: constant("tcp"),
    dmlc: [{ name: "DMLC_LOCAL", note: "1: unix", translate: foreign.onSwitch("unix", "tcp") }],
    mindspore: [{ name: "MS_COMM_TYPE", note: "tcp only", translate: foreign.words({ tcp: "tcp", TCP: "tcp" }, "tcp", NO_INFINIBAND) }],
  },
  van: {
    kind: value.oneOf(["weighbridge", "zmq", "p3"], "van"),
    description: "Whose protocol nodes speak: our own, or ps-lite's (zmq, p3), for clusters with ps-lite programs in them.",
    fallback: constant("weighbridge"),
    dmlc: [{ name: "DMLC_PS_VAN_TYPE", note: "ibverbs is refused", translate: foreign.words(PSLITE_VANS, "zmq or p3", NO_RDMA) }],
  },
  socketDir: {
    kind: value.absolutePath(),
    description: "The folder of the Unix sockets; the same for all nodes of a cluster.",
    fallback: derived("weighbridge-UID in the system's folder for temporary files", () => join(tmpdir(), `weighbridge-${userId()}`)),
  },
  stateDir: {
    kind: value.label(PATH_CHARS_MAX, "directory"),
    description:
      "Where a scheduler writes what it decides, so that one that is started again goes on with the job: a directory, auto for the user's own (XDG_STATE_HOME, or ~/.local/state), or none. A job that ends leaves nothing there.",
    fallback: constant("auto"),
  },
  etcd: {
    kind: value.optional(value.urls()),
    description:
      "The members of an etcd cluster, separated by commas, in which a scheduler keeps its state instead of a directory. Several schedulers of one job may then be started: one leads, the others take over. Needs job.",
    fallback: ABSENT,
  },
  etcdLeaseMs: {
    kind: value.milliseconds(1000),
    description:
      "With etcd: a scheduler that is silent for this long is replaced, in whole seconds. etcd makes it longer if its members' elections take longer.",
    fallback: constant(ETCD_LEASE_MS),
  },
  placement: {
    kind: value.oneOf(["ring", "range"], "policy"),
    description:
      "How a scheduler that begins a job distributes parts of tables and tensors over the servers: on a ring, where few parts move when servers change, or in even ranges.",
    fallback: constant("ring"),
  },
  replicas: {
    kind: value.wholeNumber({ min: 1, max: 2 }, "count"),
    description: "Processes that hold each server rank: of 2, one serves and the other takes over when it dies. The same for all.",
    fallback: constant(1),
  },
  threads: {
    kind: value.wholeNumber({ min: 1, max: COUNT_MAX }, "count"),
    description: "Server nodes in this process, each with its own thread and rank.",
    fallback: constant(1),
  },
  heartbeatIntervalMs: {
    kind: value.milliseconds(0),
    description: "Time between two heartbeats; 0 turns them off.",
    fallback: derived(`${HEARTBEAT_INTERVAL_MS}, less when heartbeatTimeoutMs is short or 0`, intervalFor),
    dmlc: [{ name: "PS_HEARTBEAT_INTERVAL", note: "seconds", translate: foreign.seconds }],
  },
  heartbeatTimeoutMs: {
    kind: value.milliseconds(0),
    description: "A node silent for this long is dead; 0 turns that off. More than heartbeatIntervalMs.",
    fallback: derived(`${HEARTBEAT_TIMEOUT_MS}, more when heartbeatIntervalMs is long, 0 when it is 0`, timeoutFor),
    dmlc: [{ name: "PS_HEARTBEAT_TIMEOUT", note: "seconds", translate: foreign.seconds }],
  },
  startTimeoutMs: { kind: value.milliseconds(1), description: "All nodes have to join within this time.", fallback: constant(60_000) },
  requestTimeoutMs: {
    kind: value.optional(value.milliseconds(1)),
    description: "A wait for a request ends with DEADLINE after this long, unless the call sets its own deadline.",
    fallback: ABSENT,
  },
  linkTimeoutMs: {
    kind: value.milliseconds(1),
    description: "Calls to a node that could not be reached for this long fail with LINK_LOST.",
    fallback: constant(30_000),
  },
  resendTimeoutMs: {
    kind: value.milliseconds(0),
    description: "A request without an answer is sent again after this long; 0 turns that off.",
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
    description: "Received messages to lose on purpose.",
    fallback: constant(0),
    dmlc: [{ name: "PS_DROP_MSG" }],
  },
  "faults.duplicatePercent": { kind: value.percent(), description: "Received messages to repeat on purpose.", fallback: constant(0) },
  "faults.reorderPercent": { kind: value.percent(), description: "Received messages to deliver late on purpose.", fallback: constant(0) },
  "faults.delayMs": { kind: value.milliseconds(0), description: "How long to hold a message back at most.", fallback: constant(0) },
  "faults.seed": {
    kind: value.wholeNumber({ min: 0, max: U32_MAX }, "seed"),
    description: "The same seed makes the same faults.",
    fallback: constant(1),
  },
  outboxMessagesMax: {
    kind: value.wholeNumber({ min: 1, max: U32_MAX }, "count"),
    description: "Calls that may wait to leave for one node; further calls fail with QUEUE_FULL.",
    fallback: constant(65_536),
    dmlc: [{ name: "DMLC_PS_WATER_MARK" }],
  },
  outboxBytesMax: {
    kind: value.byteSize({ min: BYTES_MIN }),
    description: "Bytes handed to one link that have not left; an urgent message waits for at most this much.",
    fallback: derived("2MiB", () => OUTBOX_BYTES),
  },
  arenaBytesMax: {
    kind: value.byteSize({ min: ARENA_BYTES_MIN, max: ARENA_BYTES_MAX }),
    description:
      "Memory for parameters, for each server node; an eighth is kept for reads and checkpoints. Updates that wait for those of other workers come on top.",
    fallback: derived("3GiB", () => ARENA_BYTES),
  },
  wakefulLoop: {
    kind: value.oneOf(["on", "off"], "switch"),
    description: "Whether the event loop stays awake, at the price of CPU time, while the next input is near.",
    fallback: constant("on"),
  },
  functions: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "module")),
    description:
      "A module of functions beside the built-in ones: servers offer everything it exports that `psFunction` made, and have the updaters and row types that `psUpdater` and `psRowType` made; workers offer what `workerFunction` made with a handler.",
    fallback: ABSENT,
  },
  checkpointDir: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    description: "Where servers keep checkpoints: one directory that all of them see. Without it none can be taken.",
    fallback: ABSENT,
  },
  durable: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    description:
      "Where a server writes every update before it acknowledges it: started again with the same rank and directory, it goes on with all of them. A job that ends leaves nothing there. Needs rank; not with replicas 2.",
    fallback: ABSENT,
  },
  restore: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    description:
      "A checkpoint that servers begin with, or a directory of checkpoints, whose newest they use. They do not start if there is none.",
    fallback: ABSENT,
  },
  resume: {
    kind: value.optional(value.label(PATH_CHARS_MAX, "directory")),
    description: "As restore, but where there is no checkpoint yet, the servers begin empty and say so.",
    fallback: ABSENT,
  },
  checkpointEvery: {
    kind: value.optional(value.duration(CHECKPOINT_EVERY_MIN_MS)),
    description: "The servers take a checkpoint each time this long has passed, without a script. Needs checkpointDir.",
    fallback: ABSENT,
  },
  keep: {
    kind: value.optional(value.wholeNumber({ min: 1, max: COUNT_MAX }, "count")),
    description: "How many of the newest checkpoints stay when checkpointEvery has taken one; left out, all do.",
    fallback: ABSENT,
  },
  logLevel: {
    kind: value.oneOf(["silent", "error", "warn", "info", "debug"], "level"),
    description: "What the node logs.",
    fallback: constant("info"),
    dmlc: [{ name: "PS_VERBOSE", note: "0: warn, 1: info, 2: debug", translate: foreign.verbosity }],
  },
  managePort: {
    kind: port,
    description:
      "The port of the scheduler's HTTP server for its own machine, which reports the nodes (/status, /nodes, /state) and takes changes of the servers (/scaleout, /scalein); 0 for none.",
    fallback: constant(0),
    mindspore: [{ name: "MS_SCHED_MANAGE_PORT" }],
  },
  nodeId: {
    kind: value.optional(value.label(LABEL_CHARS_MAX, "label")),
    description: "A label for this node in logs and listings.",
    fallback: ABSENT,
    mindspore: [{ name: "MS_NODE_ID" }],
  },
};

/** Where the rest is read; not part of a NodeConfig and not allowed in a file. */
export const FILE_KEYS: { readonly config: ConfigKey<string>; readonly section: ConfigKey<string> } = {
  config: {
    kind: value.label(PATH_CHARS_MAX, "path"),
    short: "-c",
    description: "A YAML or JSON file with more configuration.",
    fallback: ABSENT,
  },
  section: { kind: value.label(LABEL_CHARS_MAX, "name"), description: "The section of that file which is this node's.", fallback: ABSENT },
};

// TypeScript does not know that these are all keys.
export const KEY_NAMES: readonly KeyName[] = Object.keys(KEYS) as KeyName[];

/** Windows has no user ids, and its temporary folder is the user's own. */
function userId(): number | string {
  return process.getuid?.() ?? "user";
}
