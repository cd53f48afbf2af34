// main — the `weighbridge` command: finds the subcommand, and turns a failure into a line and an exit code.
//
//   0        done
//   1        failed; the line says why
//   2        the command line or the configuration is not valid
//   128 + n  ended by signal n

import { inspect } from "node:util";
import { Command, CommanderError } from "commander";
import packageJson from "weighbridge/package.json" with { type: "json" };
import { errorText, exitCodeFor, isOurs, USAGE_EXIT_CODE } from "../node/launcher/process-errors.ts";
import { helpText, type Invocation } from "./command-parts.ts";
import { isReaderGone, outputExitCode, outputText, StandardOutput } from "./standard-output.ts";
import { watchStarter } from "./starter.ts";

const VERBOSE = "print errors with their stacks";
/** Each is loaded when it is needed: a process that starts others need not load what they run. */
const COMMANDS: Readonly<Record<string, () => Promise<(invocation: Invocation) => Command>>> = {
  train: async () => (await import("./train.ts")).trainCommand,
  launch: async () => (await import("./launch.ts")).launchCommand,
  scheduler: async () => (await import("./scheduler.ts")).schedulerCommand,
  server: async () => (await import("./server.ts")).serverCommand,
  worker: async () => (await import("./worker.ts")).workerCommand,
  status: async () => (await import("./status.ts")).statusCommand,
  scale: async () => (await import("./scale.ts")).scaleCommand,
  checkpoint: async () => (await import("./checkpoint.ts")).checkpointCommand,
  bench: async () => (await import("./bench.ts")).benchCommand,
};

export const COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS);

const MORE_HELP = `
Exit codes: 0 done; 1 failed, and the last line says why; 2 the command line or the configuration is not valid;
130 Ctrl-C, and 128 + n for any signal n; 141 (SIGPIPE) when nobody reads the output any more.

Examples:
  $ weighbridge train lenet
  $ weighbridge launch -s 2 -w 2 -- script.ts
  $ weighbridge status --scheduler-port 9700
  $ weighbridge launch --help`;

/** Runs the command line (without node and the script's name). Returns the exit code; prints errors, throws none. */
export async function main(args: readonly string[]): Promise<number> {
  watchStarter();
  process.stderr.on("error", () => {}); // There is nowhere left to report it.
  const output = new StandardOutput(process.stdout);
  const invocation: Invocation = { output, exitCode: 0, isVerbose: process.env.WEIGHBRIDGE_LOG_LEVEL === "debug" };
  const exitCode = await run(invocation, args);
  await output.flush();
  if (exitCode !== 0 || output.error === undefined) return exitCode;
  if (!isReaderGone(output.error)) process.stderr.write(`weighbridge: ${outputText(output.error)}\n`);
  return outputExitCode(output.error);
}

async function run(invocation: Invocation, args: readonly string[]): Promise<number> {
  try {
    const root = await program(invocation, args[0]);
    await root.parseAsync([...args], { from: "user" });
    return invocation.exitCode;
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
    process.stderr.write(`${textOf(thrown, invocation)}\n`);
    return exitCodeFor(thrown);
  }
}

/** The whole command, or only the subcommand that the first word names. */
async function program(invocation: Invocation, firstWord = ""): Promise<Command> {
  const root = new Command("weighbridge")
    .description("A parameter server: starts clusters of schedulers, servers and workers, and looks after them.")
    .version(packageJson.version)
    .enablePositionalOptions()
    .exitOverride()
    // The full usage would leave no room for the summary in 80 columns.
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .configureOutput({ outputError: (message, write) => write(message.replace(/^error: /, "weighbridge: ")) })
    .addHelpText("after", helpText(MORE_HELP));
  for (const name of Object.hasOwn(COMMANDS, firstWord) ? [firstWord] : Object.keys(COMMANDS)) {
    const make = await COMMANDS[name]!();
    const command = make(invocation).copyInheritedSettings(root);
    if (name === "bench") command.helpOption(false); // Commander copies the option, but the bench prints its own help.
    for (const inner of command.commands) inner.copyInheritedSettings(command).option("--verbose", VERBOSE);
    root.addCommand(command.option("--verbose", VERBOSE));
  }
  return root.hook("preAction", (_, command) => {
    if (command.opts().verbose === true) invocation.isVerbose = true;
  });
}

function textOf(thrown: unknown, { isVerbose }: Invocation): string {
  if (isOurs(thrown) && !isVerbose) return errorText(thrown);
  return `weighbridge: ${inspect(thrown)}`;
}
