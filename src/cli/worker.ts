// worker — runs a script as one worker of a cluster whose other nodes are started elsewhere.

import { pathToFileURL } from "node:url";
import { Command } from "commander";
import { loadNodeConfig, orReport } from "../node/cannot-start.ts";
import { loadConfig } from "../node/config/config.ts";
import { nodeEnvironment } from "../node/config/config-environment.ts";
import type { NodeConfig } from "../node/config/node-config.ts";
import { printErrorsInLines } from "../node/launcher/process-errors.ts";
import { addConfigFlags, addHelp, configFlags, type Flags, type HelpTexts, type Invocation } from "./command-parts.ts";
import { noticeText } from "./notices.ts";
import { scriptPath } from "./script.ts";
import { columnsOf } from "./terminal-text.ts";

const HELP: HelpTexts = {
  about: `The script calls connect() of weighbridge, for a session with parameters, or start() of weighbridge/node, for ps-lite's words.`,
  more: "Either finds its cluster in the environment, which this command sets. When the script throws, the worker ends with exit code 1.",
  examples: ["worker -s 1 -w 1 train.ts --epochs 3", "worker -s 2 -w 2 --scheduler-host a.example train.ts"],
};

export function workerCommand(invocation: Invocation): Command {
  const command = new Command("worker")
    .summary("start one worker")
    .description("Starts one worker of a cluster: runs a script as that worker.")
    .argument("<script>", "the program of the worker")
    .argument("[args...]", "its arguments")
    .passThroughOptions()
    .action(async (script: string, args: string[], flags: Flags) => {
      const sources = { options: { role: "worker" }, commandLine: configFlags(flags), env: process.env } as const;
      const path = await orReport(
        () => loadConfig(sources),
        () => scriptPath(script),
      );
      const config = await loadNodeConfig(sources);
      await runScript(config, path, args, invocation);
    });
  addConfigFlags(command, invocation, {
    common: [
      "serverCount",
      "workerCount",
      "schedulerHost",
      "schedulerPort",
      "host",
      "listenPort",
      "rank",
      "functions",
      "logLevel",
      "config",
    ],
    except: ["role", "threads"],
  });
  return addHelp(command, invocation, HELP);
}

/**
 * Runs a script in this process, as the node of this configuration. An error that it throws ends the process, as it
 * would under `node script.ts`.
 */
export async function runScript(config: NodeConfig, path: string, args: readonly string[], { isVerbose }: Invocation): Promise<void> {
  Object.assign(process.env, nodeEnvironment(config));
  process.argv.splice(1, process.argv.length, path, ...args);
  if (!isVerbose) printErrorsInLines({ layOut: (text) => noticeText(text, columnsOf(process.stderr)) });
  try {
    await import(pathToFileURL(path).href);
  } catch (thrown) {
    // Not thrown to the caller: the node that the script started would keep the process alive with its heartbeats.
    setImmediate(() => {
      throw thrown;
    });
  }
}
