// commands — the table of commands. Each is loaded when it is needed: a process that starts others need not load what
// they run.

import type { Command } from "commander";
import type { Invocation } from "./command-parts.ts";

export const COMMANDS: Readonly<Record<string, () => Promise<(invocation: Invocation) => Command>>> = {
  init: async () => (await import("./init.ts")).initCommand,
  train: async () => (await import("./train.ts")).trainCommand,
  launch: async () => (await import("./launch.ts")).launchCommand,
  scheduler: async () => (await import("./scheduler.ts")).schedulerCommand,
  server: async () => (await import("./server.ts")).serverCommand,
  worker: async () => (await import("./worker.ts")).workerCommand,
  status: async () => (await import("./status.ts")).statusCommand,
  params: async () => (await import("./params.ts")).paramsCommand,
  scale: async () => (await import("./scale.ts")).scaleCommand,
  checkpoint: async () => (await import("./checkpoint.ts")).checkpointCommand,
  stop: async () => (await import("./stop.ts")).stopCommand,
  completion: async () => (await import("./completion.ts")).completionCommand,
  bench: async () => (await import("./bench.ts")).benchCommand,
};

export const COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS);
