// node-config — what a node needs to know before it starts, as plain data that `loadConfig` creates. The table of keys
// uses the flat form, in which a nested key is spelled with a dot (`faults.dropPercent`; flat-config.ts).

export type Role = "scheduler" | "server" | "worker";
export type TransportName = "tcp" | "unix";
export type VanName = "weighbridge" | "zmq" | "p3";
export type PlacementName = "ring" | "range";
export type LogLevel = "silent" | "error" | "warn" | "info" | "debug";

/** Faults that a node injects on purpose, for tests. All off by default. */
export type FaultConfig = {
  readonly dropPercent: number;
  readonly duplicatePercent: number;
  readonly reorderPercent: number;
  /** At most this long; the length of each delay comes from the seed. */
  readonly delayMs: number;
  readonly seed: number;
};

export type NodeConfig = {
  readonly role: Role;
  readonly serverCount: number;
  readonly workerCount: number;
  /** How many workers there may be at most. Undefined: as many as come to the running job. */
  readonly workerCountMax: number | undefined;
  /** Undefined: the scheduler's job name. */
  readonly job: string | undefined;
  /** Where schedulers of the job may be: `host:port,…`. Undefined: at `schedulerHost` and `schedulerPort` alone. */
  readonly schedulers: string | undefined;
  readonly schedulerHost: string;
  readonly schedulerPort: number;
  /** The address this node listens on. */
  readonly host: string;
  /** The address other nodes use to reach this one. */
  readonly advertiseHost: string;
  /** 0: any free port. A scheduler's is its `schedulerPort`. */
  readonly port: number;
  /** Undefined: the scheduler chooses. */
  readonly rank: number | undefined;
  readonly transport: TransportName;
  /** Whose protocol the nodes speak: our own, or ps-lite's. */
  readonly van: VanName;
  readonly socketDir: string;
  /** Where a scheduler keeps its state: a directory, "auto" or "none". */
  readonly stateDir: string;
  /** Members of etcd, `http://host:port,…`, where a scheduler keeps its state. Undefined: in `stateDir`. */
  readonly etcd: string | undefined;
  readonly etcdLeaseMs: number;
  /** How a scheduler distributes parts over servers. */
  readonly placement: PlacementName;
  /** By how many processes each server rank is held: 1, or 2 for a head and a standby. */
  readonly replicas: number;
  /** Server nodes in this process. */
  readonly threads: number;
  /** 0: this node sends none. */
  readonly heartbeatIntervalMs: number;
  /** 0: no node is declared dead for silence. */
  readonly heartbeatTimeoutMs: number;
  readonly startTimeoutMs: number;
  /** Undefined: a request waits as long as its caller does. */
  readonly requestTimeoutMs: number | undefined;
  readonly linkTimeoutMs: number;
  /** 0: off. */
  readonly resendTimeoutMs: number;
  readonly faults: FaultConfig;
  readonly outboxMessagesMax: number;
  readonly outboxBytesMax: number;
  readonly arenaBytesMax: number;
  /** Whether the event loop stays awake while the next input is near (docs/decisions/0008). */
  readonly wakefulLoop: "on" | "off";
  /** The path of a module with PS functions, updaters and row types; relative to the working directory. */
  readonly functions: string | undefined;
  /** Where servers keep checkpoints, the same for all; undefined: they save none. */
  readonly checkpointDir: string | undefined;
  /** Where a server keeps its log. Undefined: it keeps none. */
  readonly durable: string | undefined;
  /** A checkpoint, or a directory of checkpoints, that a server begins with. */
  readonly restore: string | undefined;
  /** The same, unless there is none. */
  readonly resume: string | undefined;
  /** In milliseconds. Undefined: only when somebody asks for one. */
  readonly checkpointEvery: number | undefined;
  /** Undefined: all. */
  readonly keep: number | undefined;
  readonly logLevel: LogLevel;
  /** 0: off. */
  readonly managePort: number;
  readonly nodeId: string | undefined;
};

type Optional<T> = { readonly [K in keyof T]?: T[K] | undefined };

/** What code may pass: any part of a config, and where to read the rest. */
export type NodeConfigOptions = Optional<Omit<NodeConfig, "faults">> & {
  readonly faults?: Optional<FaultConfig> | undefined;
  readonly config?: string | undefined;
  readonly section?: string | undefined;
};

export type FlatConfig = Omit<NodeConfig, "faults"> & { readonly [K in keyof FaultConfig as `faults.${K}`]: FaultConfig[K] };
export type KeyName = keyof FlatConfig;
