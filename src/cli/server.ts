// server — runs one server process of a cluster: one node, or several, each on a thread of its own.

import { Command, InvalidArgumentError, Option } from "commander";
import { loadNodeConfig, orReport } from "../node/cannot-start.ts";
import { setEngineFlags } from "../node/engine-flags.ts";
import { modulePath } from "../node/launcher/job-plan.ts";
import { runServerThreads } from "../node/launcher/server-threads.ts";
import { runServer } from "../node/run-server.ts";
import { addConfigFlags, addHelp, configFlags, type Flags, type HelpTexts, type Invocation } from "./command-parts.ts";
import { scriptPath } from "./script.ts";
import { releaseStartMemory } from "./start-memory.ts";
import { runScript } from "./worker.ts";

const APP_ID_MAX = 0xffff;

const HELP: HelpTexts = {
  about: "It holds the workers' tensors and embeddings, and sums what KVWorkers push.",
  more: `The optimizers are those that the workers name. For KVWorkers it sums what is pushed to its applications, for any number of values
per key.

With --threads N the process is N servers, each with its own thread, rank and port; --rank and --listen-port are those of the first. When a
script throws, the server ends with exit code 1.

With --replicas 2 every server is held by two processes: start each twice. The scheduler decides which of them serves; the other repeats
what it does, and takes over when it dies.

With -w 0 the cluster has no workers and serves guests, until its scheduler gets SIGTERM; a server that gets it leaves alone. Only the scheduler
needs --serve, with which a cluster serves on once its last worker has left.

With --durable DIR a server writes every update to DIR before it acknowledges it. Killed and started again with the same --rank, it has all
of them again.`,
  examples: [
    "server -s 2 -w 2 --scheduler-host a.example --host b.example",
    "server -s 4 -w 2 --threads 4",
    "server -s 1 -w 1 my-server.ts",
  ],
};

export function serverCommand(invocation: Invocation): Command {
  const command = addConfigFlags(new Command("server"), invocation, {
    common: [
      ...["serverCount", "workerCount", "schedulerHost", "schedulerPort", "host", "threads", "replicas"],
      ...["functions", "checkpointDir", "resume", "durable"],
    ],
    except: ["role"],
  })
    .summary("start one server, or several in one process")
    .description("Starts one server of a cluster, or several in one process, or runs a script.")
    .argument("[script]", "a script to run instead of the built-in server")
    .argument("[args...]", "its arguments")
    .passThroughOptions()
    .addOption(appsOption().hideHelp(!invocation.isHelpAll))
    .action(async (script: string | undefined, args: string[], flags: Flags & { readonly apps: readonly number[] }) => {
      const config = await loadNodeConfig({ options: { role: "server" }, commandLine: configFlags(flags), env: process.env });
      setEngineFlags(config.role);
      const path =
        script === undefined
          ? undefined
          : await orReport(
              () => config,
              () => scriptPath(script),
            );
      if (config.threads > 1) {
        const builtIn = { path: modulePath(import.meta.url, "./server-thread"), args: flags.apps.map(String) };
        invocation.exitCode = await runServerThreads(config, path === undefined ? builtIn : { path, args });
      } else if (path === undefined) await runServer(config, flags.apps, ({ metrics }) => releaseStartMemory(metrics));
      else await runScript(config, path, args, invocation);
    });
  return addHelp(command, invocation, HELP);
}

function appsOption(): Option {
  const option = new Option("--apps <ids>", "the applications that the built-in server serves [0]");
  return option.argParser(parseAppIds).default([0]);
}

function parseAppIds(text: string): readonly number[] {
  const ids = text.split(",").map((part) => (part.trim() === "" ? Number.NaN : Number(part)));
  const isAppId = (id: number): boolean => Number.isInteger(id) && id >= 0 && id <= APP_ID_MAX;
  if (!ids.every(isAppId)) throw new InvalidArgumentError(`Applications are numbers from 0 to ${APP_ID_MAX}, such as 0,1.`);
  if (new Set(ids).size < ids.length) throw new InvalidArgumentError("An application is named twice.");
  return ids;
}
