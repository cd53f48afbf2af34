// config-rules — what must hold between keys, each valid by itself. Pure. A broken rule stops the node, a suspicion is
// a warning, and a rule is skipped if a key it reads is missing or invalid.

import { Buffer } from "node:buffer";
import { waysToSet } from "./config-key.ts";
import { KEYS } from "./config-keys.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { isLoopback, isWildcard } from "./network-interface.ts";
import type { FlatConfig, KeyName } from "./node-config.ts";

export type WhereFrom = { readonly subject: string; readonly origin: string };

/** What was expected and how to fix it; false if the rule holds. */
type Finding = readonly [expected: string, fix: string] | false;

type Rule = {
  /** The key that the error names. */
  readonly key: KeyName;
  /** The other keys that it reads. */
  readonly with: readonly KeyName[];
  readonly check: (config: FlatConfig) => Finding;
};

/** For resume: where checkpoints are kept. */
export const AUTO = "auto";
/** A socket's path has room for 103 bytes on the smallest system; the rest is for the file's name. */
const SOCKET_DIR_BYTES_MAX = 80;

const RULES: readonly Rule[] = [
  {
    key: "serverCount",
    with: ["workerCount", "role"],
    check: ({ serverCount, workerCount, role }) => {
      if (serverCount + workerCount === 0) return ["at least one server or worker", "raise serverCount or workerCount"];
      return role === "server" && serverCount === 0 && ["at least 1, as this node is a server", "raise serverCount"];
    },
  },
  {
    key: "workerCount",
    with: ["serverCount", "role"],
    check: ({ serverCount, workerCount, role }) =>
      role === "worker" && workerCount === 0 && serverCount > 0 && ["at least 1, as this node is a worker", "raise workerCount"],
  },
  {
    key: "schedulerHost",
    with: ["transport"],
    check: ({ schedulerHost: host, transport }) =>
      transport === "tcp" &&
      isWildcard(host) && [
        "an address that other nodes can connect to",
        `set schedulerHost to the scheduler's address, and its host to ${host}`,
      ],
  },
  {
    key: "schedulers",
    with: ["transport", "van"],
    check: ({ schedulers, transport, van }) =>
      schedulers !== undefined &&
      (transport !== "tcp" || van !== "weighbridge") && [
        "none, as nodes of Unix sockets or of ps-lite's protocol have one scheduler",
        "leave schedulers out, or use transport tcp and van weighbridge",
      ],
  },
  {
    key: "etcd",
    with: ["role", "job", "van"],
    check: ({ etcd, role, job, van }) => {
      if (etcd === undefined || role !== "scheduler") return false;
      if (van !== "weighbridge") return ["none, as ps-lite's protocol has one scheduler", "leave etcd out, or use van weighbridge"];
      return job === undefined && ["a job with a name, by which its schedulers find each other", waysToSet("job", KEYS.job)];
    },
  },
  {
    key: "advertiseHost",
    with: ["role", "transport"],
    check: ({ role, advertiseHost, transport }) =>
      transport === "tcp" &&
      role !== "scheduler" &&
      isWildcard(advertiseHost) && ["an address at which other nodes reach this one", waysToSet("advertiseHost", KEYS.advertiseHost)],
  },
  {
    key: "listenPort",
    with: ["role", "schedulerPort"],
    check: ({ role, listenPort, schedulerPort }) =>
      role === "scheduler" &&
      listenPort !== schedulerPort && [
        `${schedulerPort}, the schedulerPort, as this node is the scheduler`,
        "leave listenPort out, or make them agree",
      ],
  },
  {
    key: "managePort",
    with: ["role", "listenPort"],
    check: ({ role, listenPort, managePort }) =>
      role === "scheduler" && managePort === listenPort && ["another port than the scheduler's own", "choose another managePort"],
  },
  {
    key: "threads",
    with: ["role", "serverCount"],
    check: ({ role, threads, serverCount }) =>
      role === "server" &&
      serverCount > 0 &&
      threads > serverCount && [`at most ${serverCount}, the serverCount`, "lower threads or raise serverCount"],
  },
  {
    key: "resume",
    with: ["restore"],
    check: ({ resume, restore }) => resume !== undefined && restore !== undefined && ["none beside restore", "give one of them"],
  },
  {
    key: "resume",
    with: ["checkpointDir"],
    check: ({ resume, checkpointDir: directory }) =>
      resume === AUTO &&
      directory === undefined && ["a directory, as there is no checkpointDir", "name one, as --resume=DIR, or set checkpointDir"],
  },
  {
    key: "checkpointEvery",
    with: ["checkpointDir"],
    check: ({ checkpointEvery: every, checkpointDir: directory }) =>
      every !== undefined && directory === undefined && ["a checkpointDir, where they are kept", "set checkpointDir"],
  },
  {
    key: "keep",
    with: ["checkpointEvery"],
    check: ({ keep, checkpointEvery: every }) =>
      keep !== undefined && every === undefined && ["none without checkpointEvery, whose checkpoints it counts", "set checkpointEvery"],
  },
  { key: "workerCountMax", with: ["workerCount"], check: checkWorkerRange },
  {
    key: "durable",
    with: ["replicas"],
    check: ({ durable, replicas }) =>
      durable !== undefined &&
      replicas > 1 && ["none beside replicas 2: a server is replicated or durable, not both so far", "give one of them"],
  },
  { key: "rank", with: ["role", "serverCount", "workerCount", "workerCountMax", "threads"], check: checkRank },
  { key: "heartbeatTimeoutMs", with: ["heartbeatIntervalMs"], check: checkHeartbeat },
  {
    key: "serve",
    with: ["van"],
    check: ({ serve, van }) =>
      serve === "on" && van !== "weighbridge" && ["off, as ps-lite's protocol has no guests", "leave serve out, or use --van weighbridge"],
  },
  {
    key: "socketDir",
    with: ["transport"],
    check: ({ transport, socketDir }) =>
      transport === "unix" &&
      Buffer.byteLength(socketDir) > SOCKET_DIR_BYTES_MAX && [
        `at most ${SOCKET_DIR_BYTES_MAX} bytes, as sockets have short paths`,
        "choose a folder with a shorter path",
      ],
  },
];

