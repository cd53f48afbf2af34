// command-parts — what the commands share: the invocation, configuration keys as flags, numbers among the arguments,
// and help text that fits the terminal, as commander's own does.

import { type AddHelpTextContext, type Command, InvalidArgumentError, Option } from "commander";
import { describeKeys } from "../node/config/describe-keys.ts";
import type { StandardOutput } from "./standard-output.ts";

export type Flags = Readonly<Record<string, unknown>>;

/** `2..8`. */
const RANGE = /^(?<least>.*?)\.\.(?<most>.*)$/;
const HEADING = "Configuration (each also by its variable, or in a file):";

export type FlagChoice = {
  /** The keys to offer; all when left out. */
  readonly only?: readonly string[];
  readonly except?: readonly string[];
  /** Defaults of this command that differ from the usual ones. */
  readonly defaults?: Readonly<Record<string, string | number>>;
};

export function addConfigFlags(command: Command, { only, except = [], defaults = {} }: FlagChoice = {}): Command {
  for (const { name, flag, description, default: standard, variable } of describeKeys()) {
    if (except.includes(name) || (only !== undefined && !only.includes(name))) continue;
    const option = new Option(flag, `${description} [${defaults[name] ?? standard}; ${variable}]`);
    command.addOption(option.helpGroup(HEADING));
    // A range reads better as --workers 2..8, and people of other launchers type that.
    if (name === "workerCount") command.addOption(new Option("--workers <range>").conflicts("workerCount").hideHelp());
  }
  return command;
}

/** The part of commander's flags that `loadConfig` reads; of a range of workers both ends. */
export function configFlags({ workers, ...flags }: Flags): Flags {
  const keys = new Set(describeKeys().map(({ flagKey }) => flagKey));
  const given = Object.fromEntries(Object.entries(flags).filter(([key]) => keys.has(key)));
  const counts = workers ?? flags.workerCount;
  if (typeof counts !== "string") return given;
  const { least = counts, most } = RANGE.exec(counts)?.groups ?? {};
  return { ...given, workerCount: least, ...(most === undefined ? {} : { workerCountMax: most }) };
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

export type Invocation = {
  readonly output: StandardOutput;
  /** The exit code of a command that ends without an error but not successfully. */
  exitCode: number;
  /** Print errors with their stacks. */
  isVerbose: boolean;
};
