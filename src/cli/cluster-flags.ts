// cluster-flags — the flags of commands about a running job: where its scheduler is, and --yes. What they mean is in
// cluster-client.ts.

import { type Command, Option } from "commander";
import { SCHEDULER_PORT } from "../node/config/node-addresses.ts";
import { SCHEME } from "../node/config/scheduler-url.ts";
import { addConfigFlags, addHelp, type HelpTexts, type Invocation } from "./command-parts.ts";

/** Where the scheduler is, and from which file: keys of the configuration that every command needs for a cluster. */
const CLUSTER_KEYS = ["schedulers", "schedulerHost", "schedulerPort", "transport", "van", "socketDir", "config", "section"];
/** Those of them that say where it is. */
export const ADDRESS_KEYS = ["schedulers", "schedulerHost", "schedulerPort"] as const;

/** Those about a running job: they take its address among their words. */
const JOB_COMMANDS: ReadonlySet<string> = new Set(["status", "scale", "checkpoint", "params", "stop"]);

function addClusterFlags(command: Command, invocation: Invocation): Command {
  return addConfigFlags(command, invocation, { common: [], only: CLUSTER_KEYS });
}

/** Of a command about a running job. */
const WHICH_JOB = "The job: weighbridge://HOST:PORT among the words, else the last one of this directory.";
const WHICH_JOB_ALL = `An address of the job, weighbridge://HOST:PORT, may stand anywhere among the words. Without one the command takes the job that was
last started from this directory, otherwise the one at port ${SCHEDULER_PORT} of this machine.`;

/** Adds those flags, and help that says which job the command is about. */
export function addClusterHelp(command: Command, invocation: Invocation, { about = "", more = "", examples }: HelpTexts): Command {
  const paragraphs = (...texts: readonly string[]): string => texts.filter((text) => text !== "").join("\n\n");
  const { isHelpAll } = invocation;
  const own = isHelpAll ? paragraphs(about, WHICH_JOB_ALL) : [about, WHICH_JOB].join("\n").trimStart();
  return addHelp(addClusterFlags(command, invocation), invocation, { about: own, more, examples });
}

/** Whether the command was given those flags. */
export function takesCluster(command: Command): boolean {
  return command.options.some((option) => option.attributeName() === "schedulerPort");
}

/**
 * In a command about a running job the first word that begins with weighbridge:// is the address of that job, wherever
 * it stands before "--". Returns it, and the other words.
 */
export function takeAddress(words: readonly string[]): { readonly address?: string; readonly args: readonly string[] } {
  const end = words.indexOf("--");
  const own = end === -1 ? words : words.slice(0, end);
  const at = JOB_COMMANDS.has(words[0] ?? "") ? own.findIndex((word) => word.startsWith(SCHEME)) : -1;
  const address = words[at];
  return address === undefined ? { args: words } : { address, args: words.toSpliced(at, 1) };
}

/** For a command that changes a running job (requireMeant). */
export function yesOption(): Option {
  return new Option("--yes", "also with a job that only the default port found");
}
