// scheduler — runs the scheduler of a cluster until all nodes have left.

import { Command } from "commander";
import { loadConfig } from "../node/config/config.ts";
import { SCHEDULER_PORT } from "../node/config/node-addresses.ts";
import { setEngineFlags } from "../node/engine-flags.ts";
import { recordScheduler } from "../node/last-job.ts";
import { runScheduler } from "../node/run-scheduler.ts";
import { addConfigFlags, addHelp, configFlags, type Flags, type HelpTexts, type Invocation, portOption } from "./command-parts.ts";
import { scriptPath } from "./script.ts";
import { releaseStartMemory } from "./start-memory.ts";
import { runScript } from "./worker.ts";

const HELP: HelpTexts = {
  about: "Prints which nodes join, die and leave, and ends once all nodes have left.",
  more: `With -w 0 the cluster has no workers and serves guests, until the scheduler gets SIGTERM: then it ends in order, servers too. With
--serve it serves on once its last worker has left.`,
  examples: ["scheduler -s 2 -w 2", "scheduler -s 2 -w 2 --host 0.0.0.0 --scheduler-host a.example"],
};

export function schedulerCommand(invocation: Invocation): Command {
  const command = addConfigFlags(new Command("scheduler"), invocation, {
    common: ["serverCount", "workerCount", "job", "schedulerHost", "host", "replicas", "serve", "stateDir", "logFormat", "config"],
    except: ["role", "rank", "threads", "schedulerPort", "listenPort", "advertiseHost"],
  })
    .summary("start the scheduler")
    .description("Starts the scheduler of a cluster, or a script that is one.")
    .argument("[script]", "a script to run instead of the built-in scheduler")
    .argument("[args...]", "its arguments")
    .passThroughOptions()
    .addOption(portOption(String(SCHEDULER_PORT)))
    .action(async (script: string | undefined, args: string[], flags: Flags) => {
      const config = loadConfig({ options: { role: "scheduler" }, commandLine: configFlags(flags), env: process.env });
      setEngineFlags(config.role);
      recordScheduler();
      if (script === undefined) await runScheduler(config, ({ metrics }) => releaseStartMemory(metrics));
      else await runScript(config, scriptPath(script), args, invocation);
    });
  return addHelp(command, invocation, HELP);
}
