// command-parts — what the commands share: the invocation, configuration keys as flags, numbers and times among the
// arguments, and help that fits the terminal: --help has what most people need, --help-all has everything.

import { type AddHelpTextContext, type Command, Help, type HelpConfiguration, InvalidArgumentError, Option } from "commander";
import { describeKeys } from "../node/config/describe-keys.ts";
import { hasUnit, milliseconds } from "../node/config/value-kind.ts";
import type { StandardOutput } from "./standard-output.ts";

export type Flags = Readonly<Record<string, unknown>>;

/** `2..8`. */
const RANGE = /^(?<least>.*?)\.\.(?<most>.*)$/;
const HEADING = "Configuration (each also by its variable, or in a file):";

export type FlagChoice = {
  /** The keys that --help shows. */
  readonly common: readonly string[];
  /** The keys to offer; all when left out. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /** Defaults of this command that differ from the usual ones. */
  readonly defaults?: Readonly<Record<string, string | number>>;
};

export function addConfigFlags(
  command: Command,
  invocation: Invocation,
  { common, only, except = [], defaults = {} }: FlagChoice,
): Command {
  const { isHelpAll } = invocation;
  for (const { name, flag, description, summary, default: standard, variable } of describeKeys()) {
    if (except.includes(name) || (only !== undefined && !only.includes(name))) continue;
    const full = `${description} [${defaults[name] ?? standard}; ${variable}]`;
    const short = `${summary}${defaults[name] === undefined ? "" : ` [${defaults[name]}]`}`;
    const option = name === "resume" ? resumeOption(short, invocation) : new Option(flag, short);
    if (isHelpAll) option.helpGroup(HEADING).description = full;
    command.addOption(option.hideHelp(!isHelpAll && !common.includes(name)));
    if (name === "sharedMemory") command.addOption(new Option("--no-shared-memory").hideHelp());
  }
  return command;
}

/** As the key `resume` reads it: the directory of checkpoints that the command has anyway. */
export const RESUME_AUTO = "auto";

/** `--resume`, or `--resume=DIR`: a directory behind a space would be the script, or a task. */
export function resumeOption(description: string, { words }: Invocation): Option {
  const option = new Option("--resume [=directory]", description).preset(RESUME_AUTO);
  return option.argParser((directory: string) => {
    if (directory === RESUME_AUTO || words.includes(`--resume=${directory}`)) return directory;
    throw new InvalidArgumentError(`Write a directory behind "=", as --resume=${directory}, and what is to run behind "--".`);
  });
}

/** The port of the scheduler, wherever a command starts one. */
export function portOption(standard: string): Option {
  return new Option("--port, --scheduler-port <port>", `the scheduler's port [${standard}]`);
}

/** What an unknown flag is called now; undefined if it never was one. */
export function newFlag(flag: string): string | undefined {
  if (flag === "--port") return "--scheduler-port (the scheduler's), or --listen-port (this node's own)";
  if (flag === "--request-timeout-ms")
    return "--request-timeout, or --timeout of checkpoint save and restore, and takes a time such as 5min";
  const key = describeKeys().find(({ oldFlag }) => oldFlag === flag);
  if (key === undefined) return undefined;
  const [, name = ""] = /(--[\w-]+)/.exec(key.flag) ?? [];
  return flag.endsWith("-ms") ? `${name}, and takes a time with its unit, such as 5s` : name;
}

/** The part of commander's flags that `loadConfig` reads; of a range of workers both ends. */
export function configFlags(flags: Flags): Flags {
  const keys = new Set(describeKeys().map(({ flagKey }) => flagKey));
  const given = Object.fromEntries(Object.entries(flags).filter(([key]) => keys.has(key)));
  const { workers } = flags;
  if (typeof workers !== "string") return given;
  const { least = workers, most } = RANGE.exec(workers)?.groups ?? {};
  return { ...given, workers: least, ...(most === undefined ? {} : { workersMax: most }) };
}

/** What every command takes, which only --help-all shows. */
const COMMON_FLAGS: readonly (string | undefined)[] = ["--help", "--verbose", "--version"];

/**
 * How commander lays help out: our descriptions say what a default is, and `--port` is enough of a name for one flag.
 * --help fits a screen of 24 lines, with the prompt below it: it has no arguments, which the usage names, and none of
 * what every command takes.
 */
