// config-rules — what must hold between keys, each valid by itself. Pure. A rule is skipped when a key it looks at is missing or broken.
// A rule that is broken stops the node; a suspicion is only said.

import { Buffer } from "node:buffer";
import { waysToGive } from "./config-key.ts";
import { KEYS } from "./config-keys.ts";
import { type ConfigProblem, quote } from "./config-problem.ts";
import { isLoopback, isWildcard } from "./network-interface.ts";
import type { FlatConfig, KeyName } from "./node-config.ts";

export type WhereFrom = { readonly subject: string; readonly origin: string };

type Verdict = Pick<ConfigProblem, "expected" | "fix">;

type Rule = {
  /** The key to blame. */
  readonly key: KeyName;
  /** The others it looks at. */
  readonly with: readonly KeyName[];
  /** Undefined: all is well. */
  readonly judge: (config: FlatConfig) => Verdict | undefined;
};

/** A socket's path has room for 103 bytes on the smallest system; the rest is for the file's name. */
const SOCKET_DIR_BYTES_MAX = 80;

const RULES: readonly Rule[] = [
  {
    key: "serverCount",
    with: ["workerCount", "role"],
    judge: ({ serverCount, workerCount, role }) => {
      if (serverCount + workerCount === 0) return { expected: "at least one server or worker", fix: "raise serverCount or workerCount" };
      return role === "server" && serverCount === 0
        ? { expected: "at least 1, as this node is a server", fix: "raise serverCount" }
        : undefined;
    },
  },
  {
    key: "workerCount",
    with: ["serverCount", "role"],
    judge: ({ serverCount, workerCount, role }) =>
      role === "worker" && workerCount === 0 && serverCount > 0
        ? { expected: "at least 1, as this node is a worker", fix: "raise workerCount" }
        : undefined,
  },
  {
    key: "schedulerHost",
    with: ["transport"],
    judge: ({ schedulerHost, transport }) =>
      transport === "tcp" && isWildcard(schedulerHost)
        ? {
            expected: "an address that other nodes can connect to",
            fix: `set schedulerHost to the scheduler's address, and its host to ${schedulerHost}`,
          }
        : undefined,
  },
  {
    key: "advertiseHost",
    with: ["role", "transport"],
    judge: ({ role, advertiseHost, transport }) =>
      transport === "tcp" && role !== "scheduler" && isWildcard(advertiseHost)
        ? { expected: "an address at which other nodes reach this one", fix: waysToGive("advertiseHost", KEYS.advertiseHost) }
        : undefined,
  },
  {
    key: "port",
    with: ["role", "schedulerPort"],
    judge: ({ role, port, schedulerPort }) =>
      role === "scheduler" && port !== schedulerPort
        ? { expected: `${schedulerPort}, the schedulerPort, as this node is the scheduler`, fix: "leave port out, or make them agree" }
        : undefined,
  },
  {
    key: "managePort",
    with: ["role", "port"],
    judge: ({ role, port, managePort }) =>
      role === "scheduler" && managePort === port
        ? { expected: "another port than the scheduler's own", fix: "choose another managePort" }
        : undefined,
  },
  { key: "threads", with: ["role", "serverCount"], judge: judgeThreads },
  { key: "rank", with: ["role", "serverCount", "workerCount", "threads"], judge: judgeRank },
  { key: "heartbeatTimeoutMs", with: ["heartbeatIntervalMs"], judge: judgeHeartbeat },
  {
    key: "socketDir",
    with: ["transport"],
    judge: ({ transport, socketDir }) =>
      transport === "unix" && Buffer.byteLength(socketDir) > SOCKET_DIR_BYTES_MAX
        ? { expected: `at most ${SOCKET_DIR_BYTES_MAX} bytes, as sockets have short paths`, fix: "choose a folder with a shorter path" }
        : undefined,
  },
];

function judgeThreads({ role, threads, serverCount }: FlatConfig): Verdict | undefined {
  if (role !== "server" || serverCount === 0 || threads <= serverCount) return undefined;
  return { expected: `at most ${serverCount}, the serverCount`, fix: "lower threads or raise serverCount" };
}

function judgeRank({ role, rank, serverCount, workerCount, threads }: FlatConfig): Verdict | undefined {
  if (rank === undefined) return undefined;
  if (role === "scheduler") return rank === 0 ? undefined : { expected: "none, as there is one scheduler", fix: "leave rank out" };
  const [count, taken] = role === "server" ? [serverCount, threads] : [workerCount, 1];
  if (count < taken || rank + taken <= count) return undefined; // Another rule reports a count that is too small.
  const range = `a rank from 0 to ${count - taken}`;
  const why = `as there ${count === 1 ? `is 1 ${role}` : `are ${count} ${role}s`}${taken > 1 ? ` and this process is ${taken} of them` : ""}`;
  return { expected: `${range}, ${why}`, fix: `lower rank or raise ${role}Count` };
}

function judgeHeartbeat({ heartbeatIntervalMs, heartbeatTimeoutMs }: FlatConfig): Verdict | undefined {
  if (heartbeatTimeoutMs === 0 || (heartbeatIntervalMs > 0 && heartbeatTimeoutMs > heartbeatIntervalMs)) return undefined;
  if (heartbeatIntervalMs > 0) {
    return {
      expected: `more than heartbeatIntervalMs, ${heartbeatIntervalMs}`,
      fix: "raise heartbeatTimeoutMs or lower heartbeatIntervalMs",
    };
  }
  const expected = "0, as heartbeatIntervalMs is 0: a node that sends no heartbeats would seem dead";
  return { expected, fix: "set both to 0, or both to more" };
}

/** What is wrong with how values go together, except about the keys in `except`. */
export function brokenRules(
  config: Readonly<Partial<FlatConfig>>,
  whereFrom: (key: KeyName) => WhereFrom,
  except: readonly KeyName[] = [],
): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  for (const rule of RULES) {
    if (except.includes(rule.key)) continue;
    if (![rule.key, ...rule.with].every((name) => Object.hasOwn(config, name))) continue;
    const verdict = rule.judge(config as FlatConfig); // It has all the keys that this rule looks at.
    if (verdict !== undefined) problems.push({ ...whereFrom(rule.key), ...verdict, found: quote(config[rule.key]) });
  }
  return problems;
}

export function suspicions(config: FlatConfig): string[] {
  const found: string[] = [];
  const { role, transport, van, schedulerHost, advertiseHost } = config;
  const isDialed = role === "server" || (role === "worker" && van !== "weighbridge"); // ps-lite's scheduler and servers dial workers too
  if (isDialed && transport === "tcp" && isLoopback(advertiseHost) && !isLoopback(schedulerHost)) {
    const ways = waysToGive("host", KEYS.host);
    found.push(
      `this ${role} can only be reached from its own machine, at ${advertiseHost}, but the scheduler is at ${schedulerHost}; ${ways}`,
    );
  }
  if (config["faults.dropPercent"] > 0 && config.resendTimeoutMs === 0) {
    found.push(`faults.dropPercent is ${config["faults.dropPercent"]} and resendTimeoutMs is 0: what is dropped is lost for good`);
  }
  return found;
}
