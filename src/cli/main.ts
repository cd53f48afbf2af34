// main — the `weighbridge` command: finds the subcommand, and turns a failure into a line and an exit code.
//
//   0        done
//   1        failed; the line says why
//   2        the command line or the configuration is not valid
//   128 + n  ended by signal n

import { inspect } from "node:util";
import { Command, CommanderError } from "commander";
import packageJson from "weighbridge/package.json" with { type: "json" };
import { WeighbridgeError } from "../base/errors.ts";
import { isSlip, nearestName } from "../base/nearest-name.ts";
import { exitCodeFor, isOurs, USAGE_EXIT_CODE } from "../node/launcher/process-errors.ts";
import { tellSourceLines } from "../node/launcher/source-lines.ts";
import { takeAddress, takesCluster } from "./cluster-flags.ts";
import { addHelp, type HelpTexts, helpStyle, type Invocation, newFlag } from "./command-parts.ts";
import { COMMAND_NAMES, COMMANDS } from "./commands.ts";
import { noticeText, printNotice } from "./notices.ts";
import { isReaderGone, outputExitCode, outputText, StandardOutput } from "./standard-output.ts";
import { watchStarter } from "./starter.ts";
import { columnsOf } from "./terminal-text.ts";

const VERBOSE = "print errors with their stacks";
const HELP: HelpTexts = {
  about: "weighbridge COMMAND --help explains a command, and --help-all has every option.",
  more: `Exit codes: 0 done; 1 failed, and the last line says why; 2 the command line or the configuration is not valid;
130 Ctrl-C, and 128 + n for any signal n; 141 (SIGPIPE) when the reader of the output has gone.`,
  examples: ["launch -s 2 -w 2 -- script.ts", "train lenet", "status", "launch --help"],
  briefCount: 1,
};

/** Runs the command line (without node and the script's name). Returns the exit code; prints errors, throws none. */
export async function main(args: readonly string[]): Promise<number> {
  watchStarter();
  process.stderr.on("error", () => {}); // There is nowhere left to report it.
  const output = new StandardOutput(process.stdout);
  const isVerbose = process.env.WEIGHBRIDGE_LOG_LEVEL === "debug";
  const invocation: Invocation = { output, exitCode: 0, isVerbose, words: args, isHelpAll: args.includes("--help-all") };
  const exitCode = await run(invocation, args);
  await output.flush();
  if (exitCode !== 0 || output.error === undefined) return exitCode;
  if (!isReaderGone(output.error)) printNotice(outputText(output.error));
  return outputExitCode(output.error);
}

async function run(invocation: Invocation, words: readonly string[]): Promise<number> {
  const { address, args } = takeAddress(words);
  invocation.address = address;
  try {
    const root = await program(invocation, args[0]);
    await root.parseAsync([...args], { from: "user" });
    return invocation.exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
    if (isOurs(thrown) && !invocation.isVerbose) printNotice(`${thrown.code}: ${thrown.message}`);
    else printStack(thrown);
    return exitCodeFor(thrown);
  }
}

/** The whole command, or only the subcommand that the first word names. */
async function program(invocation: Invocation, firstWord = ""): Promise<Command> {
  const root = new Command("weighbridge")
    .description("A parameter server: starts clusters, trains on them, and looks after them.")
    .version(packageJson.version)
    .enablePositionalOptions()
    .exitOverride()
    // The full usage would leave no room for the summary in 80 columns.
    .configureHelp({ ...helpStyle(invocation), subcommandTerm: (command) => command.name() })
    .configureOutput({ outputError: (message, write) => write(noticeText(usageText(message, root), columnsOf(process.stderr))) });
  addHelp(root, invocation, HELP);
  const isVersion = firstWord === "--version" || firstWord === "-V";
  for (const name of Object.hasOwn(COMMANDS, firstWord) ? [firstWord] : isVersion ? [] : COMMAND_NAMES) {
    const make = await COMMANDS[name]!();
    const command = make(invocation).copyInheritedSettings(root);
    if (name === "bench") command.helpOption(false); // Commander copies the option, but the bench prints its own help.
    for (const inner of command.commands) inner.copyInheritedSettings(command).option("--verbose", VERBOSE);
    root.addCommand(command.option("--verbose", VERBOSE));
  }
  return root.hook("preAction", (_, command) => {
    if (command.opts().verbose === true) invocation.isVerbose = true;
    const { address } = invocation;
    if (address !== undefined && !takesCluster(command))
      throw new WeighbridgeError("BAD_CONFIG", `weighbridge ${pathOf(command)} asks no running job, and takes no ${address}`);
  });
}

/**
 * What commander says of a mistake; of a flag that has another name now, that. Commander itself suggests no flag that
 * --help leaves out, and takes an unknown subcommand of a command that works alone for an argument.
 */
function usageText(message: string, root: Command): string {
  const [, name = "", word = ""] = /^error: too many arguments for '([\w-]+)'.* got \d+: (.*?)(?:,|\.$)/.exec(message.trimEnd()) ?? [];
  const inside = root.commands.find((command) => command.name() === name)?.commands ?? [];
  if (inside.length > 0)
    return `weighbridge: ${name} has no command '${word}'; there are ${inside.map((command) => command.name()).join(", ")}\n`;
  const [, flag = ""] = /^error: unknown option '(--[\w-]+)/.exec(message) ?? [];
  const renamed = newFlag(flag);
  if (renamed !== undefined) return `weighbridge: ${flag} is now called ${renamed}\n`;
  const text = message.replace(/^error: /, "weighbridge: ");
  if (flag === "" || text.includes("Did you mean")) return text;
  const commands = root.commands.flatMap((command) => [command, ...command.commands]);
  const flags = commands.flatMap(({ options }) => options.flatMap(({ long }) => long ?? []));
  const nearest = nearestName(
    flag,
    flags.filter((other) => other !== flag && isSlip(flag, other)),
  );
  return nearest === undefined ? text : `${text.trimEnd()}\n(Did you mean ${nearest}?)\n`;
}

/** "checkpoint inspect" */
function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}

function printStack(thrown: unknown): void {
  tellSourceLines(thrown);
  process.stderr.write(`weighbridge: ${inspect(thrown)}\n`);
}