function checkWorkerRange({ workerCount, workerCountMax: most = workerCount }: FlatConfig): Finding {
  if (most < workerCount) return [`at least workerCount, ${workerCount}`, "give the lower number first, as -w 2..8"];
  return workerCount === 0 && most > 0 && ["0, as workerCount is 0: a start waits for one worker at least", "begin the range with 1"];
}

function checkRank({ role, rank, serverCount, workerCount, workerCountMax: workers = workerCount, threads }: FlatConfig): Finding {
  // Another rule reports the range.
  if (rank === undefined || (role === "worker" && workers < workerCount)) return false;
  if (role === "scheduler") return rank !== 0 && ["none, as there is one scheduler", "leave rank out"];
  const [count, taken] = role === "server" ? [serverCount, threads] : [workers, 1];
  if (count < taken || rank + taken <= count) return false; // Another rule reports a count that is too small.
  const why = `as there ${count === 1 ? `is 1 ${role}` : `are ${count} ${role}s`}${taken > 1 ? ` and this process is ${taken} of them` : ""}`;
  return [`a rank from 0 to ${count - taken}, ${why}`, `lower rank or raise ${role}Count`];
}

function checkHeartbeat({ heartbeatIntervalMs: intervalMs, heartbeatTimeoutMs: timeoutMs }: FlatConfig): Finding {
  if (timeoutMs === 0 || (intervalMs > 0 && timeoutMs > intervalMs)) return false;
  if (intervalMs > 0) return [`more than heartbeatIntervalMs, ${intervalMs}`, "raise heartbeatTimeoutMs or lower heartbeatIntervalMs"];
  return ["0, as heartbeatIntervalMs is 0: a node that sends no heartbeats would seem dead", "set both to 0, or both to more"];
}

/** The rules that these values break, except those about the keys in `except`. */
export function brokenRules(
  config: Readonly<Partial<FlatConfig>>,
  whereFrom: (key: KeyName) => WhereFrom,
  except: readonly KeyName[] = [],
): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const rule of RULES) {
    if (except.includes(rule.key)) continue;
    if (![rule.key, ...rule.with].every((name) => Object.hasOwn(config, name))) continue;
    const broken = rule.check(config as FlatConfig); // It has all the keys that this rule reads.
    if (broken === false) continue;
    const [expected, fix] = broken;
    problems.push({ ...whereFrom(rule.key), expected, found: quote(config[rule.key]), fix });
  }
  return problems;
}

export function suspicions(config: FlatConfig): string[] {
  const found: string[] = [];
  const { role, transport, van, schedulerHost, advertiseHost } = config;
  // ps-lite's scheduler and servers dial workers too.
  const isDialed = role === "server" || (role === "worker" && van !== "weighbridge");
  if (isDialed && transport === "tcp" && isLoopback(advertiseHost) && !isLoopback(schedulerHost)) {
    const ways = waysToSet("host", KEYS.host);
    found.push(
      `this ${role} can only be reached from its own machine, at ${advertiseHost}, but the scheduler is at ${schedulerHost}; ${ways}`,
    );
  }
  if (config["faults.dropPercent"] > 0 && config.resendTimeoutMs === 0) {
    found.push(`faults.dropPercent is ${config["faults.dropPercent"]} and resendTimeoutMs is 0: what is dropped is lost for good`);
  }
  return found;
}
