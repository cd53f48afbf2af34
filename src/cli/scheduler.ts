// scheduler — runs the scheduler of a cluster until all nodes have left.

import { Command } from "commander";
import { loadConfig } from "../node/config/config.ts";
import { setEngineFlags } from "../node/engine-flags.ts";
import { runScheduler } from "../node/run-scheduler.ts";
import { addConfigFlags, configFlags, type Flags, helpText, type Invocation } from "./command-parts.ts";
import { scriptPath } from "./script.ts";
import { releaseStartMemory } from "./start-memory.ts";
import { runScript } from "./worker.ts";

const HELP = `
Prints which nodes join, die, come back and leave, and once all have joined, in MindSpore's words, the rank of each. Ends once all nodes have left.

Example:
  $ weighbridge scheduler -s 2 -w 2 --scheduler-port 9700`;

export function schedulerCommand(invocation: Invocation): Command {
  const command = new Command("scheduler")
    .summary("start the scheduler")
    .description("Starts the scheduler of a cluster, or a script that is one.")
    .argument("[script]", "a script to run instead of the built-in scheduler")
    .argument("[args...]", "its arguments")
    .passThroughOptions()
    .addHelpText("after", helpText(HELP))
    .action(async (script: string | undefined, args: string[], flags: Flags) => {
      const config = loadConfig({ options: { role: "scheduler" }, commandLine: configFlags(flags), env: process.env });
      setEngineFlags(config.role);
      if (script === undefined) await runScheduler(config, ({ metrics }) => releaseStartMemory(metrics));
      else await runScript(config, scriptPath(script), args, invocation);
    });
  return addConfigFlags(command, { except: ["role", "rank", "threads", "port", "advertiseHost"] });
}
