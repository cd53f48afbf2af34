// node-config — what a node needs to know before it starts, as plain data that `loadConfig` creates. The table of keys
// uses the flat form, in which a nested key is spelled with a dot (`faults.dropPercent`; flat-config.ts).

import type { LogLevel } from "../../base/log.ts";

/** What a node is in its job. */
export type Role = "scheduler" | "server" | "worker";
/** What connections are made of. */
export type TransportName = "tcp" | "unix";
/** Whose protocol the nodes speak. */
export type VanName = "weighbridge" | "zmq" | "p3";
/** Whose words a scheduler tells the ranks of nodes in: our own, or MindSpore's. */
export type LogFormat = "text" | "mindspore";
/** How parts are distributed over servers. */
export type PlacementName = "ring" | "range";
export type { LogLevel };

/** Faults that a node injects on purpose, for tests. All off by default. */
export type FaultConfig = {
  /** How many of a hundred frames are dropped. */
  readonly dropPercent: number;
  /** How many of a hundred frames are sent twice. */
  readonly duplicatePercent: number;
  /** How many of a hundred frames are held back until another one has passed. */
  readonly reorderPercent: number;
  /** At most this long; the length of each delay comes from the seed. */
  readonly delayMs: number;
  /** One seed, one sequence of faults. */
  readonly seed: number;
};

/** What a node is started with, complete. */
export type NodeConfig = {
  /** What this node is. */
  readonly role: Role;
  /** How many servers the job has at its start. */
  readonly serverCount: number;
  /** How many workers the start waits for; others may join the running job. */
  readonly workerCount: number;
  /** How many workers there may be at most. Undefined: as many as come to the running job. */
  readonly workerCountMax: number | undefined;
  /** The job's name: nodes of a job of another name refuse this one. Undefined: the scheduler's job name. */
  readonly job: string | undefined;
  /** Where schedulers of the job may be: `host:port,…`. Undefined: at `schedulerHost` and `schedulerPort` alone. */
  readonly schedulers: string | undefined;
  /** Where the scheduler is reached. Defaults to 127.0.0.1. */
  readonly schedulerHost: string;
  /** The port the scheduler listens on; with Unix sockets it names the scheduler's socket. Defaults to 9700. */
  readonly schedulerPort: number;
  /** The address this node listens on. Defaults to 127.0.0.1. */
  readonly host: string;
  /** The address other nodes use to reach this one. Defaults to `host`; required when that is 0.0.0.0 or ::. */
  readonly advertiseHost: string;
  /** 0, the default: any free port. A scheduler's is its `schedulerPort`. */
  readonly listenPort: number;
  /** This node's number within its role, kept across restarts. Undefined: the scheduler chooses. */
  readonly rank: number | undefined;
  /** How nodes talk. Defaults to "tcp"; "unix" is for Unix sockets within one machine. */
  readonly transport: TransportName;
  /** Whose protocol the nodes speak: our own, or ps-lite's. */
  readonly van: VanName;
  /** Whether the cluster serves on when no worker is left, until it is stopped. */
  readonly serve: "on" | "off";
  /** The folder of the Unix sockets, the same for all nodes of a cluster. Must be an absolute path. */
  readonly socketDir: string;
  /** Where a scheduler keeps its state: a directory, "auto" or "none". */
  readonly stateDir: string;
  /** Members of etcd, `http://host:port,…`, where a scheduler keeps its state. Undefined: in `stateDir`. */
  readonly etcd: string | undefined;
  /** With etcd: a scheduler that is silent for this long is replaced, in whole seconds. */
  readonly etcdLeaseMs: number;
  /** How a scheduler distributes parts over servers. */
  readonly placement: PlacementName;
  /** By how many processes each server rank is held: 1, or 2 for a head and a standby. */
  readonly replicas: number;
  /** Server nodes in this process. */
  readonly threads: number;
  /** Time between two heartbeats. 0: this node sends none. */
  readonly heartbeatIntervalMs: number;
  /** A node that is silent for this long is dead. 0: no node is declared dead for silence. */
  readonly heartbeatTimeoutMs: number;
  /** A server whose event loop is busy for this long is replaced by its standby, or dead. 0 turns that off. */
  readonly loopTimeoutMs: number;
  /** All nodes have to join within this time. Defaults to 60,000. */
  readonly startTimeoutMs: number;
  /** A request that has no `timeoutMs` of its own fails with DEADLINE after this long. Undefined: it waits. */
  readonly requestTimeoutMs: number | undefined;
  /** Calls to a node that could not be reached for this long fail with LINK_LOST. Defaults to 30,000. */
  readonly linkTimeoutMs: number;
  /** A request without an answer is sent again after this long. 0, the default: off. */
  readonly resendTimeoutMs: number;
  /** Faults that the node injects into its own links, for tests. */
  readonly faults: FaultConfig;
  /** Calls that may wait to leave for one node; further calls fail with QUEUE_FULL. Defaults to 65,536. */
  readonly outboxMessagesMax: number;
  /** Bytes handed to one link that have not left; an urgent message waits for at most this much. Defaults to 2 MiB. */
  readonly outboxBytesMax: number;
  /** Memory for parameters, for each server node, in bytes. Defaults to 3 GiB. */
  readonly arenaBytesMax: number;
  /** Whether the event loop stays awake, at the price of CPU time, while the next input is near. */
  readonly wakefulLoop: "on" | "off";
  /** Whether links between processes of one host use memory that both share. Defaults to "off". */
  readonly sharedMemory: "on" | "off";
  /**
   * The path of a module, relative to the working directory. Servers offer the functions, updaters and row types that
   * it exports, workers its worker functions that have a handler.
   */
  readonly functions: string | undefined;
  /** Where servers keep checkpoints, the same for all; undefined: they save none. */
  readonly checkpointDir: string | undefined;
  /** Where a server keeps its log. Undefined: it keeps none. */
  readonly durable: string | undefined;
  /** A checkpoint, or a directory of checkpoints, that a server begins with. */
  readonly restore: string | undefined;
  /** The same, unless there is none. Given as "auto", it is the `checkpointDir`. */
  readonly resume: string | undefined;
  /** How often servers take a checkpoint: `60s` or `500steps`. Undefined: only when one is asked for. */
  readonly checkpointEvery: string | undefined;
  /** How many of the newest checkpoints stay when `checkpointEvery` has taken one. Undefined: all. */
  readonly keep: number | undefined;
  /** From which level on the node logs. Defaults to "info". */
  readonly logLevel: LogLevel;
  /** How a scheduler and a training tell the ranks of nodes. */
  readonly logFormat: LogFormat;
  /** The port of the scheduler's HTTP server for its own machine. 0: off. */
  readonly managePort: number;
  /** A label for this node in logs and listings. Undefined: its host and process id. */
  readonly nodeId: string | undefined;
};

/** The same fields, each of which may be left out, or undefined. */
export type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** What code may pass: any part of a config, and where to read the rest. */
export type NodeConfigOptions = Optional<Omit<NodeConfig, "faults">> & {
  /** Faults that the node injects into its own links, for tests. */
  readonly faults?: Optional<FaultConfig> | undefined;
  /** The path of a configuration file. */
  readonly config?: string | undefined;
  /** Which section of that file is this node's. */
  readonly section?: string | undefined;
};

export type FlatConfig = Omit<NodeConfig, "faults"> & { readonly [K in keyof FaultConfig as `faults.${K}`]: FaultConfig[K] };
export type KeyName = keyof FlatConfig;
