// job-plan — the processes of a job on one machine, and what each of them runs. Starts nothing.

import { basename } from "node:path/posix";
import { fileURLToPath } from "node:url";
import { loadConfig } from "../config/config.ts";
import { type Environment, nodeEnvironment } from "../config/config-environment.ts";
import { printedWarnings } from "../config/config-warnings.ts";
import type { NodeConfig, NodeConfigOptions, Role } from "../config/node-config.ts";
import { outputName } from "../output-name.ts";

/** A command and its arguments. */
export type Program = readonly [command: string, ...args: string[]];

export type ProcessPlan = {
  /** As people read it: "scheduler", "worker/0"; "server/0-3" for a process of four nodes. */
  readonly name: string;
  readonly role: Role;
  /** The ranks of the nodes in the process; of replicated servers a second process has the same. */
  readonly ranks: readonly number[];
  readonly program: Program;
  /** What its environment has besides what it inherits. */
  readonly env: Environment;
  /** What it inherits; if left out, the whole environment of this process. */
  readonly inherited?: Readonly<Record<string, string | undefined>>;
};

export type JobRequest = {
  /** As `loadConfig` reads them; they apply to all nodes. */
  readonly commandLine: Readonly<Record<string, unknown>>;
  /** Read here, and inherited by the processes. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly defaults: NodeConfigOptions;
  /** What a process of this role runs; undefined: start none of that role. */
  readonly programOf: (config: NodeConfig) => Program | undefined;
};

export type JobPlan = {
  /** The scheduler's configuration; its counts are those of the job. */
  readonly scheduler: NodeConfig;
  /** The scheduler first, then servers and workers by rank. */
  readonly processes: readonly ProcessPlan[];
  /** The processes of a server that the job gets while it runs; empty: none is started for it. */
  readonly serversOf: (rank: number) => readonly ProcessPlan[];
  /** The process of a worker; undefined: none is started for it. */
  readonly workerOf: (rank: number) => ProcessPlan | undefined;
};

/** Throws BAD_CONFIG. */
export function planJob({ commandLine, env, defaults, programOf }: JobRequest): JobPlan {
  const load = (options: NodeConfigOptions, warn?: () => void): NodeConfig =>
    loadConfig({ options, commandLine, env, defaults, ...(warn && { warn }) });
  const scheduler = load({ role: "scheduler", rank: 0 });
  const { serverCount, workerCount, threads, replicas } = scheduler;
  const configs = [scheduler];
  const add = (options: NodeConfigOptions): void => void configs.push(load({ ...options, listenPort: 0 }));
  // Both copies of a rank ask for it, each in a process of its own; the scheduler decides which of them leads.
  for (let copy = 0; copy < replicas; copy++) {
    for (let rank = 0; rank < serverCount; rank += threads) {
      add({ role: "server", rank, threads: Math.min(threads, serverCount - rank) });
    }
  }
  for (let rank = 0; rank < workerCount; rank++) add({ role: "worker", rank, threads: 1 });
  const processOf = (config: NodeConfig): ProcessPlan | undefined => {
    const program = programOf(config);
    return program && planProcess(config, program, env);
  };
  const processes = configs.flatMap((config) => processOf(config) ?? []);
  const serversOf = (rank: number): readonly ProcessPlan[] => {
    const config = load({ role: "server", rank, threads: 1, listenPort: 0, serverCount: Math.max(serverCount, rank + 1) }, () => {});
    return Array.from({ length: replicas }, () => processOf(config)).filter((plan) => plan !== undefined);
  };
  const workerOf = (rank: number): ProcessPlan | undefined => {
    const { workerCountMax = Math.max(workerCount, rank + 1) } = scheduler; // it has that rank
    return processOf(load({ role: "worker", rank, threads: 1, listenPort: 0, workerCountMax }, () => {}));
  };
  return { scheduler, processes, serversOf, workerOf };
}

function planProcess(config: NodeConfig, program: Program, inherited: JobRequest["env"]): ProcessPlan {
  const { role, rank = 0, threads } = config;
  const ranks = Array.from({ length: role === "server" ? threads : 1 }, (_, index) => rank + index);
  const env = nodeEnvironment(config);
  const warnings: string[] = []; // the launcher has printed them
  loadConfig({ env: { ...inherited, ...env }, warn: (text) => void warnings.push(text) });
  return { name: processName(role, ranks), role, ranks, program, inherited, env: { ...env, ...printedWarnings(warnings) } };
}

function processName(role: Role, ranks: readonly number[]): string {
  return outputName(role, ranks.length === 1 ? (ranks[0] ?? 0) : `${ranks[0]}-${ranks.at(-1)}`);
}

/**
 * The path of `name` (without its extension, relative to the calling module) for `node` to run. In the package all
 * files lie in one folder (scripts/bundle.ts).
 */
export function modulePath(importMetaUrl: string, name: string): string {
  const path = importMetaUrl.endsWith(".ts") ? `${name}.ts` : `./${basename(name)}.js`;
  return fileURLToPath(new URL(path, importMetaUrl));
}
