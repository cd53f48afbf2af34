// config-descriptions — what each configuration key is for, in words, for `--help` and docs/configuration.md. No
// node needs it to run.

import type { FILE_KEYS } from "./config-keys.ts";
import type { KeyName } from "./node-config.ts";

export const DESCRIPTIONS: Readonly<Record<KeyName | keyof typeof FILE_KEYS, string>> = {
  role: "What this node is.",
  serverCount: "Servers in the cluster.",
  workerCount:
    "Workers that the start waits for; others may join the running job. On the command line also a range, -w 2..8, whose end is the workerCountMax.",
  workerCountMax: "How many workers there may be at most. Left out: as many as come to the running job; with --van zmq workerCount.",
  job: "The job's name. A node that is given one is refused by nodes of another job. One that is not takes its scheduler's, and a scheduler its working directory's.",
  schedulers:
    "Where schedulers of the job may be, host:port, separated by commas: the one that runs, and those that take over. A node looks for it at one after the other. schedulerHost and schedulerPort then need not be given, and are the first of them.",
  schedulerHost: "Where the scheduler is reached.",
  schedulerPort: "The port the scheduler listens on; with Unix sockets it names the scheduler's socket.",
  host: "The address this node listens on; 0.0.0.0 or :: for all.",
  advertiseHost: "The address other nodes reach this one at. Required when host is 0.0.0.0 or ::, except for a scheduler.",
  listenPort: "The port this node listens on; 0 for any free one.",
  rank: "This node's number within its role, kept across restarts; the scheduler chooses when it is not given.",
  transport: "How nodes talk: tcp, or unix for Unix sockets within one machine.",
  van: "Whose protocol nodes speak: our own, or ps-lite's (zmq, p3), for clusters with ps-lite programs in them.",
  serve:
    "Whether the cluster serves on when no worker is left, until its scheduler gets SIGTERM: guests come and go meanwhile. With etcd SIGTERM ends that scheduler alone. Workers leave without waiting for the servers.",
  socketDir: "The folder of the Unix sockets; the same for all nodes of a cluster.",
  stateDir:
    "Where a scheduler writes what it decides, so that one that is started again goes on with the job: a directory, auto for the user's own (XDG_STATE_HOME, or ~/.local/state), or none. A job that ends leaves nothing there.",
  etcd: "The members of an etcd cluster, separated by commas, in which a scheduler keeps its state instead of a directory. Several schedulers of one job may then be started: one leads, the others take over. Needs job.",
  etcdLeaseMs:
    "With etcd: a scheduler that is silent for this long is replaced, in whole seconds. etcd makes it longer if its members' elections take longer.",
  placement:
    "How a scheduler that begins a job distributes parts of tables and tensors over the servers: on a ring, where few parts move when servers change, or in even ranges.",
  replicas: "Processes that hold each server rank: of 2, one serves and the other takes over when it dies. The same for all.",
  threads: "Server nodes in this process, each with its own thread and rank.",
  heartbeatIntervalMs: "Time between two heartbeats; 0 turns them off.",
  heartbeatTimeoutMs: "A node silent for this long is dead; 0 turns that off. More than heartbeatIntervalMs.",
  loopTimeoutMs:
    "A server whose event loop has been busy for this long, while its process runs, is replaced by its standby, or dead; 0 turns that off. A worker may compute for as long as it likes. Read by the scheduler.",
  startTimeoutMs: "All nodes have to join within this time.",
  requestTimeoutMs: "A wait for a request ends with DEADLINE after this long, unless the call sets its own deadline.",
  linkTimeoutMs: "Calls to a node that could not be reached for this long fail with LINK_LOST.",
  resendTimeoutMs: "A request without an answer is sent again after this long; 0 turns that off.",
  "faults.dropPercent": "Received messages to lose on purpose.",
  "faults.duplicatePercent": "Received messages to repeat on purpose.",
  "faults.reorderPercent": "Received messages to deliver late on purpose.",
  "faults.delayMs": "How long to hold a message back at most.",
  "faults.seed": "The same seed makes the same faults.",
  outboxMessagesMax: "Calls that may wait to leave for one node; further calls fail with QUEUE_FULL.",
  outboxBytesMax: "Bytes handed to one link that have not left; an urgent message waits for at most this much.",
  arenaBytesMax:
    "Memory for parameters, for each server node; an eighth is kept for reads and checkpoints. Updates that wait for those of other workers come on top.",
  wakefulLoop: "Whether the event loop stays awake, at the price of CPU time, while the next input is near.",
  sharedMemory:
    "Whether links between processes of one host and user use memory that both share, unless one end turns it off (`--no-shared-memory`) or the system cannot.",
  functions:
    "A module of functions beside the built-in ones: servers offer everything it exports that `psFunction` made, and have the updaters and row types that `psUpdater` and `psRowType` made; workers offer what `workerFunction` made with a handler.",
  checkpointDir:
    "Where servers keep checkpoints: one directory that all of them see. Without it none can be taken. The end of a job is saved there, for a start with resume.",
  durable:
    "Where a server writes every update before it acknowledges it: started again with the same rank and directory, it goes on with all of them. A job that ends leaves nothing there. Needs rank; not with replicas 2.",
  restore:
    "A checkpoint that servers begin with, or a directory of checkpoints, whose newest they use. They do not start if there is none.",
  resume:
    "As restore, but where there is no checkpoint yet, the servers begin empty and say so. On the command line --resume alone, or auto: the checkpointDir.",
  checkpointEvery:
    "The servers take a checkpoint each time this long has passed, or all workers have finished that many steps (clocks), without a script. Needs checkpointDir.",
  keep: "How many of the newest checkpoints stay when checkpointEvery has taken one; left out, all do.",
  logLevel: "What the node logs.",
  logFormat:
    "How a scheduler and a training tell which node has which rank: as text, or in MindSpore's words, which is the default where MS_* variables describe the job.",
  managePort:
    "The port of the scheduler's HTTP server for its own machine, which reports the nodes (/status, /nodes, /state) and takes changes of the servers (/scaleout, /scalein); 0 for none.",
  nodeId: "A label for this node in logs and listings.",
  config: "A YAML or JSON file with more configuration.",
  section: "The section of that file which is this node's.",
};

/** For the short help of commands: a few words, where the first clause of the description is long. */
export const SHORT_DESCRIPTIONS: Readonly<Partial<Record<keyof typeof DESCRIPTIONS, string>>> = {
  workerCount: "workers, or 2..8: how few and how many",
  replicas: "processes of each server; one of 2 may die",
  functions: "a module of your functions and updaters",
  checkpointDir: "where servers keep checkpoints",
  checkpointEvery: "save every so often: 60s, or 500steps",
  keep: "how many of those checkpoints stay",
  resume: "begin with the newest checkpoint, if any",
  durable: "log updates on disk before answering",
  serve: "serve on when the last worker has left",
  schedulerPort: "its port [9700]",
  listenPort: "the port this node listens on [any]",
  rank: "this node's number within its role [any]",
  threads: "servers in this process, each with a rank",
  stateDir: "where the scheduler keeps its state [auto]",
  config: "a YAML or JSON file with more options",
  logFormat: "text, or mindspore for its registration lines",
  logLevel: "silent, error, warn, info or debug",
};