export function helpStyle({ isHelpAll }: Pick<Invocation, "isHelpAll">): HelpConfiguration {
  const all = new Help();
  const brief: HelpConfiguration = {
    visibleArguments: () => [],
    visibleCommands: (command) => all.visibleCommands(command).filter((inner) => inner.name() !== "help"),
    visibleOptions: (command) => {
      const isRoot = command.parent === null;
      return all.visibleOptions(command).filter(({ long }) => !isRoot && !COMMON_FLAGS.includes(long));
    },
  };
  return {
    optionDescription: ({ description }) => description,
    argumentDescription: ({ description }) => description,
    optionTerm: ({ flags }) => flags.replace("--port, --scheduler-port", "--port"),
    ...(isHelpAll ? {} : brief),
  };
}

export type HelpTexts = {
  /** What most people need to know. */
  readonly about?: string;
  /** For --help-all. */
  readonly more?: string;
  /** Command lines, without "weighbridge"; --help has the first ones. */
  readonly examples: readonly string[];
  /** How many of them --help has. */
  readonly briefCount?: number;
};

const BRIEF_EXAMPLES = 2;

/** Adds --help-all, and the text below the options. */
export function addHelp(
  command: Command,
  { isHelpAll }: Invocation,
  { about = "", more = "", examples, briefCount = BRIEF_EXAMPLES }: HelpTexts,
): Command {
  const shown = isHelpAll ? examples : examples.slice(0, briefCount);
  const lines = shown.map((example) => `  $ weighbridge ${example}`).join("\n");
  const text = [about, isHelpAll ? more : "", `Example${shown.length === 1 ? "" : "s"}:\n${lines}`]
    .filter((part) => part !== "")
    .join("\n\n");
  command.option("--help-all", "show every option, and all there is to know");
  command.on("option:help-all", () => command.help());
  return command.addHelpText("after", helpText(`\n${text}`));
}

const WIDTH = 80;
/** Wider lines are hard to read. */
const WIDTH_MAX = 140;

/** For `addHelpText("after", …)`. */
export function helpText(text: string): (context: AddHelpTextContext) => string {
  return ({ command, error }) => {
    const { getOutHelpWidth, getErrHelpWidth } = command.configureOutput();
    return wrapHelp(text, (error ? getErrHelpWidth : getOutHelpWidth)?.() ?? WIDTH);
  };
}

/**
 * Refills paragraphs. A line that begins with spaces stays a line of its own; what does not fit continues below its
 * last column. Commands, after "$", stay on one line so that they can be copied.
 */
export function wrapHelp(text: string, width: number): string {
  const lines = text.replaceAll(/(?<=\S)\n(?=[^\s])/g, " ").split("\n"); // a line break inside a paragraph is a space
  return lines.flatMap((line) => (/^ *\$ /.test(line) ? [line] : wrapLine(line, Math.min(width, WIDTH_MAX)))).join("\n");
}

function wrapLine(line: string, width: number): string[] {
  const { 0: head = "" } = /^ *(?:\S+ {2,})?/.exec(line) ?? [];
  const indent = line.startsWith(" ") ? head.length : 0;
  const lines: string[] = [];
  let current = line.slice(0, indent);
  for (const word of line.slice(indent).split(" ")) {
    const isFirst = current.length === indent;
    if (!isFirst && current.length + 1 + word.length > width) {
      lines.push(current);
      current = `${" ".repeat(indent)}${word}`;
    } else current += isFirst ? word : ` ${word}`;
  }
  return [...lines, current];
}

export function wholeNumber({ min, max }: { readonly min: number; readonly max: number }): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
    return value;
  };
}

/** Reads a time with its unit, in milliseconds. */
export function timeOf(minMs: number): (text: string) => number {
  const kind = milliseconds(minMs);
  return (text) => {
    const read = hasUnit(text) ? kind.read(text) : undefined;
    if (read === undefined)
      throw new InvalidArgumentError(`Expected a time with its unit, such as 500ms, 60s or 5min, of at least ${minMs} ms.`);
    return read.value;
  };
}

export type Invocation = {
  readonly output: StandardOutput;
  /** Of the job that the command is about: `weighbridge://HOST:PORT`, among its words. */
  address?: string | undefined;
  /** The exit code of a command that ends without an error but not successfully. */
  exitCode: number;
  /** Print errors with their stacks. */
  isVerbose: boolean;
  /** The words of the command line. */
  readonly words: readonly string[];
  /** Help is asked for with all there is to know. */
  readonly isHelpAll: boolean;
};
